/* Finding files by name and lines by content. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <regex.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "init/files/files.h"
#include "init/files/walk.h"

/* Where the answers of find and search go, and how many more there may be. */
struct answers {
    const struct op_conn *c;
    uint64_t left;
    uint64_t sent;
    bool truncated;
    struct buf b;
};

static void answers_free(struct answers *a) {
    buf_free(&a->b);
}

static struct answers answers_of(const struct op_conn *c, const struct wire_message *request) {
    return (struct answers){
        .c = c,
        .left = files_limit(request, FILES_ENTRIES_DEFAULT),
        .b = BUF_INIT(WIRE_MESSAGE_MAX),
    };
}

/* Sends what is in a->b as an entry; WALK_STOP when it would be one too many. */
static int send_answer(struct answers *a, struct cay_error *err) {
    a->truncated = a->left == 0;
    if (a->truncated)
        return WALK_STOP;
    a->left--;
    a->sent++;
    return files_send(a->c, WIRE_ENTRY, &a->b, err);
}

static int send_summary(struct answers *a, struct cay_error *err) {
    buf_clear(&a->b);
    wire_put_number(&a->b, WIRE_TAG_COUNT, a->sent);
    wire_put_number(&a->b, WIRE_TAG_TRUNCATED, a->truncated);
    return files_send(a->c, WIRE_DONE, &a->b, err);
}

/* What find and search need of a request. */
struct query {
    char start[PATH_MAX]; /* where to look, free of symlinks */
    const char *shown;    /* the same as the request has it: answers begin with it */
    const char *pattern;
};

static int parse_query(const struct op_conn *c, const struct wire_message *request, struct query *q,
                       struct cay_error *err) {
    char path[PATH_MAX];
    int r = files_path(c, request, WIRE_TAG_PATH, path, err);
    if (r == 0)
        r = files_resolve(path, q->start, err);
    if (r < 0)
        return r;
    q->shown = request->string[WIRE_TAG_PATH];
    q->pattern = request->string[WIRE_TAG_PATTERN];
    if (q->pattern == NULL || q->pattern[0] == '\0') {
        error_set(err, CAY_INVALID_ARGUMENT, "empty pattern");
        return error_remedy(err, "give a pattern, such as '*.py' for names or a word for content");
    }
    return 0;
}

/* ---- names ---- */

struct name_search {
    struct answers *answers;
    const char *pattern;
    bool whole; /* the pattern has a slash: match the path below the start, not the name */
};

static int visit_name(void *arg, const struct walk_entry *e, struct cay_error *err) {
    struct name_search *s = arg;
    if (fnmatch(s->pattern, s->whole ? e->below : e->name, 0) != 0)
        return WALK_ON;
    char target[PATH_MAX];
    bool is_link = S_ISLNK(e->st->st_mode);
    if (is_link)
        files_read_link(e->dirfd, e->name, target);
    buf_clear(&s->answers->b);
    files_put_stat(&s->answers->b, e->path, e->st, is_link ? target : NULL);
    return send_answer(s->answers, err);
}

int op_find_names(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    struct query q;
    int r = parse_query(c, request, &q, err);
    if (r < 0)
        return r;
    _cleanup_(answers_free) struct answers a = answers_of(c, request);
    struct name_search s = {.answers = &a, .pattern = q.pattern};
    s.whole = strchr(q.pattern, '/') != NULL;
    struct walk_options options = {.forgiving = true, .below_only = true};
    r = walk_tree(q.start, q.shown, options, visit_name, &s, err);
    return r < 0 ? r : send_summary(&a, err);
}

/* ---- content ---- */

enum {
    WINDOW = 1024 * 1024, /* a longer line is searched in pieces */
    CHUNK = 64 * 1024,
    TEXT_MAX = 1024,
};

struct content_search {
    struct answers *answers;
    const char *pattern;
    bool ignore_case;
    regex_t *regex; /* NULL: the pattern is literal */
    struct buf window;
    const char *path; /* of the file at hand */
    uint64_t line;
};

static bool line_matches(const struct content_search *s, const char *line) {
    if (s->regex != NULL)
        return regexec(s->regex, line, 0, NULL, 0) == 0;
    return (s->ignore_case ? strcasestr(line, s->pattern) : strstr(line, s->pattern)) != NULL;
}

