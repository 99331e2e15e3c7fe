#include "daemon/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/auto.h"

static const struct route table[] = {
    {"GET", "/healthz", NULL},
    {"GET", "/api/sandbox", NULL},
    {"POST", "/api/sandbox", NULL},
    {"GET", "/api/sandbox/{who}", NULL},
    {"DELETE", "/api/sandbox/{who}", NULL},
    {"POST", "/api/sandbox/{who}/start", NULL},
};

static const struct {
    const char *method, *uri;
    int row; /* -1: none */
    const char *who, *allow;
} rows[] = {
    {"GET", "/healthz", 0, NULL, ""},
    {"HEAD", "/healthz", 0, NULL, ""},
    {"GET", "/healthz/", 0, NULL, ""},
    {"GET", "/healthz?x=1", 0, NULL, ""},
    {"POST", "/healthz", -1, NULL, "GET"},
    {"get", "/healthz", -1, NULL, "GET"},
    {"GET", "/health", -1, NULL, ""},
    {"GET", "/healthzz", -1, NULL, ""},
    {"GET", "/", -1, NULL, ""},
    {"GET", "/api", -1, NULL, ""},
    {"POST", "/api/sandbox", 2, NULL, ""},
    {"PUT", "/api/sandbox", -1, NULL, "GET, POST"},
    {"GET", "/api/sandbox/lab", 3, "lab", ""},
    {"GET", "/api/sandbox/a%2Fstart", 3, "a/start", ""},
    {"DELETE", "/api/sandbox/lab", 4, "lab", ""},
    {"POST", "/api/sandbox/lab", -1, "lab", "GET, DELETE"},
    {"POST", "/api/sandbox/lab/start", 5, "lab", ""},
    {"POST", "/api/sandbox/lab/star", -1, NULL, ""},
    {"POST", "/api/sandbox/lab/start/more", -1, NULL, ""},
    {"GET", "/api/sandbox/%7Bwho%7D", 3, "{who}", ""},
};

static void test_routes(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct target target;
        const char *who;
        char allow[ROUTE_ALLOW_SIZE];
        assert_int_equal(target_parse(rows[i].uri, &target, NULL), 0);
        const struct route *found =
            route_find(table, ARRAY_LEN(table), rows[i].method, &target, &who, allow);
        assert_ptr_equal(found, rows[i].row < 0 ? NULL : &table[rows[i].row]);
        assert_string_equal(allow, rows[i].allow);
        if (rows[i].row >= 0 && rows[i].who != NULL)
            assert_string_equal(who, rows[i].who);
        else if (rows[i].row >= 0)
            assert_null(who);
    }
}

/* However many methods a path has, the list is cut, not overrun. */
static void test_long_allow(void **state) {
    (void)state;
    struct route many[40];
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = (struct route){"METHOD", "/x", NULL};
    struct target target;
    const char *who;
    char allow[ROUTE_ALLOW_SIZE];
    assert_int_equal(target_parse("/x", &target, NULL), 0);
    assert_null(route_find(many, ARRAY_LEN(many), "GET", &target, &who, allow));
    assert_int_equal(strlen(allow), ROUTE_ALLOW_SIZE - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_long_allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
