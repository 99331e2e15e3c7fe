#include "imager/build/dockerfile_words.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r' || c == '\n';
}

static int push(struct strv *ret, const char *start, size_t len, size_t max) {
    if (ret->len >= max)
        return -E2BIG;
    return strv_pushf(ret, "%.*s", (int)len, start);
}

/* Where the word at p ends. An escape hides the next character, but not in single quotes. */
static const char *word_end(const char *p, char escape) {
    char quote = '\0';
    for (; *p != '\0' && (quote != '\0' || !is_blank(*p)); p++) {
        if (*p == escape && quote != '\'' && p[1] != '\0')
            p++;
        else if (quote != '\0')
            quote = *p == quote ? '\0' : quote;
        else if (*p == '\'' || *p == '"')
            quote = *p;
    }
    return p;
}

int words_split(const char *text, char escape, size_t max, struct strv *ret) {
    for (const char *p = text;;) {
        while (is_blank(*p))
            p++;
        if (*p == '\0')
            return 0;
        const char *end = word_end(p, escape);
        int r = push(ret, p, (size_t)(end - p), max);
        if (r < 0)
            return r;
        p = end;
    }
}

int words_split_blanks(const char *text, size_t max, struct strv *ret) {
    for (const char *p = text;;) {
        while (is_blank(*p))
            p++;
        const char *start = p;
        while (*p != '\0' && !is_blank(*p))
            p++;
        if (p == start)
            return 0;
        int r = push(ret, start, (size_t)(p - start), max);
        if (r < 0)
            return r;
    }
}

/* ---- expansion ---- */

struct expansion {
    const struct word_scope *scope;
    const char *at;
    const char *whole; /* for errors */
    struct buf *out;
    unsigned depth;
    bool heredoc; /* quotes are ordinary characters */
    struct cay_error *err;
};

static int refuse(struct expansion *x, const char *why) {
    char shown[120];
    int r = error_set(x->err, CAY_INVALID_ARGUMENT, "'%s': %s",
                      str_escape(shown, sizeof shown, x->whole), why);
    (void)error_remedy(x->err, "write $NAME, ${NAME} or ${NAME:-default}; put an escape before a "
                               "'$' that means itself");
    return r;
}

static int expand_until(struct expansion *x, char stop);

/* The name at x->at: a word, a number, or one special character. Its length. */
static size_t name_length(const char *p) {
    size_t n = 0;
    if (isalpha((unsigned char)*p) || *p == '_') {
        while (isalnum((unsigned char)p[n]) || p[n] == '_')
            n++;
        return n;
    }
    while (isdigit((unsigned char)p[n]))
        n++;
    return n > 0 ? n : *p != '\0' && strchr("@*#?-$!", *p) != NULL ? 1 : 0;
}

static int take_name(struct expansion *x, char *name, size_t size) {
    size_t n = name_length(x->at);
    if (n >= size)
        return refuse(x, "the name of a variable is too long");
    memcpy(name, x->at, n);
    name[n] = '\0';
    x->at += n;
    return (int)n;
}

/* The word of ${NAME:-word}, up to the brace, which is left behind. */
static int expand_alternative(struct expansion *x, bool wanted) {
    if (++x->depth > WORD_DEPTH_MAX)
        return refuse(x, "too many ${ within each other");
    struct buf *out = x->out;
    _cleanup_(buf_free) struct buf dropped = BUF_INIT(WORD_MAX);
    x->out = wanted ? out : &dropped;
    int r = expand_until(x, '}');
    x->out = out;
    x->depth--;
    if (r < 0)
        return r;
    if (*x->at != '}')
        return refuse(x, "a '${' is not closed");
    x->at++;
    return 0;
}

/* ${NAME:?word}: the word is the message. */
static int require_value(struct expansion *x, const char *name, bool has) {
    _cleanup_(buf_free) struct buf message = BUF_INIT(WORD_MAX);
    struct buf *out = x->out;
    x->out = &message;
    int r = expand_alternative(x, true);
    x->out = out;
    if (r < 0 || has)
        return r;
    char shown[200];
    r = error_set(
        x->err, CAY_INVALID_ARGUMENT, "%s: %s", name,
        str_escape(shown, sizeof shown, message.len > 0 ? buf_text(&message) : "is not set"));
    (void)error_remedy(x->err, "set it by ENV, by ARG, or by --build-arg %s=…", name);
    return r;
}

