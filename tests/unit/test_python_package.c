/* What may be given to pip as a package, and what must not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/str.h"
#include "lib/python/options.h"
#include "lib/python/package.h"

static const char *const good[] = {"requests",
                                   "a",
                                   "A1",
                                   "zope.interface",
                                   "typing_extensions",
                                   "ruamel-yaml",
                                   "requests==2.31.0",
                                   "x===1",
                                   "x~=1.4",
                                   "x!=1",
                                   "x<2",
                                   "x>=1,<2,!=1.5",
                                   "x[a]",
                                   "x[a,b-c]",
                                   "x[a]==1.0",
                                   "x==1.*",
                                   "x==1.0+local.1",
                                   "x==1!2.0",
                                   "x==1.0-1",
                                   "x==1_0"};
static const char *const bad[] = {"",
                                  "-r",
                                  "--index-url=x",
                                  "-",
                                  "x ",
                                  " x",
                                  "x y",
                                  "x;y",
                                  "x==",
                                  "x=1",
                                  "x==1,",
                                  "x,y",
                                  "x==-1",
                                  "./x",
                                  "/x",
                                  "x/y",
                                  "..",
                                  "x.",
                                  "x-",
                                  "_x",
                                  "x[",
                                  "x[]",
                                  "x[a",
                                  "x[a,]",
                                  "x[a]b",
                                  "x@http:",
                                  "git+https://x",
                                  "x==1;os",
                                  "x\n",
                                  "x==1\n-r",
                                  "x==$(y)",
                                  "x=='1'",
                                  "\xc3\xa4",
                                  "x==\xc3\xa4",
                                  "x.whl#a",
                                  "C:\\x"};

static void names_and_versions(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!python_package_is_valid(good[i]))
            fail_msg("%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (python_package_is_valid(bad[i]))
            fail_msg("%s", bad[i]);
    char longest[PYTHON_PACKAGE_LEN_MAX + 2];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_false(python_package_is_valid(longest));
    assert_true(python_package_is_valid(longest + 1));
}

static int put(const struct cay_python *p, struct buf *b) {
    struct cay_error err;
    return python_put_options(p, b, &err);
}

static void what_the_runner_is_asked_for(void **state) {
    (void)state;
    struct buf b = BUF_INIT(1 << 16);
    struct cay_python p = {.index_url = "ftp://x", .find_links = "/w"};
    assert_int_equal(put(&p, &b), 0); /* without packages nobody looks anywhere */
    assert_int_equal(b.len, 0);
    p.type = CAY_PYTHON_PROCESS;
    assert_int_equal(put(&p, &b), 0);
    assert_true(str_starts(buf_text(&b), "process\n"));
    b.len = 0;
    p.type = CAY_PYTHON_OTHERS;
    p.packages = (const char *const[]){"a", "b==1", NULL};
    assert_int_equal(put(&p, &b), -CAY_INVALID_ARGUMENT);
    b.len = 0;
    p.index_url = "https://x/simple";
    p.type = CAY_PYTHON_REPORT;
    assert_int_equal(put(&p, &b), 0);
    assert_true(str_starts(buf_text(&b), "package a\npackage b==1\nindex https://x/simple\nlinks "
                                         "/w\nreport\n"));
    b.len = 0;
    p.find_links = "/w\npackage c";
    assert_int_equal(put(&p, &b), -CAY_INVALID_ARGUMENT);
    b.len = 0;
    p.packages = (const char *const[]){"-r", NULL};
    assert_int_equal(put(&p, &b), -CAY_INVALID_ARGUMENT);
    buf_free(&b);
}

static void judge(enum cay_python_type type, struct cay_python_result *r, size_t problems) {
    struct cay_error err;
    const struct cay_python p = {.type = type};
    assert_int_equal(python_judge_options(&p, r, &err), 0);
    assert_int_equal(r->report.problem_count, problems);
    cay_python_result_free(r);
}

static void what_a_program_must_leave(void **state) {
    (void)state;
    struct cay_python_file files[] = {{.size = 0}, {.size = 3}};
    struct cay_python_result r = {0};
    judge(CAY_PYTHON_OTHERS, &r, 0);
    judge(CAY_PYTHON_PROCESS, &r, 1);
    judge(CAY_PYTHON_REPORT, &r, 1);
    struct cay_error err;
    const struct cay_python p = {.type = CAY_PYTHON_PROCESS};
    r = (struct cay_python_result){.files = files, .file_count = 1};
    assert_int_equal(python_judge_options(&p, &r, &err), 0);
    assert_int_equal(r.report.problem_count, 1);
    free(r.report.problems[0]);
    r = (struct cay_python_result){.files = files, .file_count = 2};
    assert_int_equal(python_judge_options(&p, &r, &err), 0);
    assert_int_equal(r.report.problem_count, 0);
}

static void why_packages_are_not_there(void **state) {
    (void)state;
    static const struct {
        const char *why;
        enum cay_code code;
        const char *part;
    } cases[] = {{"network", CAY_UNAVAILABLE, "no network"},
                 {"pip", CAY_NOT_FOUND, "no pip"},
                 {"failed No matching distribution", CAY_UNAVAILABLE, ": No matching"},
                 {"\x1b[1m", CAY_UNAVAILABLE, "\\x1b"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cay_error err;
        const struct cay_python p = {0};
        struct cay_python_result r = {.not_installed = (char *)(uintptr_t)cases[i].why};
        assert_int_equal(python_judge_options(&p, &r, &err), -(int)cases[i].code);
        assert_non_null(strstr(err.message, cases[i].part));
        assert_true(err.remedy[0] != '\0');
    }
}

static void which_module_was_missed(void **state) {
    (void)state;
    static const struct {
        const char *type, *message, *module; /* NULL: none */
    } cases[] = {
        {"ModuleNotFoundError", "No module named 'pyarrow'", "pyarrow"},
        {"ModuleNotFoundError", "No module named 'a.b'", "a"},
        {"ImportError", "tried:\n - Missing optional dependency 'pyarrow'. Use pip", "pyarrow"},
        {"ImportError", "cannot import name 'x' from 'y'", NULL},
        {"ValueError", "No module named 'a'", NULL},
        {"ModuleNotFoundError", "No module named 'a", NULL},
        {"ModuleNotFoundError", "No module named '--x'", NULL},
        {"ModuleNotFoundError", "No module named '\x1b[1m'", NULL},
        {"ModuleNotFoundError",
         "No module named 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'",
         NULL},
        {"ModuleNotFoundError", NULL, NULL},
        {NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char module[PYTHON_MODULE_SIZE];
        bool missed = python_missing_module(cases[i].type, cases[i].message, module);
        assert_int_equal(missed, cases[i].module != NULL);
        if (missed)
            assert_string_equal(module, cases[i].module);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_versions),        cmocka_unit_test(what_the_runner_is_asked_for),
        cmocka_unit_test(what_a_program_must_leave), cmocka_unit_test(why_packages_are_not_there),
        cmocka_unit_test(which_module_was_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
