#include "api/access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "manager/record/key.h"

static void test_bearer(void **state) {
    (void)state;
    static const struct {
        const char *header, *key;
    } rows[] = {
        {"Bearer secret", "secret"},
        {"bearer secret", "secret"},
        {"Bearer  secret", " secret"},
        {"Basic secret", NULL},
        {"secret", NULL},
        {"Bearer ", NULL},
        {"Bearer", NULL},
        {NULL, NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *key = access_bearer(rows[i].header);
        if (rows[i].key == NULL)
            assert_null(key);
        else
            assert_string_equal(key, rows[i].key);
    }
    char header[512] = "Bearer ";
    memset(header + 7, 'a', 400); /* longer than any of ours */
    assert_null(access_bearer(header));
}

/* Every scope against every need, as a look and as a change. */
static void test_scopes(void **state) {
    (void)state;
    static const struct {
        unsigned scopes;
        enum access_need need;
        bool look, change;
        const char *missing;
    } rows[] = {
        {SCOPE_READ, NEED_SANDBOXES, true, false, "'sandboxes'"},
        {SCOPE_READ, NEED_USE, false, false, "'sandboxes'"},
        {SCOPE_READ, NEED_IMAGES, true, false, "'images'"},
        {SCOPE_READ, NEED_ADMIN, false, false, "'admin'"},
        {SCOPE_READ, NEED_NOTHING, true, true, ""},
        {SCOPE_SANDBOXES, NEED_SANDBOXES, true, true, ""},
        {SCOPE_SANDBOXES, NEED_USE, true, true, ""},
        {SCOPE_SANDBOXES, NEED_IMAGES, false, false, "'images'"},
        {SCOPE_SANDBOXES, NEED_ADMIN, false, false, "'admin'"},
        {SCOPE_IMAGES, NEED_SANDBOXES, false, false, "'sandboxes'"},
        {SCOPE_IMAGES, NEED_USE, false, false, "'sandboxes'"},
        {SCOPE_IMAGES, NEED_IMAGES, true, true, ""},
        {SCOPE_IMAGES, NEED_ADMIN, false, false, "'admin'"},
        {SCOPE_ADMIN, NEED_SANDBOXES, true, true, ""},
        {SCOPE_ADMIN, NEED_USE, true, true, ""},
        {SCOPE_ADMIN, NEED_IMAGES, true, true, ""},
        {SCOPE_ADMIN, NEED_ADMIN, true, true, ""},
        {SCOPE_READ | SCOPE_IMAGES, NEED_SANDBOXES, true, false, "'sandboxes'"},
        {0, NEED_SANDBOXES, false, false, "'sandboxes'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct key k = {.name = "ci", .scopes = rows[i].scopes};
        struct cay_error err = {0};
        int look = access_check(&k, rows[i].need, true, &err);
        assert_int_equal(look, rows[i].look ? 0 : -CAY_FORBIDDEN);
        int change = access_check(&k, rows[i].need, false, &err);
        assert_int_equal(change, rows[i].change ? 0 : -CAY_FORBIDDEN);
        assert_non_null(strstr(err.message, rows[i].missing));
        assert_true(change == 0 || strstr(err.message, "'ci'") != NULL);
    }
}

static void test_hosts(void **state) {
    (void)state;
    struct strv more = {0};
    assert_int_equal(strv_push(&more, "box.example"), 0);
    static const struct {
        const char *host;
        bool alone, with_more;
    } rows[] = {
        {"localhost", true, true},
        {"LocalHost:3986", true, true},
        {"127.0.0.1:80", true, true},
        {"[::1]", true, true},
        {"[::1]:3986", true, true},
        {"::1", false, false},
        {"box.example", false, true},
        {"box.example:1", false, true},
        {"box.example.", false, false},
        {"evil.example", false, false},
        {"localhost.evil", false, false},
        {"127.0.0.1.evil", false, false},
        {"localhost:", true, true},
        {"localhost:80x", false, false},
        {"localhost:80:80", false, false},
        {"[::1]x", false, false},
        {"[::1", false, false},
        {"", false, false},
        {NULL, false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(access_host_is_allowed(rows[i].host, NULL), rows[i].alone);
        assert_int_equal(access_host_is_allowed(rows[i].host, &more), rows[i].with_more);
    }
    strv_free(&more);
}

static void test_origin(void **state) {
    (void)state;
    assert_true(access_is_same_origin("http://localhost:80", "localhost:80"));
    assert_true(access_is_same_origin("https://Box.Example", "box.example"));
    assert_false(access_is_same_origin("http://localhost:80", "localhost:81"));
    assert_false(access_is_same_origin("http://localhost.evil", "localhost"));
    assert_false(access_is_same_origin("null", "localhost"));
    assert_false(access_is_same_origin("", "localhost"));
    assert_false(access_is_same_origin("http://localhost", NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bearer),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_origin),
        cmocka_unit_test(test_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
