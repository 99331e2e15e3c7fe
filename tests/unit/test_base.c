/* Tests of the small modules of base/: error, buf, str, fd, path, id, clock, log. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

static void sizes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes; /* 0: refused */
    } cases[] = {
        {"1", 1},        {"512", 512},        {"512b", 512},  {"1k", 1024}, {"1.5g", 1610612736},
        {"2GiB", 2147483648}, {"1MB", 1048576}, {"512x", 0},  {"", 0},      {"-1", 0},
        {"0", 0},        {"0k", 0},           {"1kk", 0},     {"k", 0},     {"1e3", 0},
        {"0x10", 0},     {" 1", 0},           {"1 ", 0},      {"nan", 0},   {"99999999t", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t got = 0;
        struct cay_error err = {0};
        int r = str_to_size("--memory", cases[i].text, &got, &err);
        if (cases[i].bytes != 0) {
            assert_int_equal(r, 0);
            assert_int_equal(got, cases[i].bytes);
        } else {
            assert_int_equal(r, -CAY_INVALID_ARGUMENT);
            assert_non_null(strstr(err.message, "--memory"));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes)};
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
