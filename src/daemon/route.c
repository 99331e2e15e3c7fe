#include "daemon/route.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* True if one part of a pattern, up to the next slash, is met by a segment. */
static bool part_matches(const char *part, size_t len, const char *segment, const char **ret_who) {
    if (part[0] == '{') {
        if (*ret_who == NULL) /* the first names what it is about */
            *ret_who = segment;
        return true;
    }
    return strlen(segment) == len && memcmp(part, segment, len) == 0;
}

static bool matches(const char *pattern, const struct target *target, const char **ret_who) {
    size_t i = 0;
    const char *who = NULL;
    while (*pattern == '/') {
        size_t len = strcspn(++pattern, "/");
        if (i == target->segments || !part_matches(pattern, len, target->segment[i++], &who))
            return false;
        pattern += len;
    }
    *ret_who = who;
    return i == target->segments;
}

static bool serves(const struct route *route, const char *method) {
    return str_equal(route->method, str_equal(method, "HEAD") ? "GET" : method);
}

bool route_has_sandbox(const struct route *route) {
    return strstr(route->pattern, "/sandbox/{who}") != NULL;
}

static const char *verb_of(const char *method) {
    static const struct {
        const char *method, *verb;
    } rows[] = {{"GET", "read"}, {"POST", "create"}, {"DELETE", "delete"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (str_equal(rows[i].method, method))
            return rows[i].verb;
    return "change";
}

/* "api-keys" is about a key, "volumes" about a volume. */
static const char *singular(const char *part, size_t *len) {
    static const char prefix[] = "api-";
    if (*len > sizeof prefix - 1 && memcmp(part, prefix, sizeof prefix - 1) == 0) {
        part += sizeof prefix - 1;
        *len -= sizeof prefix - 1;
    }
    if (*len > 1 && part[*len - 1] == 's')
        (*len)--;
    return part;
}

static bool is_place(const char *part, size_t len) {
    return (len == 3 && memcmp(part, "api", 3) == 0) || (len == 3 && memcmp(part, "cay", 3) == 0);
}

const char *route_action(const struct route *route, char out[static ROUTE_ACTION_SIZE]) {
    const char *kind = "", *verb = NULL;
    size_t kind_len = 0, verb_len = 0;
    for (const char *p = route->pattern; *p == '/';) {
        size_t len = strcspn(++p, "/");
        if (kind_len == 0 && !is_place(p, len)) {
            kind = p;
            kind_len = len;
        } else if (kind_len > 0 && *p != '{') {
            verb = p;
            verb_len = len;
        }
        p += len;
    }
    kind = singular(kind, &kind_len);
    if (verb == NULL) {
        verb = verb_of(route->method);
        verb_len = strlen(verb);
    }
    (void)snprintf(out, ROUTE_ACTION_SIZE, "%.*s.%.*s", (int)kind_len, kind, (int)verb_len, verb);
    return out;
}

static void add_allowed(char *allow, const char *method) {
    size_t len = strlen(allow);
    (void)snprintf(allow + len, ROUTE_ALLOW_SIZE - len, "%s%s", len == 0 ? "" : ", ", method);
}

const struct route *route_find(const struct route *table, size_t count, const char *method,
                               const struct target *target, const char **ret_who,
                               char allow[static ROUTE_ALLOW_SIZE]) {
    allow[0] = '\0';
    *ret_who = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!matches(table[i].pattern, target, ret_who))
            continue;
        if (serves(&table[i], method)) {
            allow[0] = '\0';
            return &table[i];
        }
        add_allowed(allow, table[i].method);
    }
    return NULL;
}
