/* Tests of base/toml: values, places, limits and what errors say. The grammar at large is covered
 * by test_toml_suite.c where the public suite is at hand. */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/toml/toml.h"

static struct toml_value *parse(const char *text) {
    struct toml_value *root = NULL;
    struct cay_error err = {0};
    if (toml_parse("t.toml", text, strlen(text), &root, &err) < 0)
        fail_msg("%s refused: %s", text, err.message);
    return root;
}

static void integers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"a=0", 0},
        {"a=-0", 0},
        {"a=+7", 7},
        {"a=1_000_000", 1000000},
        {"a=0xdead_BEEF", 0xdeadbeef},
        {"a=0x00_1", 1},
        {"a=0o755", 0755},
        {"a=0b1101", 13},
        {"a=9223372036854775807", INT64_MAX},
        {"a=-9223372036854775808", INT64_MIN},
        {"a=0x7fffffffffffffff", INT64_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(toml_freep) struct toml_value *root = parse(cases[i].text);
        const struct toml_value *v = toml_get(root, "a");
        assert_int_equal(v->type, TOML_INTEGER);
        assert_true(v->integer == cases[i].value);
        assert_null(strchr(v->text, '_'));
    }
}

static void floats(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"a=1.5", 1.5},
        {"a=-0.25", -0.25},
        {"a=1e3", 1000},
        {"a=1_0.2_5", 10.25},
        {"a=6.5E-2", 0.065},
        {"a=+0.0", 0},
        {"a=-inf", -(double)INFINITY},
        {"a=inf", (double)INFINITY},
    };
    /* A program may set a locale with another decimal point. */
    (void)setlocale(LC_ALL, "de_DE.UTF-8");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(toml_freep) struct toml_value *root = parse(cases[i].text);
        assert_int_equal(toml_get(root, "a")->type, TOML_FLOAT);
        assert_true(toml_get(root, "a")->number == cases[i].value);
    }
    (void)setlocale(LC_ALL, "C");
    _cleanup_(toml_freep) struct toml_value *root = parse("a=-nan");
    assert_true(isnan(toml_get(root, "a")->number));
}

static void texts(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum toml_type type;
        const char *value;
    } cases[] = {
        {"a=\"x\\ty\\u00e9\\U0001F600\"", TOML_STRING, "x\ty\xc3\xa9\xf0\x9f\x98\x80"},
        {"a='C:\\n'", TOML_STRING, "C:\\n"},
        {"a=\"\"\"\r\none\r\ntwo\"\"\"", TOML_STRING, "one\ntwo"},
        {"a=\"\"\"x \\  \n\t y\"\"\"", TOML_STRING, "x y"},
        {"a=\"\"\"q\"\"\"\"\"", TOML_STRING, "q\"\""},
        {"a='''q'''''", TOML_STRING, "q''"},
        {"a=''''''", TOML_STRING, ""},
        {"a=1979-05-27 07:32:00z", TOML_DATETIME, "1979-05-27T07:32:00Z"},
        {"a=1979-05-27t07:32:00.25-07:30", TOML_DATETIME, "1979-05-27T07:32:00.25-07:30"},
        {"a=1979-05-27T23:59:60", TOML_LOCAL_DATETIME, "1979-05-27T23:59:60"},
        {"a=2024-02-29 # leap", TOML_LOCAL_DATE, "2024-02-29"},
        {"a=07:32:00.999", TOML_LOCAL_TIME, "07:32:00.999"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(toml_freep) struct toml_value *root = parse(cases[i].text);
        const struct toml_value *v = toml_get(root, "a");
        assert_int_equal(v->type, cases[i].type);
        assert_string_equal(v->text, cases[i].value);
        assert_int_equal(v->text_len, strlen(cases[i].value));
    }
}

