#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "imager/layer/digest.h"

static const char abc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

static void test_known_answer(void **state) {
    (void)state;
    char hex[HEX_SIZE];
    digest_of("abc", 3, hex);
    assert_string_equal(hex, abc);
}

static void test_streamed_in_pieces(void **state) {
    (void)state;
    char hex[HEX_SIZE];
    struct digest *d = digest_new();
    digest_update(d, "a", 1);
    digest_update(d, "", 0);
    digest_update(d, "bc", 2);
    digest_finish(d, hex);
    digest_free(d);
    assert_string_equal(hex, abc);
}

/* The lowest layer's chain is its own digest; the next one's is that of the text of both. */
static void test_chain(void **state) {
    (void)state;
    char lowest[HEX_SIZE], second[HEX_SIZE], expected[HEX_SIZE], text[160];
    digest_chain("", abc, lowest);
    assert_string_equal(lowest, abc);
    digest_chain(lowest, abc, second);
    int n = snprintf(text, sizeof text, "sha256:%s sha256:%s", abc, abc);
    digest_of(text, (size_t)n, expected);
    assert_string_equal(second, expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answer),
        cmocka_unit_test(test_streamed_in_pieces),
        cmocka_unit_test(test_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
