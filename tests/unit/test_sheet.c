#include "api/sheet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_escaping(void **state) {
    (void)state;
    static const struct {
        const char *text, *shown;
    } rows[] = {
        {"", ""},
        {"plain", "plain"},
        {"a\tb", "a\\tb"},
        {"a\nb", "a\\nb"},
        {"a\\tb", "a\\\\tb"},
        {"\r\x1b[31m", "\\x0d\\x1b[31m"},
        {"\x7f", "\\x7f"},
        {"a,b", "a,b"},
        {"\xc3\xa4", "\xc3\xa4"},
        {"\xff\xc3", "\\xff\\xc3"},
        {"\xc2\x85", "\\xc2\\x85"}, /* a control character of two bytes */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_(buf_free) struct buf b = BUF_INIT(1024);
        struct tsv t = TSV_INIT(&b);
        tsv_field(&t, rows[i].text);
        assert_string_equal(buf_text(&b), rows[i].shown);
    }
}

static void test_lines(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf b = BUF_INIT(1024);
    struct tsv t = TSV_INIT(&b);
    static const char *const list[] = {"a=1", "b=x,y", "c=\t"};
    tsv_field(&t, "");
    tsv_number(&t, INT64_MIN);
    tsv_unsigned(&t, UINT64_MAX);
    tsv_end_line(&t);
    tsv_list(&t, list, 3);
    tsv_list(&t, NULL, 0);
    tsv_end_line(&t);
    assert_string_equal(buf_text(&b), "\t-9223372036854775808\t18446744073709551615\n"
                                      "a=1,b=x\\x2cy,c=\\t\t\n");
}

struct row {
    const char *name;
    int64_t number;
    struct strv labels;
};

static void write_row(struct sheet *s, const void *row) {
    const struct row *r = row;
    sheet_string(s, "name", r->name);
    sheet_optional(s, "why", "");
    sheet_integer(s, "number", r->number);
    sheet_number(s, "cpus", 0.5);
    sheet_bool(s, "on", true);
    sheet_pairs(s, "labels", &r->labels);
}

static const struct row none = {.name = ""};
static const struct sheet_kind kind = {write_row, sizeof(struct row), &none};

static void test_both_forms(void **state) {
    (void)state;
    struct row rows[2] = {{.name = "a"}, {.name = "b\"", .number = -1}};
    assert_int_equal(strv_push(&rows[0].labels, "k=v=w"), 0);
    assert_int_equal(strv_push(&rows[0].labels, "l="), 0);
    _cleanup_(buf_free) struct buf tsv = BUF_INIT(1024), json = BUF_INIT(1024);
    sheet_write_all(&tsv, true, &kind, rows, 2);
    assert_string_equal(buf_text(&tsv), "name\twhy\tnumber\tcpus\ton\tlabels\n"
                                        "a\t\t0\t0.5\ttrue\tk=v=w,l=\n"
                                        "b\"\t\t-1\t0.5\ttrue\t\n");
    sheet_write_all(&json, false, &kind, rows, 2);
    assert_string_equal(buf_text(&json),
                        "[{\"name\":\"a\",\"why\":null,\"number\":0,\"cpus\":0.5,\"on\":true,"
                        "\"labels\":{\"k\":\"v=w\",\"l\":\"\"}},"
                        "{\"name\":\"b\\\"\",\"why\":null,\"number\":-1,\"cpus\":0.5,\"on\":true,"
                        "\"labels\":{}}]\n");
    strv_free(&rows[0].labels);
}

static void test_no_rows(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf tsv = BUF_INIT(1024), json = BUF_INIT(1024);
    sheet_write_all(&tsv, true, &kind, NULL, 0);
    assert_string_equal(buf_text(&tsv), "name\twhy\tnumber\tcpus\ton\tlabels\n");
    sheet_write_all(&json, false, &kind, NULL, 0);
    assert_string_equal(buf_text(&json), "[]\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escaping),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_both_forms),
        cmocka_unit_test(test_no_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
