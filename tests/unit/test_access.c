#include "daemon/access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_keys(void **state) {
    (void)state;
    static const struct {
        const char *header, *key;
        bool matches;
    } rows[] = {
        {"Bearer secret", "secret", true},
        {"bearer secret", "secret", true},
        {"Bearer secre", "secret", false},
        {"Bearer secrets", "secret", false},
        {"Bearer  secret", "secret", false},
        {"Basic secret", "secret", false},
        {"secret", "secret", false},
        {"Bearer ", "", false},
        {"Bearer", "secret", false},
        {NULL, "secret", false},
        {"", "secret", false},
        {"Bearer Secret", "secret", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(access_key_matches(rows[i].header, rows[i].key), rows[i].matches);
    char header[512] = "Bearer ", key[512];
    memset(key, 'a', sizeof key);
    key[400] = '\0';
    memcpy(header + 7, key, 401);
    assert_false(access_key_matches(header, key)); /* longer than any of ours */
    assert_false(access_key_matches(header, "secret"));
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
