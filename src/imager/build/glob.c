#include "imager/build/glob.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"

enum token_kind {
    TOKEN_CHAR,
    TOKEN_ONE,   /* ? */
    TOKEN_CLASS, /* [...] */
    TOKEN_STAR,  /* anything within a name */
    TOKEN_DEEP,  /* "**" and a slash: any number of folders, none too */
    TOKEN_REST,  /* "**" at the end: anything */
};

struct token {
    enum token_kind kind;
    uint32_t c;
    bool negated;
    size_t first, count; /* of a class: its ranges */
};

struct range {
    uint32_t low, high;
};

struct glob {
    size_t count, range_count;
    struct token *tokens;
    struct range *ranges;
};

/* The character at *p; bytes that are no UTF-8 are characters of their own. */
static uint32_t next_char(const char **p, const char *end) {
    size_t n = str_utf8_length(*p, (size_t)(end - *p));
    const unsigned char *s = (const unsigned char *)*p;
    *p += n > 0 ? n : 1;
    switch (n) {
    case 1:
        return s[0];
    case 2:
        return (uint32_t)(s[0] & 0x1f) << 6 | (s[1] & 0x3f);
    case 3:
        return (uint32_t)(s[0] & 0x0f) << 12 | (uint32_t)(s[1] & 0x3f) << 6 | (s[2] & 0x3f);
    case 4:
        return (uint32_t)(s[0] & 0x07) << 18 | (uint32_t)(s[1] & 0x3f) << 12 |
               (uint32_t)(s[2] & 0x3f) << 6 | (s[3] & 0x3f);
    default:
        return 0x110000 + s[0];
    }
}

/* One end of a range, maybe escaped. */
static int class_char(const char **p, const char *end, uint32_t *ret) {
    if (*p < end && **p == '\\')
        ++*p;
    else if (*p < end && (**p == '-' || **p == ']'))
        return -EINVAL;
    if (*p >= end)
        return -EINVAL;
    *ret = next_char(p, end);
    return 0;
}

static int compile_class(struct glob *g, const char **p, const char *end, struct token *t) {
    t->kind = TOKEN_CLASS;
    t->first = g->range_count;
    t->negated = *p < end && **p == '^';
    *p += t->negated;
    while (*p < end && (**p != ']' || t->count == 0)) {
        struct range *r = &g->ranges[g->range_count];
        if (class_char(p, end, &r->low) < 0)
            return -EINVAL;
        r->high = r->low;
        if (*p < end && **p == '-') {
            ++*p;
            if (class_char(p, end, &r->high) < 0)
                return -EINVAL;
        }
        g->range_count++;
        t->count++;
    }
    if (*p >= end)
        return -EINVAL;
    ++*p;
    return 0;
}

/* `p` is behind the first star. */
static void compile_stars(const char **p, const char *end, enum glob_kind kind, struct token *t) {
    t->kind = TOKEN_STAR;
    if (kind != GLOB_DEEP || *p >= end || **p != '*')
        return;
    while (*p < end && **p == '*')
        ++*p;
    if (*p < end && **p == '/')
        ++*p;
    t->kind = *p < end ? TOKEN_DEEP : TOKEN_REST;
}

static int compile(struct glob *g, const char *p, const char *end, enum glob_kind kind) {
    while (p < end) {
        struct token *t = &g->tokens[g->count++];
        switch (*p) {
        case '*':
            p++;
            compile_stars(&p, end, kind, t);
            break;
        case '?':
            p++;
            t->kind = TOKEN_ONE;
            break;
        case '[':
            p++;
            if (compile_class(g, &p, end, t) < 0)
                return -EINVAL;
            break;
        case '\\':
            if (++p >= end)
                return -EINVAL;
            t->c = next_char(&p, end);
            break;
        default:
            t->c = next_char(&p, end);
        }
    }
    return 0;
}

int glob_compile(const char *pattern, enum glob_kind kind, struct glob **ret) {
    size_t len = strlen(pattern);
    if (len > GLOB_PATTERN_MAX)
        return -EINVAL;
    _cleanup_(glob_freep) struct glob *g = calloc(1, sizeof *g);
    if (g == NULL)
        return -ENOMEM;
    /* every token and every range takes at least one byte of the pattern */
    g->tokens = calloc(len + 1, sizeof *g->tokens);
    g->ranges = calloc(len + 1, sizeof *g->ranges);
    if (g->tokens == NULL || g->ranges == NULL)
        return -ENOMEM;
    if (compile(g, pattern, pattern + len, kind) < 0)
        return -EINVAL;
    *ret = TAKE_PTR(g);
    return 0;
}

void glob_free(struct glob *g) {
    if (g == NULL)
        return;
    free(g->tokens);
    free(g->ranges);
    free(g);
}

void glob_freep(struct glob **g) {
    glob_free(*g);
}

/* ---- matching: the set of tokens that could come next ---- */

struct states {
    uint64_t bits[GLOB_PATTERN_MAX / 64 + 1];
};

static bool has(const struct states *s, size_t i) {
    return (s->bits[i / 64] >> (i % 64) & 1) != 0;
}

static void stay(struct states *s, size_t i) {
    s->bits[i / 64] |= UINT64_C(1) << (i % 64);
}

/* Token i is next; one that may match nothing can be passed at once. */
static void reach(const struct glob *g, struct states *s, size_t i) {
    for (;; i++) {
        stay(s, i);
        if (i >= g->count || g->tokens[i].kind < TOKEN_STAR)
            return;
    }
}

static bool in_class(const struct glob *g, const struct token *t, uint32_t c) {
    for (size_t i = t->first; i < t->first + t->count; i++)
        if (c >= g->ranges[i].low && c <= g->ranges[i].high)
            return !t->negated;
    return t->negated;
}

static void step(const struct glob *g, size_t i, uint32_t c, struct states *next) {
    const struct token *t = &g->tokens[i];
    switch (t->kind) {
    case TOKEN_CHAR:
        if (t->c == c)
            reach(g, next, i + 1);
        break;
    case TOKEN_ONE:
        if (c != '/')
            reach(g, next, i + 1);
        break;
    case TOKEN_CLASS:
        if (c != '/' && in_class(g, t, c))
            reach(g, next, i + 1);
        break;
    case TOKEN_STAR:
        if (c != '/')
            reach(g, next, i);
        break;
    case TOKEN_DEEP: /* left only behind a slash */
        stay(next, i);
        if (c == '/')
            reach(g, next, i + 1);
        break;
    case TOKEN_REST:
        reach(g, next, i);
        break;
    }
}

bool glob_matches(const struct glob *g, const char *text, size_t len) {
    struct states now = {0};
    reach(g, &now, 0);
    const char *end = text + len;
    while (text < end) {
        uint32_t c = next_char(&text, end);
        struct states next = {0};
        bool any = false;
        for (size_t i = 0; i < g->count; i++)
            if (has(&now, i)) {
                step(g, i, c, &next);
                any = true;
            }
        if (!any)
            return false;
        now = next;
    }
    return has(&now, g->count);
}

bool glob_is_pattern(const char *text) {
    return strpbrk(text, "*?[\\") != NULL;
}
