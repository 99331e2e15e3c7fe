/* What a program reports comes from inside: whole records count, and nothing after nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "lib/python/report.h"

#define BYTES(text) text, sizeof(text) - 1

static struct cay_python_result read_report(const char *data, size_t len) {
    struct cay_python_result r = {0};
    struct buf b = BUF_INIT(1 << 20);
    assert_int_equal(buf_append(&b, data, len), 0);
    assert_int_equal(python_report_read(&b, &r), 0);
    buf_free(&b);
    return r;
}

static void all_kinds(void **state) {
    (void)state;
    struct cay_python_result r =
        read_report(BYTES("\1\4\0\0\0003.11\2\1\0\0\0T\3\1\0\0\0M\4\2\0\0\0tb"
                          "\5\13\0\0\00012\0f.py\0g\0s\6\7\0\0\0png\0\0\1\2"));
    assert_string_equal(r.version, "3.11");
    assert_string_equal(r.type, "T");
    assert_string_equal(r.message, "M");
    assert_string_equal(r.traceback, "tb");
    assert_int_equal(r.frame_count, 1);
    assert_int_equal(r.frames[0].line, 12);
    assert_string_equal(r.frames[0].file, "f.py");
    assert_string_equal(r.frames[0].function, "g");
    assert_string_equal(r.frames[0].source, "s");
    assert_int_equal(r.figure_count, 1);
    assert_int_equal(r.figures[0].len, 3);
    assert_memory_equal(r.figures[0].data, "\0\1\2", 3);
    cay_python_result_free(&r);
}

static void charts_belong_to_figures(void **state) {
    (void)state;
    struct cay_python_result r = read_report(BYTES("\6\5\0\0\0png\0a\7\7\0\0\0{\"a\":1}"
                                                   "\6\5\0\0\0png\0b\2\1\0\0\0T"));
    assert_int_equal(r.figure_count, 2);
    assert_string_equal(r.figures[0].chart, "{\"a\":1}");
    assert_null(r.figures[1].chart);
    assert_string_equal(r.type, "T");
    cay_python_result_free(&r);
}

static void svg_belongs_to_a_figure(void **state) {
    (void)state;
    struct cay_python_result r = read_report(BYTES("\6\5\0\0\0png\0a\10\6\0\0\0<svg/>"
                                                   "\6\5\0\0\0png\0b\2\1\0\0\0T"));
    assert_int_equal(r.figure_count, 2);
    assert_string_equal(r.figures[0].svg, "<svg/>");
    assert_null(r.figures[1].svg);
    assert_string_equal(r.type, "T");
    cay_python_result_free(&r);
    r = read_report(BYTES("\10\6\0\0\0<svg/>\2\1\0\0\0T")); /* of none */
    assert_int_equal(r.figure_count, 0);
    assert_null(r.type);
    cay_python_result_free(&r);
}

static void what_breaks_off_is_left(void **state) {
    (void)state;
    struct cay_python_result r = read_report(BYTES("\2\1\0\0\0T\3\xff\xff\xff\xffx"));
    assert_string_equal(r.type, "T");
    assert_null(r.message);
    cay_python_result_free(&r);
    r = read_report(BYTES("\2\1\0"));
    assert_null(r.type);
    cay_python_result_free(&r);
}

static void nothing_counts_after_nonsense(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t len;
    } cases[] = {
        {BYTES("\x09\0\0\0\0\2\1\0\0\0T")},            /* no such kind */
        {BYTES("\7\2\0\0\0{}\2\1\0\0\0T")},            /* a chart without a figure */
        {BYTES("\5\2\0\0\0ab\2\1\0\0\0T")},            /* a line that is no number */
        {BYTES("\6\10\0\0\0../x\0abc\2\1\0\0\0T")},    /* a format that is a path */
        {BYTES("\1\1\0\0\0a\1\1\0\0\0b\2\1\0\0\0T")},  /* said twice */
        {BYTES("\5\12\0\0\0004294967296\2\1\0\0\0T")}, /* a line beyond all files */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cay_python_result r = read_report(cases[i].data, cases[i].len);
        assert_null(r.type);
        assert_int_equal(r.frame_count, 0);
        assert_int_equal(r.figure_count, 0);
        cay_python_result_free(&r);
    }
}

static void floods_are_bounded(void **state) {
    (void)state;
    struct buf b = BUF_INIT(1 << 20);
    for (int i = 0; i < 1000; i++)
        (void)buf_append(&b, BYTES("\5\1\0\0\0001"));
    struct cay_python_result r = {0};
    assert_int_equal(python_report_read(&b, &r), 0);
    assert_int_equal(r.frame_count, PYTHON_FRAMES_MAX);
    assert_string_equal(r.frames[63].source, "");
    cay_python_result_free(&r);
    buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kinds),
        cmocka_unit_test(charts_belong_to_figures),
        cmocka_unit_test(svg_belongs_to_a_figure),
        cmocka_unit_test(what_breaks_off_is_left),
        cmocka_unit_test(nothing_counts_after_nonsense),
        cmocka_unit_test(floods_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
