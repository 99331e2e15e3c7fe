/* Tests of the limits that a host cannot keep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "daemon/capacity.h"

static const struct capacity large = {.descriptors = 20000, .processes = 32768, .id_ranges = 12288};

static void expect(const struct capacity *host, uint64_t sandboxes, const char *what) {
    struct cay_error err = {0};
    int r = capacity_check(host, sandboxes, &err);
    assert_int_equal(r, what == NULL ? 0 : -CAY_INVALID_ARGUMENT);
    if (what == NULL)
        return;
    assert_non_null(strstr(err.message, what));
    assert_string_not_equal(err.remedy, "");
}

static void test_what_is_possible(void **state) {
    (void)state;
    expect(&large, 100, NULL);
    expect(&large, 12288, NULL);
    expect(&large, 1000000, NULL); /* 12,288 run, and the others are stopped */
}

static void test_what_is_not(void **state) {
    (void)state;
    struct capacity host = large;
    host.descriptors = 1024;
    expect(&host, 700, NULL);
    expect(&host, 1000, "open files of a process allow for 768");
    host.descriptors = 100;
    expect(&host, 1, "open files of a process allow for 0");
    host = large;
    host.processes = 4096;
    expect(&host, 1792, NULL);
    expect(&host, 1793, "processes of the host");
    host = large;
    host.id_ranges = 0; /* an ordinary user */
    expect(&host, 14000, NULL);
}

static void test_this_host(void **state) {
    (void)state;
    struct capacity host;
    capacity_look(true, &host);
    assert_true(host.descriptors > 0 && host.processes > 300 && host.id_ranges > 4094);
    capacity_look(false, &host);
    assert_int_equal(host.id_ranges, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_possible),
        cmocka_unit_test(test_what_is_not),
        cmocka_unit_test(test_this_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
