#include "api/route.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* True if one part of a pattern, up to the next slash, is met by a segment. */
static bool part_matches(const char *part, size_t len, const char *segment,
                         struct route_args *ret) {
    if (part[0] != '{')
        return strlen(segment) == len && memcmp(part, segment, len) == 0;
    if (ret->count == ROUTE_ARGS_MAX)
        return false;
    ret->v[ret->count++] = segment;
    return true;
}

static bool matches(const char *pattern, const struct target *target, struct route_args *ret) {
    size_t i = 0;
    *ret = (struct route_args){0};
    while (*pattern == '/') {
        size_t len = strcspn(++pattern, "/");
        if (str_equal(pattern, "*"))
            return true;
        if (i == target->segments || !part_matches(pattern, len, target->segment[i++], ret))
            return false;
        pattern += len;
    }
    return i == target->segments;
}

static bool serves(const struct route *route, const char *method) {
    return str_equal(route->method, "*") ||
           str_equal(route->method, str_equal(method, "HEAD") ? "GET" : method);
}

bool route_has_sandbox(const struct route *route) {
    return strstr(route->pattern, "/sandbox/{who}") != NULL ||
           strstr(route->pattern, "/toolbox/{who}") != NULL ||
           strstr(route->pattern, "/preview/{who}") != NULL;
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

static const struct route *find_in(const struct route_table *table, const char *method,
                                   const struct target *target, struct route_args *ret,
                                   char *allow) {
    for (size_t i = 0; i < table->count; i++) {
        const struct route *route = &table->rows[i];
        if (!matches(route->pattern, target, ret))
            continue;
        if (serves(route, method))
            return route;
        add_allowed(allow, route->method);
    }
    return NULL;
}

const struct route *route_find(const struct route_table *const *tables, size_t count,
                               const char *method, const struct target *target,
                               struct route_args *ret, char allow[static ROUTE_ALLOW_SIZE]) {
    size_t before = 0;
    allow[0] = '\0';
    for (size_t i = 0; i < count; before += tables[i++]->count) {
        const struct route *found = find_in(tables[i], method, target, ret, allow);
        if (found == NULL)
            continue;
        allow[0] = '\0';
        ret->row = before + (size_t)(found - tables[i]->rows);
        return found;
    }
    *ret = (struct route_args){0};
    return NULL;
}
