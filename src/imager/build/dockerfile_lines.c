#include "imager/build/dockerfile_lines.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "imager/build/dockerfile.h"
#include "imager/build/dockerfile_words.h"

int dockerfile_refuse(struct cay_error *err, unsigned line, const char *fmt, ...) {
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return error_set(err, CAY_INVALID_ARGUMENT, "Dockerfile:%u: %s", line, text);
}

/* A line without its end; points into the text. */
struct line {
    const char *start;
    size_t len;
};

static bool peek_line(const struct dockerfile_reader *r, struct line *ret) {
    if (r->at >= r->end)
        return false;
    const char *end = memchr(r->at, '\n', (size_t)(r->end - r->at));
    ret->start = r->at;
    ret->len = (size_t)((end == NULL ? r->end : end) - r->at);
    while (ret->len > 0 && ret->start[ret->len - 1] == '\r')
        ret->len--;
    return true;
}

static void skip_line(struct dockerfile_reader *r) {
    const char *end = memchr(r->at, '\n', (size_t)(r->end - r->at));
    r->at = end == NULL ? r->end : end + 1;
    r->line++;
}

static void trim_left(struct line *l) {
    while (l->len > 0 && isspace((unsigned char)l->start[0])) {
        l->start++;
        l->len--;
    }
}

static void trim_right(struct line *l) {
    while (l->len > 0 && isspace((unsigned char)l->start[l->len - 1]))
        l->len--;
}

static bool is_empty_or_comment(struct line l) {
    trim_left(&l);
    return l.len == 0 || l.start[0] == '#';
}

/* ---- directives ---- */

/* Takes "# key = value" apart. */
static bool split_directive(struct line l, struct line *key, struct line *value) {
    trim_left(&l);
    if (l.len == 0 || l.start[0] != '#')
        return false;
    const char *equals = memchr(l.start, '=', l.len);
    if (equals == NULL)
        return false;
    *key = (struct line){l.start + 1, (size_t)(equals - l.start - 1)};
    *value = (struct line){equals + 1, l.len - (size_t)(equals + 1 - l.start)};
    trim_left(key);
    trim_right(key);
    trim_left(value);
    trim_right(value);
    for (size_t i = 0; i < key->len; i++)
        if (!isalnum((unsigned char)key->start[i]))
            return false;
    return key->len > 0 && value->len > 0;
}

static bool key_is(struct line key, const char *name) {
    return key.len == strlen(name) && strncasecmp(key.start, name, key.len) == 0;
}

static int apply_directive(struct dockerfile_reader *r, struct dockerfile *file, struct line key,
                           struct line value, bool *seen_escape) {
    if (key_is(key, "escape")) {
        if (*seen_escape)
            return dockerfile_refuse(r->err, r->line, "the directive 'escape' stands twice");
        if (value.len != 1 || (*value.start != '\\' && *value.start != '`'))
            return dockerfile_refuse(r->err, r->line, "escape must be \\ or `");
        *seen_escape = true;
        file->escape = r->escape = *value.start;
    } else if (key_is(key, "syntax") && file->syntax == NULL) {
        file->syntax = strndup(value.start, value.len);
        if (file->syntax == NULL)
            return error_sys(r->err, ENOMEM, "reading the Dockerfile");
    }
    return 0;
}

int dockerfile_read_directives(struct dockerfile_reader *r, struct dockerfile *file) {
    struct line l, key, value;
    bool seen_escape = false;
    if (r->end - r->at >= 3 && memcmp(r->at, "\xef\xbb\xbf", 3) == 0)
        r->at += 3;
    while (peek_line(r, &l) && split_directive(l, &key, &value)) {
        if (!key_is(key, "escape") && !key_is(key, "syntax") && !key_is(key, "check"))
            return 0; /* a comment, and no directive may follow one */
        int e = apply_directive(r, file, key, value, &seen_escape);
        if (e < 0)
            return e;
        skip_line(r);
    }
    return 0;
}

/* ---- continuations ---- */

/* Removes the escape at the end that continues the line; an escaped escape does not. */
static bool take_continuation(struct line *l, char escape) {
    size_t n = l->len;
    while (n > 0 && (l->start[n - 1] == ' ' || l->start[n - 1] == '\t'))
        n--;
    if (n == 0 || l->start[n - 1] != escape)
        return false;
    if (n > 1 && l->start[n - 2] == escape)
        return false;
    l->len = n - 1;
    return true;
}

