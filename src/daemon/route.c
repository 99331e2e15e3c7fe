#include "daemon/route.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* True if one part of a pattern, up to the next slash, is met by a segment. */
static bool part_matches(const char *part, size_t len, const char *segment, const char **ret_who) {
    if (part[0] == '{') {
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