static void tree(void **state) {
    (void)state;
    _cleanup_(toml_freep) struct toml_value *root = parse(
        "a.b = 1\n[t]\nx = [1, 'two', [3.0], {y.z = true},]\n[[e]]\nn=1\n[[e]]\n[e.s]\nk=1\n");
    assert_int_equal(toml_get(toml_get(root, "a"), "b")->integer, 1);
    const struct toml_value *x = toml_get(toml_get(root, "t"), "x");
    assert_int_equal(x->count, 4);
    assert_string_equal(x->first->next->text, "two");
    assert_true(toml_get(toml_get(x->last, "y"), "z")->boolean);
    const struct toml_value *e = toml_get(root, "e");
    assert_int_equal(e->type, TOML_ARRAY);
    assert_int_equal(e->count, 2);
    assert_null(toml_get(e->first, "s"));
    assert_non_null(toml_get(toml_get(e->last, "s"), "k"));
    assert_null(toml_get(root, "missing"));
    assert_null(toml_get(x, "not a table"));
}

static void places(void **state) {
    (void)state;
    _cleanup_(toml_freep) struct toml_value *root = parse(
        "\xef\xbb\xbf# c\r\n[t]\r\n  '\xc3\xa9\xc3\xa9' = \"\xc3\xa9\"\n  x = [\n    1, 2]\n");
    const struct toml_value *t = toml_get(root, "t");
    assert_int_equal(t->line, 2);
    assert_int_equal(t->column, 2);
    assert_int_equal(t->first->key_line, 3);
    assert_int_equal(t->first->key_column, 3);
    assert_int_equal(t->first->column, 10); /* characters, not bytes */
    const struct toml_value *two = toml_get(t, "x")->last;
    assert_int_equal(two->line, 5);
    assert_int_equal(two->column, 8);
}

static void errors(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"a = foo", "t.toml:1:5: 'foo' is not a value"},
        {"a = \n", "t.toml:1:5: expected a value, found the end of the line"},
        {"a", "t.toml:1:2: expected '=', found the end of the file"},
        {"a = 1 b = 2", "t.toml:1:7: expected the end of the line, found 'b'"},
        {"\n= 1", "t.toml:2:1: expected a key, found '='"},
        {"a=1\nb=2\na=3", "t.toml:3:1: there is already a key 'a' (line 1)"},
        {"[a]\n[a]", "t.toml:2:2: a header cannot define again 'a' (line 1)"},
        {"a=[]\n[[a]]", "t.toml:2:3: [[…]] cannot add to 'a' (line 1)"},
        {"a={}\n[a.b]", "t.toml:2:2: a header cannot add to the inline table 'a' (line 1)"},
        {"a={}\na.b=1", "t.toml:2:1: a dotted key cannot add to the table 'a' (line 1)"},
        {"a=1\na.b=1", "t.toml:2:1: a dotted key cannot go through the value 'a' (line 1)"},
        {"a=1\n[a.b]", "t.toml:2:2: a header cannot go through the value 'a' (line 1)"},
        {"a.b=1\n[a]", "t.toml:2:2: a header cannot define again 'a' (line 1)"},
        {"[[a]]\n[a]", "t.toml:2:2: a header cannot define again 'a' (line 1)"},
        {"a=\"x\ny\"", "t.toml:1:5: the string has no closing \""},
        {"a='''\n", "t.toml:2:1: the string of line 1 has no end"},
        {"a=\"\\q\"", "t.toml:1:4: unknown escape in a string"},
        {"a=\"\\ud800\"", "t.toml:1:4: U+D800 is not a character"},
        {"a=\"\\u12g4\"", "t.toml:1:4: a \\u escape needs 4 hexadecimal digits"},
        {"a=[1 2]", "t.toml:1:6: expected ',', found '2'"},
        {"a=[1,\n", "t.toml:2:1: the array of line 1 has no end"},
        {"a={b=1,}", "t.toml:1:8: expected a key, found '}'"},
        {"a={b=1\n}", "t.toml:1:7: expected ',', found the end of the line"},
        {"a=01", "t.toml:1:3: '01' is not a value"},
        {"a=1__0", "t.toml:1:3: '1__0' is not a value"},
        {"a=+0x1", "t.toml:1:3: '+0x1' is not a value"},
        {"a=0o8", "t.toml:1:3: '0o8' is not a value"},
        {"a=1.", "t.toml:1:3: '1.' is not a value"},
        {"a=9223372036854775808", "t.toml:1:3: '9223372036854775808' is too large"},
        {"a=2023-02-29", "t.toml:1:3: '2023-02-29' is not a valid date or time"},
        {"a=24:00:00", "t.toml:1:3: '24:00:00' is not a valid date or time"},
        {"a=1\x01", "t.toml:1:4: control character 0x01"},
        {"# \xc3\xa9\xff", "t.toml:1:4: byte 0xff is not UTF-8"},
        {"a='\xed\xa0\x80'", "t.toml:1:4: byte 0xed is not UTF-8"},
        {"a=1\rb=2", "t.toml:1:4: carriage return inside a line"},
        {"[a", "t.toml:1:3: expected ']', found the end of the file"},
        {"a = \xc3\xa9", "t.toml:1:5: expected a value, found '\xc3\xa9'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct toml_value *root = NULL;
        struct cay_error err = {0};
        const char *text = cases[i].text;
        assert_int_equal(toml_parse("t.toml", text, strlen(text), &root, &err),
                         -CAY_INVALID_ARGUMENT);
        assert_string_equal(err.message, cases[i].message);
        assert_null(root);
        assert_int_equal(toml_parse("t.toml", text, strlen(text), &root, NULL),
                         -CAY_INVALID_ARGUMENT);
    }
}

