/* Tests of signed URLs: against a signature that Daytona's own function made, and what must not be
 * taken for one. */
#include "api/preview/sign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"

#define ID    "0123456789abcdef"
#define KEY   "signing-key"
#define RIGHT "v1_2OQ3gQpSkqiC7pncsfjmOaXxUS7sZyhdKsT7e0fjLyc"

static struct target target;

static bool read_claim(const char *method, const char *uri, struct sign_claim *ret) {
    assert_int_equal(target_parse(uri, &target, NULL), 0);
    return sign_read(method, &target, ret);
}

static void test_valid(void **state) {
    (void)state;
    struct sign_claim claim;
    assert_true(read_claim("GET",
                           "/toolbox/" ID "/files/download?path=%2Fhome%2Fa+b%C3%A4%0A.txt"
                           "&expires=1700000000&signature=" RIGHT,
                           &claim));
    assert_string_equal(claim.id, ID);
    assert_string_equal(claim.path, "/home/a b\xc3\xa4\n.txt");
    assert_true(sign_is_valid(&claim, KEY, 1699999999));
    assert_false(sign_is_valid(&claim, KEY, 1700000000));
    assert_false(sign_is_valid(&claim, "another", 1699999999));
    claim.expires = "0"; /* which was not signed */
    claim.expires_s = 0;
    assert_false(sign_is_valid(&claim, KEY, 0));
}

static void test_for_ever(void **state) {
    (void)state;
    struct sign_claim claim;
    char right[SIGN_SIZE];
    assert_true(
        read_claim("POST", "/toolbox/" ID "/files/upload-v2?path=x&expires=0&signature=", &claim));
    assert_false(sign_is_valid(&claim, KEY, 1));
    sign_make(&claim, KEY, right);
    claim.signature = right;
    assert_true(sign_is_valid(&claim, KEY, INT64_MAX));
    claim.method = "GET";
    assert_false(sign_is_valid(&claim, KEY, 1));
    claim.method = "POST";
    claim.path = "y";
    assert_false(sign_is_valid(&claim, KEY, 1));
}

static void test_none(void **state) {
    (void)state;
    static const struct {
        const char *method, *uri;
    } rows[] = {
        {"POST", "/toolbox/" ID "/files/download?path=x&expires=0&signature=a"},
        {"GET", "/toolbox/" ID "/files/upload-v2?path=x&expires=0&signature=a"},
        {"GET", "/toolbox/" ID "/files/info?path=x&expires=0&signature=a"},
        {"GET", "/toolbox/" ID "/files?path=x&expires=0&signature=a"},
        {"GET", "/toolbox/" ID "/git/download?path=x&expires=0&signature=a"},
        {"GET", "/api/" ID "/files/download?path=x&expires=0&signature=a"},
        {"GET", "/toolbox/name/files/download?path=x&expires=0&signature=a"},
        {"DELETE", "/toolbox/" ID "/files/download?path=x&expires=0&signature=a"},
        {"GET", "/toolbox/" ID "/files/download?expires=0&signature=a"},
        {"GET", "/toolbox/" ID "/files/download?path=x&signature=a"},
        {"GET", "/toolbox/" ID "/files/download?path=x&expires=0"},
        {"GET", "/toolbox/" ID "/files/download?path=x&expires=-1&signature=a"},
        {"GET", "/toolbox/" ID "/files/download?path=x&expires=1e9&signature=a"},
        {"GET", "/toolbox/" ID "/files/download?path=x&expires=&signature=a"},
    };
    struct sign_claim claim;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_false(read_claim(rows[i].method, rows[i].uri, &claim));
    assert_true(
        read_claim("HEAD", "/toolbox/" ID "/files/download?path=x&expires=0&signature=a", &claim));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid),
        cmocka_unit_test(test_for_ever),
        cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
