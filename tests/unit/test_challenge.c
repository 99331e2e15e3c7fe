#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/host.h"
#include "imager/registry/challenge.h"

static void test_challenges(void **state) {
    (void)state;
    static const struct {
        const char *value;
        enum challenge_kind kind;
        const char *realm, *service, *scope;
    } cases[] = {
        {"Bearer realm=\"https://a/token\",service=\"s\",scope=\"repository:x:pull\"",
         CHALLENGE_BEARER, "https://a/token", "s", "repository:x:pull"},
        {"bEARER REALM=\"r\" , Service=\"s\"", CHALLENGE_BEARER, "r", "s", ""},
        {"Bearer realm=\"r\",scope=\"repository:x:pull,push\",service=\"s\"", CHALLENGE_BEARER, "r",
         "s", "repository:x:pull,push"},
        {"Bearer realm=r,service=s:1", CHALLENGE_BEARER, "r", "s:1", ""},
        {"Bearer realm = \"r\"", CHALLENGE_BEARER, "r", "", ""},
        {"Bearer realm=\"a\\\"b\\\\c\"", CHALLENGE_BEARER, "a\"b\\c", "", ""},
        {"Bearer realm=\"r\",unknown=\"x, Basic realm=y\"", CHALLENGE_BEARER, "r", "", ""},
        {"Basic realm=\"registry\"", CHALLENGE_BASIC, "registry", "", ""},
        {"Basic", CHALLENGE_BASIC, "", "", ""},
        {"Basic realm=\"b\", Bearer realm=\"r\"", CHALLENGE_BEARER, "r", "", ""},
        {"Bearer realm=\"r\", Basic realm=\"b\"", CHALLENGE_BEARER, "r", "", ""},
        {"Negotiate, Basic realm=\"b\"", CHALLENGE_BASIC, "b", "", ""},
        {"Negotiate YWJj==, Basic realm=\"b\"", CHALLENGE_BASIC, "b", "", ""},
        {"Bearer service=\"s\", Basic realm=\"b\"", CHALLENGE_BASIC, "b", "", ""},
        {"Bearer", CHALLENGE_NONE, "", "", ""},
        {"Bearer service=\"s\"", CHALLENGE_NONE, "", "", ""},
        {"Bearer realm=\"\"", CHALLENGE_NONE, "", "", ""},
        {"Bearer realm=\"never closed", CHALLENGE_NONE, "", "", ""},
        {"Bearer realm=\"ends in \\", CHALLENGE_NONE, "", "", ""},
        {"Digest realm=\"r\"", CHALLENGE_NONE, "", "", ""},
        {"", CHALLENGE_NONE, "", "", ""},
        {" , ,", CHALLENGE_NONE, "", "", ""},
        {"\"", CHALLENGE_NONE, "", "", ""},
        {"Bearer/x realm=\"r\"", CHALLENGE_NONE, "", "", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct challenge c = {0};
        challenge_parse(cases[i].value, &c);
        if (c.kind != cases[i].kind)
            fail_msg("case %zu: %s: kind %d", i, cases[i].value, (int)c.kind);
        assert_string_equal(c.realm, cases[i].realm);
        assert_string_equal(c.service, cases[i].service);
        assert_string_equal(c.scope, cases[i].scope);
    }
}

/* Of several headers the best stays, whatever their order. */
static void test_several_headers(void **state) {
    (void)state;
    struct challenge c = {0};
    challenge_parse("Basic realm=\"b\"", &c);
    challenge_parse("Bearer realm=\"r\"", &c);
    challenge_parse("Basic realm=\"other\"", &c);
    challenge_parse("Bearer realm=\"second\"", &c);
    assert_int_equal(c.kind, CHALLENGE_BEARER);
    assert_string_equal(c.realm, "r");
}

static void test_long_values(void **state) {
    (void)state;
    char text[CHALLENGE_TEXT_SIZE + 64];
    for (size_t len = CHALLENGE_TEXT_SIZE - 1; len <= CHALLENGE_TEXT_SIZE; len++) {
        struct challenge c = {0};
        int n = snprintf(text, sizeof text, "Bearer realm=\"");
        memset(text + n, 'x', len);
        memcpy(text + n + len, "\"", 2);
        challenge_parse(text, &c);
        assert_int_equal(c.kind, len < CHALLENGE_TEXT_SIZE ? CHALLENGE_BEARER : CHALLENGE_NONE);
    }
}

static void test_content_range(void **state) {
    (void)state;
    static const struct {
        const char *value;
        int result;
        struct content_range range;
    } cases[] = {
        {"bytes 0-0/1", 0, {0, 0, 1}},
        {"bytes 5-9/10", 0, {5, 9, 10}},
        {"Bytes 5-9/*", 0, {5, 9, UINT64_MAX}},
        {"bytes 0-18446744073709551613/18446744073709551614",
         0,
         {0, UINT64_MAX - 2, UINT64_MAX - 1}},
        {"bytes 0-9/18446744073709551615", -EINVAL, {0}},
        {"bytes 0-9/99999999999999999999", -EINVAL, {0}},
        {"bytes 0-9/999999999999999999999999", -EINVAL, {0}},
        {"bytes 9-5/10", -EINVAL, {0}},
        {"bytes 5-10/10", -EINVAL, {0}},
        {"bytes */10", -EINVAL, {0}},
        {"bytes -5/10", -EINVAL, {0}},
        {"bytes 5-/10", -EINVAL, {0}},
        {"bytes 5-9", -EINVAL, {0}},
        {"bytes 5-9/", -EINVAL, {0}},
        {"bytes 5-9/10 ", -EINVAL, {0}},
        {"bytes  5-9/10", -EINVAL, {0}},
        {"bytes +5-9/10", -EINVAL, {0}},
        {"bytes=5-9/10", -EINVAL, {0}},
        {"items 5-9/10", -EINVAL, {0}},
        {"", -EINVAL, {0}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct content_range got = {0};
        int r = content_range_parse(cases[i].value, &got);
        if (r != cases[i].result || memcmp(&got, &cases[i].range, sizeof got) != 0)
            fail_msg("case %zu: '%s': %d", i, cases[i].value, r);
    }
}

static void test_loopback(void **state) {
    (void)state;
    static const char *const here[] = {
        "localhost",   "LocalHost:5000", "127.0.0.1",  "127.0.0.1:5000",
        "127.255.0.9", "[::1]",          "[::1]:5000",
    };
    static const char *const elsewhere[] = {
        "",
        "localhost.example.com",
        "notlocalhost",
        "127.0.0.1.example.com",
        "128.0.0.1",
        "10.0.0.1:5000",
        "127.1",
        "2130706433",
        "0.0.0.0",
        "[::2]",
        "[::ffff:127.0.0.1]",
        "docker.io",
        "[",
        "::1x",
    };
    for (size_t i = 0; i < ARRAY_LEN(here); i++)
        if (!host_is_loopback(here[i]))
            fail_msg("%s is loopback", here[i]);
    for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++)
        if (host_is_loopback(elsewhere[i]))
            fail_msg("%s is not loopback", elsewhere[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_challenges),  cmocka_unit_test(test_several_headers),
        cmocka_unit_test(test_long_values), cmocka_unit_test(test_content_range),
        cmocka_unit_test(test_loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
