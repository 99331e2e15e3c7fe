#include "api/route.h"

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
    {"GET", "/toolbox/{who}/session/{session}/{command}", NULL},
    {"GET", "/preview/{who}/*", NULL},
};
static const struct route_table first = {table, 3}, second = {table + 3, ARRAY_LEN(table) - 3};
static const struct route_table *const tables[] = {&first, &second};

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
    {"GET", "/toolbox/lab/session/a/b", 6, "lab", ""},
    {"GET", "/toolbox/lab/session/a", -1, NULL, ""},
    {"GET", "/preview/lab", 7, "lab", ""},
    {"GET", "/preview/lab/x/y", 7, "lab", ""},
    {"GET", "/preview", -1, NULL, ""},
};

static void test_routes(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct target target;
        struct route_args args;
        char allow[ROUTE_ALLOW_SIZE];
        assert_int_equal(target_parse(rows[i].uri, &target, NULL), 0);
        const struct route *found =
            route_find(tables, ARRAY_LEN(tables), rows[i].method, &target, &args, allow);
        assert_ptr_equal(found, rows[i].row < 0 ? NULL : &table[rows[i].row]);
        assert_string_equal(allow, rows[i].allow);
        if (rows[i].row >= 0 && rows[i].who != NULL)
            assert_string_equal(args.v[0], rows[i].who);
        else if (rows[i].row >= 0)
            assert_int_equal(args.count, 0);
    }
}

static void test_arguments(void **state) {
    (void)state;
    struct target target;
    struct route_args args;
    char allow[ROUTE_ALLOW_SIZE];
    assert_int_equal(target_parse("/toolbox/lab/session/a%2Fb/7", &target, NULL), 0);
    assert_non_null(route_find(tables, ARRAY_LEN(tables), "GET", &target, &args, allow));
    assert_int_equal(args.count, 3);
    assert_string_equal(args.v[1], "a/b");
    assert_string_equal(args.v[2], "7");
    static const struct route greedy[] = {{"GET", "/{a}/{b}/{c}/{d}/{e}", NULL}};
    const struct route_table greedy_table = {greedy, 1}, *too_many = &greedy_table;
    assert_int_equal(target_parse("/1/2/3/4/5", &target, NULL), 0);
    assert_null(route_find(&too_many, 1, "GET", &target, &args, allow));
}

/* However many methods a path has, the list is cut, not overrun. */
static void test_long_allow(void **state) {
    (void)state;
    struct route many[40];
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = (struct route){"METHOD", "/x", NULL};
    struct target target;
    struct route_args args;
    const struct route_table many_table = {many, ARRAY_LEN(many)}, *one = &many_table;
    char allow[ROUTE_ALLOW_SIZE];
    assert_int_equal(target_parse("/x", &target, NULL), 0);
    assert_null(route_find(&one, 1, "GET", &target, &args, allow));
    assert_int_equal(strlen(allow), ROUTE_ALLOW_SIZE - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_long_allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
