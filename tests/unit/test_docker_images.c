/* Images for containers, without a Docker: what it tells of a pull, how a pull fails, and which
 * names are nobody's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "engine/docker/docker_ensure.h"
#include "engine/docker/docker_parse.h"
#include "engine/docker/docker_pull.h"

static void test_progress(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int result;
        struct docker_progress expected;
    } cases[] = {
        {"{\"status\":\"Downloading\",\"progressDetail\":{\"current\":12,\"total\":34},\"id\":"
         "\"a3\"}",
         0,
         {.id = "a3", .status = "Downloading", .done = 12, .total = 34}},
        {"{\"status\":\"Pull complete\",\"progressDetail\":{},\"id\":\"a3\"}",
         0,
         {.id = "a3", .status = "Pull complete"}},
        {"{\"errorDetail\":{\"message\":\"bad\"},\"error\":\"bad\\nline\"}",
         0,
         {.error = "bad\\x0aline"}},
        {"{\"progressDetail\":{\"current\":-1}}", -CAY_INVALID_ARGUMENT, {.done = 0}},
        {"{\"status\":7}", -CAY_INVALID_ARGUMENT, {.done = 0}},
        {"nonsense", -CAY_INVALID_ARGUMENT, {.done = 0}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct docker_progress p;
        int r = docker_parse_progress(cases[i].text, strlen(cases[i].text), &p, NULL);
        assert_int_equal(r, cases[i].result);
        if (r < 0)
            continue;
        assert_string_equal(p.id, cases[i].expected.id);
        assert_string_equal(p.status, cases[i].expected.status);
        assert_string_equal(p.error, cases[i].expected.error);
        assert_int_equal(p.done, cases[i].expected.done);
        assert_int_equal(p.total, cases[i].expected.total);
    }
}

/* What Docker 20.10 and registries really say. */
static void test_failures(void **state) {
    (void)state;
    static const struct {
        const char *message;
        enum cay_code code;
        const char *remedy;
    } cases[] = {
        {"manifest for r.example/a:1 not found: manifest unknown: manifest unknown", CAY_NOT_FOUND,
         "tag"},
        {"pull access denied for a, repository does not exist or may require 'docker login': "
         "denied",
         CAY_NOT_FOUND, "cay image login r.example"},
        {"Get \"http://r.example/v2/a/manifests/1\": no basic auth credentials", CAY_UNAUTHORIZED,
         "cay image login r.example"},
        {"unauthorized: authentication required", CAY_UNAUTHORIZED, "login"},
        {"denied: requested access to the resource is denied", CAY_FORBIDDEN, "login"},
        {"Get \"https://r.example/v2/\": dial tcp 127.0.0.1:1: connect: connection refused",
         CAY_UNAVAILABLE, "reaches r.example"},
        {"Get \"https://r.example/v2/\": x509: certificate signed by unknown authority",
         CAY_UNAVAILABLE, "certs.d"},
        {"http: server gave HTTP response to HTTPS client", CAY_UNAVAILABLE, "insecure-registries"},
        {"write /var/lib/docker/tmp/x: no space left on device", CAY_RESOURCE_EXHAUSTED, "room"},
        {"toomanyrequests: You have reached your pull rate limit", CAY_LIMIT_REACHED, "login"},
    };
    struct reference ref;
    assert_int_equal(reference_parse("r.example/a:1", &ref, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        assert_int_equal(docker_pull_failed(&ref, cases[i].message, &err), -(int)cases[i].code);
        assert_non_null(strstr(err.message, "r.example/a:1"));
        assert_non_null(strstr(err.remedy, cases[i].remedy));
    }
}

static void test_own_names(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool is_own;
    } cases[] = {
        {"cay:0123456789ab", true},
        {"cay-archive:0123456789abcdef", true},
        {"docker.io/library/cay-archive", true},
        {"index.docker.io/cay-backup", true},
        {"cayenne", false},
        {"somebody/cay-archive", false},
        {"r.example/cay-archive", false},
        {"python", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct reference ref;
        assert_int_equal(reference_parse(cases[i].name, &ref, NULL), 0);
        assert_int_equal(docker_is_own_name(&ref), cases[i].is_own);
    }
}

static void test_policies(void **state) {
    (void)state;
    enum docker_policy p;
    assert_true(docker_policy_parse("missing", &p) && p == DOCKER_PULL_MISSING);
    assert_true(docker_policy_parse("always", &p) && p == DOCKER_PULL_ALWAYS);
    assert_true(docker_policy_parse("never", &p) && p == DOCKER_PULL_NEVER);
    assert_false(docker_policy_parse("auto", &p) || docker_policy_parse("", &p));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_own_names),
        cmocka_unit_test(test_policies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
