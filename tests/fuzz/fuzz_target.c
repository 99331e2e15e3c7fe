/* Any bytes as the target of a request, as a time and as headers: refused with a remedy, or taken
 * apart into texts that lie in the target, are not empty where they must not be, and can be shown.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/access.h"
#include "api/http/target.h"
#include "api/route.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct route table[] = {
    {"GET", "/healthz", NULL},
    {"GET", "/api/sandbox/{who}", NULL},
    {"POST", "/api/sandbox/{who}/start", NULL},
};

static void require(bool ok) {
    if (!ok)
        abort();
}

static void check_place(const struct target *t, const char *text) {
    size_t len = strlen(text);
    require(len == 0 || (text >= t->text && text + len < t->text + sizeof t->text));
    require(str_is_utf8(text, len));
}

static void check_text(const struct target *t, const char *text) {
    size_t left = strlen(text), len;
    check_place(t, text);
    for (; left > 0; text += len, left -= len) {
        len = str_printable_length(text, left);
        require(len > 0);
    }
}

static void check_target(const struct target *t) {
    require(t->segments <= TARGET_SEGMENTS_MAX && t->queries <= TARGET_QUERIES_MAX);
    for (size_t i = 0; i < t->segments; i++) {
        require(t->segment[i][0] != '\0');
        check_text(t, t->segment[i]);
    }
    for (size_t i = 0; i < t->queries; i++) {
        check_text(t, t->query[i].key);
        check_place(t, t->query[i].value);
    }
}

static void check_route(const struct target *t) {
    struct route_args args;
    const struct route_table whole = {table, ARRAY_LEN(table)}, *all = &whole;
    char allow[ROUTE_ALLOW_SIZE];
    const struct route *found = route_find(&all, 1, "GET", t, &args, allow);
    require(found != &table[2]);
    if (found == &table[1])
        require(t->segments == 3 && args.v[0] == t->segment[2]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct target target;
    struct cay_error err;
    char *text = strndup((const char *)data, size);
    require(text != NULL);
    if (target_parse(text, &target, &err) == 0) {
        check_target(&target);
        check_route(&target);
    } else {
        require(err.message[0] != '\0' && err.remedy[0] != '\0');
    }
    if (access_host_is_allowed(text, NULL))
        require(strspn(text, "0123456789.:[]localhostLOCALHOST") == strlen(text));
    int64_t ms;
    char time[32];
    if (clock_from_iso8601(text, &ms) == 0)
        require(clock_from_iso8601(clock_iso8601(ms, time), &ms) == 0);
    const char *key = access_bearer(text);
    require(key == NULL || (key > text && strlen(key) > 0 && strlen(key) < 256));
    free(text);
    return 0;
}
