/* The keys that leave a terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/session/detach_keys.h"

static void parse(void **state) {
    (void)state;
    static const struct {
        const char *text, *keys; /* NULL: refused */
    } cases[] = {
        {"ctrl-p,ctrl-q", "\x10\x11"},
        {"ctrl-P", "\x10"},
        {"a,B,~", "aB~"},
        {"ctrl-[", "\x1b"},
        {"ctrl-\\,d", "\x1c"
                      "d"},
        {"", ""},
        {"a,b,c,d,e,f,g,h", "abcdefgh"},
        {"a,b,c,d,e,f,g,h,i", NULL},
        {"ctrl-", NULL},
        {"ctrl-1", NULL},
        {"ab", NULL},
        {"a,", NULL},
        {",", NULL},
        {" ", NULL},
        {"ä", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct detach_keys k;
        struct cay_error err = {0};
        int r = detach_keys_parse(cases[i].text, &k, &err);
        assert_int_equal(r, cases[i].keys != NULL ? 0 : -CAY_INVALID_ARGUMENT);
        if (r < 0)
            continue;
        assert_int_equal(k.count, strlen(cases[i].keys));
        assert_memory_equal(k.keys, cases[i].keys, k.count);
    }
}

/* Typed in one go and key by key gives the same. */
static void take(void **state) {
    (void)state;
    static const struct {
        const char *keys, *typed, *passed;
        bool left;
    } cases[] = {
        {"x,y", "abc", "abc", false},      {"x,y", "axyb", "a", true},
        {"x,y", "axb", "axb", false},      {"x,y", "xxy", "x", true},
        {"x,y", "ax", "a", false},         {"a,a,b", "aaab", "a", true},
        {"a,b,a,c", "ababac", "ab", true}, {"a,b,a,c", "abab", "ab", false},
        {"a,a,b", "aacaab", "aac", true},  {"", "abc", "abc", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t step = 1; step <= 8; step++) {
            struct detach_keys k;
            struct cay_error err;
            struct buf out = BUF_INIT(64);
            bool left = false;
            size_t len = strlen(cases[i].typed);
            assert_int_equal(detach_keys_parse(cases[i].keys, &k, &err), 0);
            for (size_t at = 0; at < len && !left; at += step)
                left = detach_keys_take(&k, cases[i].typed + at, MIN(step, len - at), &out);
            assert_int_equal(left, cases[i].left);
            assert_string_equal(buf_text(&out), cases[i].passed);
            buf_free(&out);
        }
    }
}

static void release(void **state) {
    (void)state;
    struct detach_keys k;
    struct cay_error err;
    struct buf out = BUF_INIT(64);
    assert_int_equal(detach_keys_parse("x,y,z", &k, &err), 0);
    assert_false(detach_keys_take(&k, "xy", 2, &out));
    assert_int_equal(out.len, 0);
    detach_keys_release(&k, &out);
    assert_false(detach_keys_take(&k, "z", 1, &out));
    assert_string_equal(buf_text(&out), "xyz");
    buf_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse),
        cmocka_unit_test(take),
        cmocka_unit_test(release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