/* A text of head, count times unit, tail. */
static int parse_repeated(const char *head, const char *unit, size_t count, const char *tail,
                          struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(4 * 1024 * 1024);
    _cleanup_(toml_freep) struct toml_value *root = NULL;
    (void)buf_puts(&b, head);
    for (size_t i = 0; i < count; i++)
        (void)buf_puts(&b, unit);
    (void)buf_puts(&b, tail);
    assert_false(b.failed);
    return toml_parse("t.toml", b.data, b.len, &root, err);
}

static void limits(void **state) {
    (void)state;
    static const struct {
        const char *head, *unit, *tail;
        size_t fits, too_many;
        const char *message;
    } cases[] = {
        {"a=", "[", "", 0, 100000, "nested more than 64 deep"},
        {"a=", "{a=", "", 0, 100000, "nested more than 64 deep"},
        {"", "a.", "a=1", TOML_DEPTH_MAX - 1, TOML_DEPTH_MAX, "nested more than 64 deep"},
        {"[", "a.", "a]", TOML_DEPTH_MAX - 1, 300000, "nested more than 64 deep"},
        {"a=[", "1,", "]", TOML_VALUES_MAX - 2, TOML_VALUES_MAX - 1, "more than 10000 values"},
        {"", "[[a]]\n", "", TOML_VALUES_MAX - 2, TOML_VALUES_MAX, "more than 10000 values"},
        {"#", "x", "", TOML_SIZE_MAX - 1, TOML_SIZE_MAX, "larger than 1048576 bytes"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        if (cases[i].fits > 0)
            assert_int_equal(
                parse_repeated(cases[i].head, cases[i].unit, cases[i].fits, cases[i].tail, &err),
                0);
        assert_int_equal(
            parse_repeated(cases[i].head, cases[i].unit, cases[i].too_many, cases[i].tail, &err),
            -CAY_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, cases[i].message));
        assert_string_not_equal(err.remedy, "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers), cmocka_unit_test(floats), cmocka_unit_test(texts),
        cmocka_unit_test(tree),     cmocka_unit_test(places), cmocka_unit_test(errors),
        cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests_name("toml", tests, NULL, NULL);
}
