#include "imager/registry/challenge.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/str.h"

/* ---- WWW-Authenticate (RFC 9110, 11.6.1) ---- */

static const char token_chars[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

static void skip_space(const char **p) {
    *p += strspn(*p, " \t");
}

/* A token; false if none stands there or it does not fit. */
static bool take_token(const char **p, char *out, size_t size) {
    size_t len = strspn(*p, token_chars);
    if (len == 0 || len >= size)
        return false;
    memcpy(out, *p, len);
    out[len] = '\0';
    *p += len;
    return true;
}

/* A quoted string with its escapes resolved. */
static bool take_quoted(const char **p, char *out, size_t size) {
    size_t len = 0;
    const char *at = *p + 1;
    for (; *at != '"'; at++) {
        if (*at == '\\')
            at++;
        if (*at == '\0' || len + 1 >= size)
            return false;
        out[len++] = *at;
    }
    out[len] = '\0';
    *p = at + 1;
    return true;
}

/* The value of a parameter. Some registries leave the quotes out where a token ought to have them.
 */
static bool take_value(const char **p, char *out, size_t size) {
    if (**p == '"')
        return take_quoted(p, out, size);
    size_t len = strcspn(*p, " \t,\"");
    if (len == 0 || len >= size)
        return false;
    memcpy(out, *p, len);
    out[len] = '\0';
    *p += len;
    return true;
}

static void keep_parameter(struct challenge *c, const char *name, const char *value) {
    const struct {
        const char *name;
        char *to;
    } known[] = {{"realm", c->realm}, {"service", c->service}, {"scope", c->scope}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcasecmp(name, known[i].name) == 0)
            (void)!str_copy(known[i].to, CHALLENGE_TEXT_SIZE, value);
}

/* NAME = VALUE, or false with *p unmoved: then a scheme stands there. */
static bool take_parameter(const char **p, struct challenge *c, bool *ret_bad) {
    char name[64], value[CHALLENGE_TEXT_SIZE];
    const char *at = *p;
    if (!take_token(&at, name, sizeof name))
        return false;
    skip_space(&at);
    if (*at != '=')
        return false;
    at++;
    skip_space(&at);
    *ret_bad = !take_value(&at, value, sizeof value);
    if (!*ret_bad)
        keep_parameter(c, name, value);
    *p = at;
    return true;
}

static enum challenge_kind kind_of(const char *scheme) {
    if (strcasecmp(scheme, "Bearer") == 0)
        return CHALLENGE_BEARER;
    return strcasecmp(scheme, "Basic") == 0 ? CHALLENGE_BASIC : CHALLENGE_NONE;
}

/* One challenge with all its parameters; false at the end, or where nothing can be made of the
 * rest. */
static bool take_challenge(const char **p, struct challenge *ret) {
    char scheme[64];
    *ret = (struct challenge){0};
    *p += strspn(*p, " \t,");
    if (!take_token(p, scheme, sizeof scheme))
        return false;
    if (**p != '\0' && strchr(" \t,", **p) == NULL)
        return false;
    ret->kind = kind_of(scheme);
    for (bool bad = false;;) {
        *p += strspn(*p, " \t,");
        if (!take_parameter(p, ret, &bad))
            return true;
        if (bad)
            return false;
    }
}

void challenge_parse(const char *value, struct challenge *best) {
    struct challenge c;
    while (take_challenge(&value, &c)) {
        bool usable = c.kind != CHALLENGE_BEARER || c.realm[0] != '\0';
        if (usable && c.kind > best->kind)
            *best = c;
    }
}

/* ---- Content-Range ---- */

static bool take_number(const char **p, char end, uint64_t *ret) {
    char digits[21];
    size_t len = strspn(*p, "0123456789");
    if (len == 0 || len >= sizeof digits || (*p)[len] != end)
        return false;
    memcpy(digits, *p, len);
    digits[len] = '\0';
    *p += len + (end != '\0');
    return str_to_u64(digits, UINT64_MAX - 1, ret) == 0;
}

int content_range_parse(const char *value, struct content_range *ret) {
    struct content_range c = {.total = UINT64_MAX};
    if (strncasecmp(value, "bytes ", 6) != 0)
        return -EINVAL;
    value += 6;
    if (!take_number(&value, '-', &c.first) || !take_number(&value, '/', &c.last))
        return -EINVAL;
    if (strcmp(value, "*") != 0 && !take_number(&value, '\0', &c.total))
        return -EINVAL;
    if (c.first > c.last || c.last >= c.total)
        return -EINVAL;
    *ret = c;
    return 0;
}