/* Reports the NUL-terminated line if it matches. */
static int check_line(struct content_search *s, char *line, size_t len, struct cay_error *err) {
    if (len > 0 && line[len - 1] == '\r')
        line[--len] = '\0';
    if (!line_matches(s, line))
        return 0;
    if (len > TEXT_MAX) {
        len = TEXT_MAX;
        while (len > 0 && ((unsigned char)line[len] & 0xC0) == 0x80)
            len--; /* not in the middle of a character */
        line[len] = '\0';
    }
    struct buf *b = &s->answers->b;
    buf_clear(b);
    wire_put_string(b, WIRE_TAG_PATH, s->path);
    wire_put_number(b, WIRE_TAG_LINE, s->line);
    wire_put_string(b, WIRE_TAG_TEXT, line);
    return send_answer(s->answers, err);
}

/* Checks the complete lines of the window and drops them; all of it when no more can follow. */
static int check_window(struct content_search *s, bool all, struct cay_error *err) {
    char *at = s->window.data, *end = at + s->window.len;
    while (at < end) {
        char *newline = memchr(at, '\n', (size_t)(end - at));
        if (newline == NULL && !all)
            break;
        char *stop = newline != NULL ? newline : end; /* a buffer has a byte behind its end */
        *stop = '\0';
        int r = check_line(s, at, (size_t)(stop - at), err);
        if (r != 0)
            return r;
        s->line += newline != NULL;
        at = newline != NULL ? newline + 1 : end;
    }
    buf_consume(&s->window, (size_t)(at - s->window.data));
    return 0;
}

/* Reads more into the window: bytes, 0 at the end or in a binary file. */
static ssize_t fill_window(struct content_search *s, int fd) {
    char *to = buf_reserve(&s->window, CHUNK);
    if (to == NULL)
        return -ENOMEM;
    ssize_t n;
    do
        n = read(fd, to, CHUNK);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if (memchr(to, '\0', (size_t)n) != NULL) {
        buf_clear(&s->window);
        return 0;
    }
    buf_commit(&s->window, (size_t)n);
    return n;
}

static int search_file(struct content_search *s, int fd, struct cay_error *err) {
    buf_clear(&s->window);
    s->line = 1;
    for (;;) {
        ssize_t n = fill_window(s, fd);
        if (n < 0)
            return files_error(err, (int)-n, "reading", s->path);
        if (s->window.len == 0)
            return 0;
        bool full = s->window.max - s->window.len < CHUNK;
        int r = check_window(s, n == 0 || full, err);
        if (r != 0 || n == 0)
            return r;
    }
}

static int visit_content(void *arg, const struct walk_entry *e, struct cay_error *err) {
    struct content_search *s = arg;
    if (!S_ISREG(e->st->st_mode))
        return WALK_ON;
    _cleanup_(closep) int fd =
        openat(e->dirfd, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && e->below[0] == '\0')
        return files_error(err, errno, "reading", e->path);
    if (fd < 0)
        return WALK_ON; /* as with folders that this user may not read */
    s->path = e->path;
    return search_file(s, fd, err);
}

static int compile(const char *pattern, bool ignore_case, regex_t *ret, struct cay_error *err) {
    int r = regcomp(ret, pattern, REG_EXTENDED | REG_NOSUB | (ignore_case ? REG_ICASE : 0));
    if (r == 0)
        return 0;
    char why[128];
    (void)regerror(r, ret, why, sizeof why);
    error_set(err, CAY_INVALID_ARGUMENT, "'%.128s' is no regular expression: %s", pattern, why);
    return error_remedy(err, "use POSIX extended syntax, or search for the text literally");
}

static int search_content(const struct query *q, struct content_search *s, struct cay_error *err) {
    s->window = BUF_INIT(WINDOW);
    int r = walk_tree(q->start, q->shown, (struct walk_options){.forgiving = true}, visit_content,
                      s, err);
    buf_free(&s->window);
    return r < 0 ? r : send_summary(s->answers, err);
}

int op_search(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    struct query q;
    int r = parse_query(c, request, &q, err);
    if (r < 0)
        return r;
    _cleanup_(answers_free) struct answers a = answers_of(c, request);
    struct content_search s = {.answers = &a, .pattern = q.pattern};
    s.ignore_case = request->number[WIRE_TAG_IGNORE_CASE] != 0;
    if (request->number[WIRE_TAG_REGEX] == 0)
        return search_content(&q, &s, err);
    regex_t regex;
    r = compile(q.pattern, s.ignore_case, &regex, err);
    if (r < 0)
        return r;
    s.regex = &regex;
    r = search_content(&q, &s, err);
    regfree(&regex);
    return r;
}
