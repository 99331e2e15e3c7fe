/* Tests of the headers that ask for a part of some content, or for another one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/http/range.h"
#include "base/auto.h"

static void ranges(void **state) {
    (void)state;
    static const struct {
        const char *header;
        uint64_t size;
        enum range_wish wish;
        uint64_t first, length;
    } cases[] = {
        {NULL, 10, RANGE_WHOLE, 0, 10},
        {"bytes=0-", 10, RANGE_PART, 0, 10},
        {"bytes=0-0", 10, RANGE_PART, 0, 1},
        {"Bytes=3-5", 10, RANGE_PART, 3, 3},
        {"bytes=9-", 10, RANGE_PART, 9, 1},
        {"bytes=5-99", 10, RANGE_PART, 5, 5},
        {"bytes=5-99999999999999999999999", 10, RANGE_PART, 5, 5},
        {"bytes=-3", 10, RANGE_PART, 7, 3},
        {"bytes=-99", 10, RANGE_PART, 0, 10},
        {"bytes=0-18446744073709551615", UINT64_MAX, RANGE_PART, 0, UINT64_MAX},
        {"bytes=10-", 10, RANGE_OUTSIDE, 0, 10},
        {"bytes=99999999999999999999999-", 10, RANGE_OUTSIDE, 0, 10},
        {"bytes=-0", 10, RANGE_OUTSIDE, 0, 10},
        {"bytes=0-", 0, RANGE_OUTSIDE, 0, 0},
        {"bytes=-1", 0, RANGE_OUTSIDE, 0, 0},
        /* what is no range, or more than one, may be ignored */
        {"bytes=5-3", 10, RANGE_WHOLE, 0, 10},
        {"bytes=1-2,4-5", 10, RANGE_WHOLE, 0, 10},
        {"bytes=", 10, RANGE_WHOLE, 0, 10},
        {"bytes=-", 10, RANGE_WHOLE, 0, 10},
        {"bytes=x-3", 10, RANGE_WHOLE, 0, 10},
        {"bytes=1-x", 10, RANGE_WHOLE, 0, 10},
        {"bytes=+1-2", 10, RANGE_WHOLE, 0, 10},
        {"bytes=1", 10, RANGE_WHOLE, 0, 10},
        {"lines=1-2", 10, RANGE_WHOLE, 0, 10},
        {"", 10, RANGE_WHOLE, 0, 10},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct range r;
        assert_int_equal(range_read(cases[i].header, cases[i].size, &r), cases[i].wish);
        assert_int_equal(r.first, cases[i].first);
        assert_int_equal(r.length, cases[i].length);
    }
}

static void tags(void **state) {
    (void)state;
    static const struct {
        const char *header;
        bool has;
    } cases[] = {
        {NULL, false},           {"", false},          {"*", true},
        {"\"1-a\"", true},       {"W/\"1-a\"", true},  {"\"x\", \"1-a\"", true},
        {"\"1-a\",\"x\"", true}, {"\"1-a\"x", false},  {"\"1-ab\"", false},
        {"1-a", false},          {"\"x\" , ,", false}, {"\"x\",W/\"1-a\" , \"y\"", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(range_has_tag(cases[i].header, "\"1-a\""), cases[i].has);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges),
        cmocka_unit_test(tags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
