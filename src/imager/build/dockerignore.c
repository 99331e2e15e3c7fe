#include "imager/build/dockerignore.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "imager/build/glob.h"

struct rule {
    struct glob *glob;
    bool exception; /* "!" */
};

struct dockerignore {
    struct rule *rules;
    size_t count;
    bool exceptions;
};

void dockerignore_free(struct dockerignore *d) {
    if (d == NULL)
        return;
    for (size_t i = 0; i < d->count; i++)
        glob_free(d->rules[i].glob);
    free(d->rules);
    free(d);
}

void dockerignore_freep(struct dockerignore **d) {
    dockerignore_free(*d);
}

/* Drops ".", ".." where it has something to go up from, empty parts and the first slash. */
static void clean(char *pattern) {
    char *parts[PATH_MAX / 2];
    size_t count = 0, at = 0;
    char *save = NULL, copy[PATH_MAX];
    if (str_copy(copy, sizeof copy, pattern) < 0)
        return; /* too long for a pattern, which glob_compile refuses */
    for (char *p = strtok_r(copy, "/", &save); p != NULL; p = strtok_r(NULL, "/", &save)) {
        if (strcmp(p, ".") == 0)
            continue;
        if (strcmp(p, "..") == 0)
            count -= count > 0;
        else
            parts[count++] = p;
    }
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(parts[i]);
        if (i > 0)
            pattern[at++] = '/';
        memcpy(pattern + at, parts[i], n);
        at += n;
    }
    pattern[at] = '\0';
}

static int add_rule(struct dockerignore *d, char *pattern) {
    bool exception = pattern[0] == '!';
    if (exception)
        for (pattern++; isspace((unsigned char)*pattern);)
            pattern++;
    if (*pattern == '\0')
        return -EINVAL;
    clean(pattern);
    if (*pattern == '\0') /* "/" and "." are the context itself, which is always there */
        return 0;
    if (d->count >= DOCKERIGNORE_PATTERNS_MAX)
        return -E2BIG;
    struct rule *rules = realloc(d->rules, (d->count + 1) * sizeof *rules);
    if (rules == NULL)
        return -ENOMEM;
    d->rules = rules;
    rules[d->count] = (struct rule){.exception = exception};
    int r = glob_compile(pattern, GLOB_DEEP, &rules[d->count].glob);
    if (r < 0)
        return r;
    d->count++;
    d->exceptions = d->exceptions || exception;
    return 0;
}

static int refuse(const char *name, unsigned line, int why, struct cay_error *err) {
    if (why == -ENOMEM)
        return error_sys(err, ENOMEM, "reading %s", name);
    if (why == -E2BIG)
        return error_set(err, CAY_INVALID_ARGUMENT, "%s:%u: more than %d patterns", name, line,
                         DOCKERIGNORE_PATTERNS_MAX);
    (void)error_set(err, CAY_INVALID_ARGUMENT, "%s:%u: this is no pattern", name, line);
    return error_remedy(err, "patterns are like *.log, **/build, [a-z]?.txt or !keep.log");
}

static char *trim(char *line) {
    while (isspace((unsigned char)*line))
        line++;
    size_t n = strlen(line);
    while (n > 0 && isspace((unsigned char)line[n - 1]))
        line[--n] = '\0';
    return line;
}

static int parse_lines(struct dockerignore *d, const char *name, char *text,
                       struct cay_error *err) {
    unsigned number = 1;
    for (char *line = text, *next; line != NULL; line = next, number++) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        if (line[0] == '#')
            continue;
        char *pattern = trim(line);
        int r = *pattern == '\0' ? 0 : add_rule(d, pattern);
        if (r < 0)
            return refuse(name, number, r, err);
    }
    return 0;
}

int dockerignore_parse(const char *name, const char *text, size_t len, struct dockerignore **ret,
                       struct cay_error *err) {
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        len -= 3;
    }
    if (len > DOCKERIGNORE_TEXT_MAX || memchr(text, '\0', len) != NULL)
        return error_set(err, CAY_INVALID_ARGUMENT, "%s: no text of at most %d bytes", name,
                         DOCKERIGNORE_TEXT_MAX);
    _cleanup_(freep) char *copy = strndup(text, len);
    _cleanup_(dockerignore_freep) struct dockerignore *d = calloc(1, sizeof *d);
    if (copy == NULL || d == NULL)
        return error_sys(err, ENOMEM, "reading %s", name);
    int r = parse_lines(d, name, copy, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(d);
    return 0;
}

static bool rule_matches(const struct rule *rule, const char *path) {
    for (size_t n = strcspn(path, "/");; n += 1 + strcspn(path + n + 1, "/")) {
        if (glob_matches(rule->glob, path, n))
            return true;
        if (path[n] == '\0')
            return false;
    }
}

bool dockerignore_matches(const struct dockerignore *d, const char *path) {
    bool ignored = false;
    for (size_t i = 0; d != NULL && i < d->count; i++)
        if (d->rules[i].exception == ignored && rule_matches(&d->rules[i], path))
            ignored = !ignored;
    return ignored;
}

bool dockerignore_has_exceptions(const struct dockerignore *d) {
    return d != NULL && d->exceptions;
}
