#include "api/http/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/str.h"

static struct target target;

static void test_paths(void **state) {
    (void)state;
    static const struct {
        const char *uri;
        size_t segments;
        const char *last;
    } rows[] = {
        {"/", 0, NULL},
        {"/healthz", 1, "healthz"},
        {"/api/sandbox/", 2, "sandbox"},
        {"/api/sandbox/a%2Fb", 3, "a/b"},
        {"/api/sandbox/a%2fb", 3, "a/b"},
        {"/a+b", 1, "a+b"},
        {"/%c3%a4", 1, "\xc3\xa4"},
        {"/..", 1, ".."},
        {"/a?b/c", 1, "a"},
        {"/%3f", 1, "?"},
        {"/%2525", 1, "%25"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(target_parse(rows[i].uri, &target, NULL), 0);
        assert_int_equal(target.segments, rows[i].segments);
        if (rows[i].last != NULL)
            assert_string_equal(target.segment[target.segments - 1], rows[i].last);
    }
}

static void test_refused(void **state) {
    (void)state;
    static const char *const rows[] = {
        "",        "*",          "a",       "http://x/",
        "//",      "/a//b",      "/%",      "/%4",
        "/%4g",    "/%g4",       "/%00",    "/a%00b",
        "/%0a",    "/\x01",      "/%ff",    "/%c3",
        "/%c2%85", "/%ed%a0%80", "/?a=%",   "/?%=a",
        "/?a=%00", "/?%0a=a",    "/?a=%ff", "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cay_error err;
        assert_int_equal(target_parse(rows[i], &target, &err), -CAY_INVALID_ARGUMENT);
        assert_true(err.message[0] != '\0');
    }
}

static void test_lengths(void **state) {
    (void)state;
    char uri[TARGET_SIZE + 1];
    memset(uri, 'a', sizeof uri);
    uri[0] = '/';
    uri[TARGET_SIZE - 1] = '\0';
    assert_int_equal(target_parse(uri, &target, NULL), 0);
    uri[TARGET_SIZE - 1] = 'a';
    uri[TARGET_SIZE] = '\0';
    assert_int_equal(target_parse(uri, &target, NULL), -CAY_INVALID_ARGUMENT);
    char many[2 * (TARGET_QUERIES_MAX + 1) + 3] = "/?";
    for (size_t i = 0; i <= TARGET_QUERIES_MAX; i++) {
        many[2 + 2 * i] = 'a';
        many[3 + 2 * i] = '&';
    }
    assert_int_equal(target_parse(many, &target, NULL), -CAY_INVALID_ARGUMENT);
    many[2 + 2 * TARGET_QUERIES_MAX] = '\0';
    assert_int_equal(target_parse(many, &target, NULL), 0);
    assert_int_equal(target.queries, TARGET_QUERIES_MAX);
}

static void test_queries(void **state) {
    (void)state;
    assert_int_equal(
        target_parse("/x?label=a=b&label=c%26d=e+f&&flag&empty=&a%3Db=1", &target, NULL), 0);
    assert_int_equal(target.queries, 5);
    assert_string_equal(target_query(&target, "label"), "a=b");
    assert_string_equal(target.query[1].value, "c&d=e f");
    assert_string_equal(target_query(&target, "flag"), "");
    assert_string_equal(target_query(&target, "empty"), "");
    assert_string_equal(target_query(&target, "a=b"), "1");
    assert_null(target_query(&target, "x"));
    assert_int_equal(target_parse("/x?path=a%0Ab%7f%C3%A4", &target, NULL), 0);
    assert_string_equal(target_query(&target, "path"), "a\nb\x7f\xc3\xa4");
}

static void test_flags(void **state) {
    (void)state;
    static const struct {
        const char *uri;
        int result;
        bool value;
    } rows[] = {
        {"/", 0, false},
        {"/?force", 0, true},
        {"/?force=", 0, true},
        {"/?force=true", 0, true},
        {"/?force=1", 0, true},
        {"/?force=false", 0, false},
        {"/?force=0", 0, false},
        {"/?force=yes", -CAY_INVALID_ARGUMENT, false},
        {"/?force=TRUE", -CAY_INVALID_ARGUMENT, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cay_error err;
        bool value = !rows[i].value;
        assert_int_equal(target_parse(rows[i].uri, &target, NULL), 0);
        assert_int_equal(target_flag(&target, "force", &value, &err), rows[i].result);
        assert_int_equal(value, rows[i].value);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_lengths), cmocka_unit_test(test_queries),
        cmocka_unit_test(test_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