static int expand_braces(struct expansion *x) {
    char name[256];
    int r = take_name(x, name, sizeof name);
    if (r < 0)
        return r;
    if (r == 0)
        return refuse(x, "a '${' without a name");
    const char *value = x->scope->lookup(x->scope->user, name);
    if (*x->at == '}') {
        x->at++;
        return buf_puts(x->out, value != NULL ? value : "");
    }
    bool empty_is_unset = *x->at == ':';
    if (empty_is_unset)
        x->at++;
    bool has = value != NULL && (!empty_is_unset || value[0] != '\0');
    switch (*x->at == '\0' ? '\0' : *x->at++) {
    case '-':
        if (has)
            (void)buf_puts(x->out, value);
        return expand_alternative(x, !has);
    case '+':
        return expand_alternative(x, has);
    case '?':
        if (has)
            (void)buf_puts(x->out, value);
        return require_value(x, name, has);
    case '\0':
        return refuse(x, "a '${' is not closed");
    default:
        return refuse(x, "this modifier of a variable is not supported");
    }
}

static int expand_dollar(struct expansion *x) {
    char name[256];
    x->at++;
    if (*x->at == '{') {
        x->at++;
        return expand_braces(x);
    }
    int r = take_name(x, name, sizeof name);
    if (r < 0)
        return r;
    if (r == 0)
        return buf_putc(x->out, '$');
    const char *value = x->scope->lookup(x->scope->user, name);
    return buf_puts(x->out, value != NULL ? value : "");
}

static int expand_single(struct expansion *x) {
    const char *end = strchr(x->at + 1, '\'');
    if (end == NULL)
        return refuse(x, "a ' is not closed");
    (void)buf_append(x->out, x->at + 1, (size_t)(end - x->at - 1));
    x->at = end + 1;
    return 0;
}

static int expand_double(struct expansion *x) {
    for (x->at++; *x->at != '"';) {
        int r = 0;
        if (*x->at == '\0')
            return refuse(x, "a \" is not closed");
        if (*x->at == '$') {
            r = expand_dollar(x);
        } else {
            char next = *x->at == x->scope->escape ? x->at[1] : '\0';
            bool escapes = next != '\0' && (next == '"' || next == '$' || next == x->scope->escape);
            x->at += escapes;
            r = buf_putc(x->out, *x->at++);
        }
        if (r < 0)
            return r;
    }
    x->at++;
    return 0;
}

/* In a heredoc only what would be expanded can be escaped. */
static int expand_escape(struct expansion *x) {
    char next = x->at[1];
    if (x->heredoc && next != '$' && next != x->scope->escape)
        return buf_putc(x->out, *x->at++);
    x->at += next == '\0' ? 1 : 2;
    return next == '\0' ? 0 : buf_putc(x->out, next);
}

static int expand_until(struct expansion *x, char stop) {
    while (*x->at != '\0' && *x->at != stop) {
        int r;
        if (*x->at == '\'' && !x->heredoc)
            r = expand_single(x);
        else if (*x->at == '"' && !x->heredoc)
            r = expand_double(x);
        else if (*x->at == '$')
            r = expand_dollar(x);
        else if (*x->at == x->scope->escape)
            r = expand_escape(x);
        else
            r = buf_putc(x->out, *x->at++);
        if (r < 0)
            return r;
    }
    return 0;
}

static int run(struct expansion *x) {
    int r = expand_until(x, '\0');
    if (x->out->failed)
        return error_set(x->err, CAY_INVALID_ARGUMENT, "a word grows beyond %d bytes", WORD_MAX);
    return r;
}

int word_expand(const struct word_scope *scope, const char *text, struct buf *out,
                struct cay_error *err) {
    struct expansion x = {.scope = scope, .at = text, .whole = text, .out = out, .err = err};
    return run(&x);
}

char *word_expanded(const struct word_scope *scope, const char *text, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WORD_MAX);
    if (word_expand(scope, text, &b, err) < 0)
        return NULL;
    return buf_take(&b);
}

char *word_expanded_heredoc(const struct word_scope *scope, const char *text,
                            struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WORD_MAX);
    struct expansion x = {
        .scope = scope, .at = text, .whole = text, .out = &b, .heredoc = true, .err = err};
    if (run(&x) < 0)
        return NULL;
    return buf_take(&b);
}