int dockerfile_read_line(struct dockerfile_reader *r, struct buf *text, unsigned *ret_line) {
    struct line l;
    bool started = false, continues = true;
    buf_clear(text);
    while (continues && peek_line(r, &l)) {
        if (is_empty_or_comment(l)) { /* between continued lines too */
            skip_line(r);
            continue;
        }
        if (!started) {
            *ret_line = r->line;
            trim_left(&l);
        }
        started = true;
        continues = take_continuation(&l, r->escape);
        (void)buf_append(text, l.start, l.len);
        skip_line(r);
    }
    if (text->failed)
        return error_sys(r->err, ENOMEM, "reading the Dockerfile");
    while (text->len > 0 && isspace((unsigned char)text->data[text->len - 1]))
        text->data[--text->len] = '\0';
    return started ? 1 : 0;
}

/* ---- heredocs ---- */

/* The name that a word announces: N<<NAME, N<<-NAME, with NAME quoted or not. */
static bool split_heredoc(const char *word, bool *strip, bool *expand, char *name, size_t size) {
    while (isdigit((unsigned char)*word))
        word++;
    if (!str_starts(word, "<<"))
        return false;
    word += 2;
    *strip = *word == '-';
    word += *strip;
    *expand = strpbrk(word, "'\"") == NULL;
    size_t n = 0;
    for (; *word != '\0'; word++) {
        if (*word == '<' || n + 1 >= size)
            return false;
        if (*word != '\'' && *word != '"')
            name[n++] = *word;
    }
    name[n] = '\0';
    return n > 0;
}

static struct heredoc *add_heredoc(struct instruction *in) {
    struct heredoc *list = realloc(in->heredocs, (in->heredoc_count + 1) * sizeof *list);
    if (list == NULL)
        return NULL;
    in->heredocs = list;
    list[in->heredoc_count] = (struct heredoc){0};
    return &list[in->heredoc_count++];
}

/* The lines up to the one that is the name. */
static int read_content(struct dockerfile_reader *r, const char *name, bool strip, char **ret) {
    _cleanup_(buf_free) struct buf content = BUF_INIT(DOCKERFILE_TEXT_MAX);
    unsigned first = r->line;
    struct line l;
    while (peek_line(r, &l)) {
        skip_line(r);
        while (strip && l.len > 0 && l.start[0] == '\t') {
            l.start++;
            l.len--;
        }
        if (l.len == strlen(name) && memcmp(l.start, name, l.len) == 0) {
            *ret = buf_take(&content);
            return *ret == NULL ? error_sys(r->err, ENOMEM, "reading the Dockerfile") : 0;
        }
        (void)buf_append(&content, l.start, l.len);
        (void)buf_putc(&content, '\n');
    }
    char shown[80];
    return dockerfile_refuse(r->err, first, "a heredoc is not closed: no line is '%s'",
                             str_escape(shown, sizeof shown, name));
}

int dockerfile_read_heredocs(struct dockerfile_reader *r, const char *text,
                             struct instruction *in) {
    _cleanup_(strv_free) struct strv words = {0};
    if (strstr(text, "<<") == NULL)
        return 0;
    if (words_split(text, r->escape, DOCKERFILE_WORDS_MAX, &words) < 0)
        return dockerfile_refuse(r->err, in->line, "too many words");
    for (size_t i = 0; i < words.len; i++) {
        char name[128];
        bool strip, expand;
        if (!split_heredoc(words.v[i], &strip, &expand, name, sizeof name))
            continue;
        if (in->heredoc_count >= DOCKERFILE_HEREDOCS_MAX)
            return dockerfile_refuse(r->err, in->line, "more than %d heredocs",
                                     DOCKERFILE_HEREDOCS_MAX);
        struct heredoc *h = add_heredoc(in);
        if (h == NULL || (h->name = strdup(name)) == NULL)
            return error_sys(r->err, ENOMEM, "reading the Dockerfile");
        h->expand = expand;
        int e = read_content(r, name, strip, &h->content);
        if (e < 0)
            return e;
    }
    return 0;
}
