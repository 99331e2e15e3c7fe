/* Languages by name and by file, what a shell is given, and what it tells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <cay.h>

#include "base/str.h"
#include "lib/python/code_report.h"
#include "lib/python/language.h"

static void every_name_is_a_language(void **state) {
    (void)state;
    assert_string_equal(language_names[0], "auto");
    for (size_t i = 1; language_names[i] != NULL; i++)
        assert_non_null(language_find(language_names[i]));
    assert_ptr_equal(language_find("node"), language_find("javascript"));
    assert_ptr_equal(language_find("c++"), language_find("cpp"));
    assert_null(language_find("auto"));
    assert_null(language_find(""));
    assert_null(language_find(NULL));
}

static void files_report_their_language(void **state) {
    (void)state;
    static const struct {
        const char *path, *name;
    } cases[] = {{"a/b.c", "c"},
                 {"x.cc", "cpp"},
                 {"x.tar.js", "javascript"},
                 {"m.mjs", "javascript"},
                 {"t.mts", "typescript"},
                 {"s.sh", "bash"},
                 {"X.java", "java"},
                 {"p.py", "python"},
                 {"README", NULL},
                 {"c", NULL},
                 {"", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct language *l = language_of_file(cases[i].path);
        if (cases[i].name == NULL)
            assert_null(l);
        else
            assert_string_equal(l->name, cases[i].name);
    }
}

/* The name that the file gets inside. */
static void expect_name(const char *language, const char *path, const char *name) {
    struct strv argv = {0};
    struct cay_error err;
    const struct language_request q = {
        .name = path, .code_len = 7, .compile_ms = 1, .args = (const char *const[]){"-a", NULL}};
    assert_int_equal(language_argv(language_find(language), &q, &argv, &err), 0);
    assert_int_equal(argv.len, 8);
    assert_string_equal(argv.v[0], "/bin/sh");
    assert_string_equal(argv.v[4], name);
    assert_string_equal(argv.v[5], "7");
    assert_string_equal(argv.v[6], "1"); /* whole seconds, never none */
    assert_string_equal(argv.v[7], "-a");
    strv_free(&argv);
}

static void names_are_kept_where_that_is_safe(void **state) {
    (void)state;
    char longest[LANGUAGE_NAME_MAX + 2];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    expect_name("c", "/home/me/hello.c", "hello.c");
    expect_name("c", "hello.txt", "code.c");
    expect_name("c", "-", "code.c");
    expect_name("c", "-c", "code.c");
    expect_name("c", NULL, "code.c");
    expect_name("c", "-o.c", "code.c");
    expect_name("c", "a b.c", "code.c");
    expect_name("c", "$(x).c", "code.c");
    expect_name("c", "..c", "code.c");
    expect_name("bash", "deploy", "deploy");
    expect_name("bash", "dir/", "code.sh");
    expect_name("bash", longest, "code.sh");
    expect_name("bash", longest + 1, longest + 1);
}

static struct code_report read_report(const char *text) {
    return code_report_read(text, strlen(text));
}

static void what_a_shell_tells(void **state) {
    (void)state;
    struct code_report r = read_report("tool g++\ncompiled 12.30 12.55\nbegin\n");
    assert_string_equal(r.tool, "g++");
    assert_true(r.compiled && r.began && !r.late && !r.missing);
    assert_int_equal(r.compile_us, 250000);
    r = read_report("tool gcc\ncompiled 1.0 61.02\nlate\n");
    assert_true(r.compiled && r.late && !r.began);
    assert_true(read_report("missing\n").missing);
}

static void what_makes_no_sense_is_passed_over(void **state) {
    (void)state;
    static const char *const cases[] = {"",
                                        "begin",
                                        "begin ",
                                        "Begin\n",
                                        "tool ../x\n",
                                        "tool \n",
                                        "tool a b\n",
                                        "tool aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
                                        "late",
                                        "missing!\n"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct code_report r = read_report(cases[i]);
        assert_string_equal(r.tool, "");
        assert_true(!r.began && !r.late && !r.missing && !r.compiled);
    }
    static const char *const times[] = {"compiled\n", "compiled 2 1\n", "compiled x y\n",
                                        "compiled 1 999999\n", "compiled nan 1\n"};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        const struct code_report r = read_report(times[i]);
        assert_true(r.compiled);
        assert_int_equal(r.compile_us, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_is_a_language),
        cmocka_unit_test(files_report_their_language),
        cmocka_unit_test(names_are_kept_where_that_is_safe),
        cmocka_unit_test(what_a_shell_tells),
        cmocka_unit_test(what_makes_no_sense_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
