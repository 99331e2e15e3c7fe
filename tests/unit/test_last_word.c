/* The record of a report that says how its command ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "init/session/exit_record.h"

struct report {
    const char *bytes;
    size_t len;
    int code;
};

#define REPORT(text, code)                                                                         \
    { text, sizeof(text) - 1, code }

static const struct report reports[] = {
    REPORT("", -1),
    REPORT("\1\6\0\0\0003.11.2", -1),
    REPORT("\0\1\0\0\0\0", 0),
    REPORT("\0\1\0\0\0\377", 255),
    REPORT("\1\2\0\0\0ab\0\1\0\0\0\7", 7),
    REPORT("\1\0\0\0\0\2\0\0\0\0\0\1\0\0\0\3", 3), /* records may be empty, */
    REPORT("\0\0\0\0\0\1\1\0\0\0x", -1),           /* and then say no code */
    REPORT("\6\6\0\0\0\0\1\0\0\0\5", -1),          /* it is inside a picture */
    REPORT("\6\377\377\377\377\0\1\0\0\0\5", -1),  /* a length that nobody sends */
    REPORT("\0\1\0\0\0", -1),                      /* broken off */
    REPORT("\0\3\0\0\0\11zz", 9),                  /* longer than needed */
};

static void test_code_is_found(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(reports); i++) {
        struct last_word w = {0};
        assert_int_equal(last_word_find(&w, reports[i].bytes, reports[i].len), reports[i].code);
    }
}

/* A pipe gives bytes in any portions. */
static void test_portions_do_not_matter(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(reports); i++) {
        struct last_word w = {0};
        int code = -1;
        for (size_t at = 0; at < reports[i].len && code < 0; at++)
            code = last_word_find(&w, reports[i].bytes + at, 1);
        assert_int_equal(code, reports[i].code);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_code_is_found),
        cmocka_unit_test(test_portions_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
