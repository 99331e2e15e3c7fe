/* Tests of imager/build/dockerignore.c and glob.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "imager/build/dockerignore.h"
#include "imager/build/glob.h"

static void test_globs(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *text;
        enum glob_kind kind;
        bool matches;
    } cases[] = {
        {"", "", GLOB_NAMES, true},
        {"a", "a", GLOB_NAMES, true},
        {"a", "b", GLOB_NAMES, false},
        {"a", "ab", GLOB_NAMES, false},
        {"*", "abc", GLOB_NAMES, true},
        {"*", "", GLOB_NAMES, true},
        {"*", "a/b", GLOB_NAMES, false},
        {"a*c", "abbc", GLOB_NAMES, true},
        {"a*c", "ac", GLOB_NAMES, true},
        {"a*c", "abd", GLOB_NAMES, false},
        {"*.txt", "x.txt", GLOB_NAMES, true},
        {"*.txt", ".txt", GLOB_NAMES, true},
        {"?", "x", GLOB_NAMES, true},
        {"?", "ä", GLOB_NAMES, true},
        {"?", "\xff", GLOB_NAMES, true},
        {"?", "/", GLOB_NAMES, false},
        {"?", "", GLOB_NAMES, false},
        {"[a-c]", "b", GLOB_NAMES, true},
        {"[a-c]", "d", GLOB_NAMES, false},
        {"[^a-c]", "d", GLOB_NAMES, true},
        {"[^a-c]", "a", GLOB_NAMES, false},
        {"[ab-]", "b", GLOB_NAMES, false}, /* as Go: malformed */
        {"[\\-x]", "-", GLOB_NAMES, true},
        {"[ä-ü]", "ö", GLOB_NAMES, true},
        {"\\*", "*", GLOB_NAMES, true},
        {"\\*", "a", GLOB_NAMES, false},
        {"a**b", "axb", GLOB_NAMES, true},
        {"a**b", "a/b", GLOB_NAMES, false},
        {"**", "a/b/c", GLOB_DEEP, true},
        {"**/x", "x", GLOB_DEEP, true},
        {"**/x", "a/b/x", GLOB_DEEP, true},
        {"**/x", "ax", GLOB_DEEP, false},
        {"**/x", "a/bx", GLOB_DEEP, false},
        {"a/**/x", "a/x", GLOB_DEEP, true},
        {"a/**/x", "a/b/c/x", GLOB_DEEP, true},
        {"a/**/x", "ab/x", GLOB_DEEP, false},
        {"a/**", "a/b/c", GLOB_DEEP, true},
        {"a/**", "b/c", GLOB_DEEP, false},
        {"**/*.go", "a/b.go", GLOB_DEEP, true},
        {"**/*.go", "b.go", GLOB_DEEP, true},
        {"**/*.go", "a/b.c", GLOB_DEEP, false},
        {"*/b", "a/b", GLOB_DEEP, true},
        {"*/b", "a/c/b", GLOB_DEEP, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(glob_freep) struct glob *g = NULL;
        bool got = glob_compile(cases[i].pattern, cases[i].kind, &g) == 0 &&
                   glob_matches(g, cases[i].text, strlen(cases[i].text));
        if (got != cases[i].matches)
            fail_msg("'%s' and '%s': %d", cases[i].pattern, cases[i].text, got);
    }
}

static void test_malformed_globs(void **state) {
    (void)state;
    static const char *const cases[] = {"[", "[a", "[]", "[^]", "[a-", "[a-]", "\\", "a\\", "[-x]"};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct glob *g = NULL;
        if (glob_compile(cases[i], GLOB_NAMES, &g) != -EINVAL)
            fail_msg("%s", cases[i]);
        assert_null(g);
    }
}

/* A backtracking matcher would take longer than the age of the universe. */
static void test_no_pattern_is_slow(void **state) {
    (void)state;
    char pattern[512] = "", text[2048];
    for (size_t i = 0; i < 120; i++)
        memcpy(pattern + 3 * i, i % 2 == 0 ? "*a*" : "**/", 4);
    memcpy(pattern + 360, "b", 2);
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    _cleanup_(glob_freep) struct glob *g = NULL;
    int64_t start = clock_ms();
    assert_int_equal(glob_compile(pattern, GLOB_DEEP, &g), 0);
    assert_false(glob_matches(g, text, sizeof text - 1));
    assert_true(clock_ms() - start < 30000);
}

static void test_ignored(void **state) {
    (void)state;
    static const struct {
        const char *text, *path;
        bool ignored;
    } cases[] = {
        {"", "a", false},
        {"a", "a", true},
        {"a", "a/b/c", true},
        {"a", "b/a", false},
        {"/a", "a", true},
        {"./a/", "a", true},
        {"a/../b", "b", true},
        {"**/a", "b/a", true},
        {"*.log", "x.log", true},
        {"*.log", "d/x.log", false},
        {"**/*.log", "d/x.log", true},
        {"# a\nb", "a", false},
        {"#a", "#a", false},
        {"  a  ", "a", true},
        {"a\r\nb\r\n", "b", true},
        {"*\n!keep", "keep", false},
        {"*\n!keep", "other", true},
        {"*\n!d/keep", "d/keep", false},
        {"*\n!d/keep", "d/other", true},
        {"d\n!d", "d/x", false},
        {"!d\nd", "d/x", true},
        {"*.md\n!README*.md\nREADME-secret.md", "README.md", false},
        {"*.md\n!README*.md\nREADME-secret.md", "README-secret.md", true},
        {"*.md\n!README*.md\nREADME-secret.md", "x.md", true},
        {"/", "a", false},
        {".", "a", false},
        {"\xef\xbb\xbf"
         "a",
         "a", true},
        {"temp?", "tempa", true},
        {"temp?", "temp", false},
        {"*/temp*", "x/tempy/z", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(dockerignore_freep) struct dockerignore *d = NULL;
        struct cay_error err = {0};
        assert_int_equal(dockerignore_parse("x", cases[i].text, strlen(cases[i].text), &d, &err),
                         0);
        if (dockerignore_matches(d, cases[i].path) != cases[i].ignored)
            fail_msg("'%s' and '%s'", cases[i].text, cases[i].path);
    }
    assert_false(dockerignore_matches(NULL, "a"));
    assert_false(dockerignore_has_exceptions(NULL));
}

static void test_bad_ignore(void **state) {
    (void)state;
    struct dockerignore *d = NULL;
    struct cay_error err = {0};
    assert_int_equal(dockerignore_parse("f", "a\n[\n", 4, &d, &err), -CAY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "f:2: "));
    assert_int_equal(dockerignore_parse("f", "!\n", 2, &d, &err), -CAY_INVALID_ARGUMENT);
    assert_int_equal(dockerignore_parse("f", "a\0b", 3, &d, &err), -CAY_INVALID_ARGUMENT);
    _cleanup_(freep) char *many = calloc(1, 2 * DOCKERIGNORE_PATTERNS_MAX + 3);
    for (size_t i = 0; i <= DOCKERIGNORE_PATTERNS_MAX; i++)
        memcpy(many + 2 * i, "a\n", 2);
    assert_int_equal(dockerignore_parse("f", many, strlen(many), &d, &err), -CAY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "patterns"));
    assert_null(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_globs),
        cmocka_unit_test(test_malformed_globs),
        cmocka_unit_test(test_no_pattern_is_slow),
        cmocka_unit_test(test_ignored),
        cmocka_unit_test(test_bad_ignore),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
