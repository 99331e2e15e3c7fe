#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "imager/layer/base64.h"
#include "imager/registry/docker_config.h"

static void test_base64(void **state) {
    (void)state;
    static const struct {
        const char *plain, *encoded;
    } cases[] = {
        {"", ""}, {"a", "YQ=="}, {"ab", "YWI="}, {"abc", "YWJj"}, {"a:b\xff~", "YTpi/34="}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t len = 99;
        char *encoded = base64_encode(cases[i].plain, strlen(cases[i].plain));
        char *decoded = base64_decode(cases[i].encoded, &len);
        assert_string_equal(encoded, cases[i].encoded);
        assert_string_equal(decoded, cases[i].plain);
        assert_int_equal(len, strlen(cases[i].plain));
        free(encoded);
        free(decoded);
    }
    static const char *const bad[] = {
        "a",    "ab",     "abc",   "====",     "a===", "YQ==x",           "YQ=x",
        "Y Q=", "YQ==\n", " YQ==", "YQ==YQ==", "Y-Q_", "\xc3\xa4\xc3\xa4"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        size_t len;
        if (base64_decode(bad[i], &len) != NULL)
            fail_msg("'%s' is no base64", bad[i]);
    }
}

static void test_keys(void **state) {
    (void)state;
    static const struct {
        const char *key, *registry;
        bool same;
    } cases[] = {
        {"docker.io", "docker.io", true},
        {"index.docker.io", "docker.io", true},
        {"registry-1.docker.io", "docker.io", true},
        {"https://index.docker.io/v1/", "docker.io", true},
        {"https://index.docker.io/v1", "docker.io", true},
        {"http://docker.io", "docker.io", true},
        {"index.docker.io/v1/", "docker.io", true},
        {"auth.docker.io", "docker.io", false},
        {"docker.io.example.com", "docker.io", false},
        {"host:5000", "host:5000", true},
        {"https://host:5000", "host:5000", true},
        {"https://host:5000/v2/", "host:5000", true},
        {"https://host:5000/any/path", "host:5000", true},
        {"host:5000/", "host:5000", true},
        {"host:5000/team", "host:5000", false},
        {"host", "host:5000", false},
        {"host:5000", "host", false},
        {"ftp://host", "host", false},
        {"https://", "host", false},
        {"", "host", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (docker_config_key_is(cases[i].key, cases[i].registry) != cases[i].same)
            fail_msg("case %zu: %s, %s", i, cases[i].key, cases[i].registry);
    assert_string_equal(docker_config_key("docker.io"), "https://index.docker.io/v1/");
    assert_string_equal(docker_config_key("host:5000"), "host:5000");
}

static bool same(const char *a, const char *b) {
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* YTpi is a:b, YTpiOmM= is a:b:c, PHRva2VuPjp0 is <token>:t. */
static void test_find(void **state) {
    (void)state;
    static const struct {
        const char *text, *user, *secret, *identity, *helper;
    } cases[] = {
        {"{}", NULL, NULL, NULL, ""},
        {"{\"auths\":{}}", NULL, NULL, NULL, ""},
        {"{\"auths\":null,\"credHelpers\":null,\"credsStore\":null}", NULL, NULL, NULL, ""},
        {"{\"auths\":{\"h\":{\"auth\":\"YTpi\"}}}", "a", "b", NULL, ""},
        {"{\"auths\":{\"https://h/v1/\":{\"auth\":\"YTpi\"}}}", "a", "b", NULL, ""},
        {"{\"auths\":{\"h\":{\"auth\":\"YTpiOmM=\"}}}", "a", "b:c", NULL, ""},
        {"{\"auths\":{\"h\":{\"auth\":\"PHRva2VuPjp0\"}}}", NULL, NULL, "t", ""},
        {"{\"auths\":{\"h\":{\"auth\":\"YTo=\",\"identitytoken\":\"t\"}}}", NULL, NULL, "t", ""},
        {"{\"auths\":{\"h\":{\"username\":\"u\",\"password\":\"p\"}}}", "u", "p", NULL, ""},
        {"{\"auths\":{\"h\":{}}}", NULL, NULL, NULL, ""},
        {"{\"auths\":{\"h\":{\"auth\":\"\"}}}", NULL, NULL, NULL, ""},
        {"{\"auths\":{\"other\":{\"auth\":\"YTpi\"}}}", NULL, NULL, NULL, ""},
        {"{\"auths\":{\"https://h\":{\"auth\":\"YTpiOmM=\"},\"h\":{\"auth\":\"YTpi\"}}}", "a", "b",
         NULL, ""},
        {"{\"credsStore\":\"all\"}", NULL, NULL, NULL, "all"},
        {"{\"credsStore\":\"all\",\"credHelpers\":{\"h\":\"one\"}}", NULL, NULL, NULL, "one"},
        {"{\"credsStore\":\"all\",\"credHelpers\":{\"x\":\"one\"}}", NULL, NULL, NULL, "all"},
        {"{\"credHelpers\":{\"https://h\":\"one\"},\"auths\":{\"h\":{\"auth\":\"YTpi\"}}}", "a",
         "b", NULL, "one"},
        {"{\"HttpHeaders\":{\"X\":1},\"auths\":{\"h\":{\"auth\":\"YTpi\",\"email\":5}}}", "a", "b",
         NULL, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct docker_entry e;
        struct cay_error err = {0};
        int r = docker_config_find("file", cases[i].text, strlen(cases[i].text), "h", &e, &err);
        if (r != 0 || !same(e.credential.user, cases[i].user) ||
            !same(e.credential.secret, cases[i].secret) ||
            !same(e.credential.identity_token, cases[i].identity) ||
            !same(e.helper, cases[i].helper))
            fail_msg("case %zu: %s: %d %s", i, cases[i].text, r, err.message);
        credential_clear(&e.credential);
    }
}

/* No part of a damaged file is shown: it may be a secret. */
static void test_damaged(void **state) {
    (void)state;
    static const char *const cases[] = {
        "",
        "[]",
        "{",
        "{\"auths\":{\"h\":{\"auth\":hunter2}}}",
        "{\"auths\":{\"h\":{\"auth\":\"hunter2\"}}}",
        "{\"auths\":{\"h\":{\"auth\":\"YWJj\"}}}",
        "{\"auths\":{\"h\":{\"auth\":\"OmI=\"}}}",
        "{\"auths\":{\"h\":{\"auth\":\"YToAYg==\"}}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct docker_entry e;
        struct cay_error err = {0};
        int r = docker_config_find("FILE", cases[i], strlen(cases[i]), "h", &e, &err);
        if (r != -CAY_INVALID_ARGUMENT || strstr(err.message, "hunter2") != NULL ||
            !str_starts(err.message, "FILE: ") || err.remedy[0] == '\0')
            fail_msg("case %zu: %s: %d %s", i, cases[i], r, err.message);
        assert_null(e.credential.user);
    }
}

static void test_replace(void **state) {
    (void)state;
    char user[] = "u", secret[] = "p", token[] = "t";
    const struct credential pair = {.user = user, .secret = secret};
    const struct credential refresh = {.identity_token = token};
    const struct {
        const char *text, *registry;
        const struct credential *credential;
        int result;
        const char *expected;
    } cases[] = {
        {"", "h", &pair, 0, "{\"auths\":{\"h\":{\"auth\":\"dTpw\"}}}\n"},
        {"{}", "h", &refresh, 0, "{\"auths\":{\"h\":{\"identitytoken\":\"t\"}}}\n"},
        {"{}", "docker.io", &pair, 0,
         "{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"dTpw\"}}}\n"},
        {"{\"a\":[1,null],\"auths\":{\"x\":{\"auth\":\"q\"}}}", "h", &pair, 0,
         "{\"a\":[1,null],\"auths\":{\"x\":{\"auth\":\"q\"},\"h\":{\"auth\":\"dTpw\"}}}\n"},
        {"{\"auths\":{\"h\":{},\"https://h\":{},\"x\":{}}}", "h", &pair, 1,
         "{\"auths\":{\"x\":{},\"h\":{\"auth\":\"dTpw\"}}}\n"},
        {"{\"auths\":{\"docker.io\":{},\"x\":{}}}", "docker.io", NULL, 1,
         "{\"auths\":{\"x\":{}}}\n"},
        {"{\"auths\":{\"x\":{}}}", "h", NULL, 0, "{\"auths\":{\"x\":{}}}\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_free) struct buf out = BUF_INIT(4096);
        struct cay_error err = {0};
        int r = docker_config_replace("file", cases[i].text, strlen(cases[i].text),
                                      cases[i].registry, cases[i].credential, &out, &err);
        if (r != cases[i].result || !str_equal(buf_text(&out), cases[i].expected))
            fail_msg("case %zu: %d %s", i, r, buf_text(&out));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base64),  cmocka_unit_test(test_keys),    cmocka_unit_test(test_find),
        cmocka_unit_test(test_damaged), cmocka_unit_test(test_replace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
