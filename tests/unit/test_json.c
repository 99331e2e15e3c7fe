/* Tests of base/json/json.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "base/str.h"

static struct json_document *parse_ok(const char *text) {
    struct json_document *doc = NULL;
    struct cay_error err = {0};
    if (json_parse("test", text, strlen(text), &doc, &err) != 0)
        fail_msg("%s: %s", text, err.message);
    return doc;
}

struct text_case {
    const char *text;
    size_t len;          /* 0: strlen */
    const char *message; /* NULL: accepted */
};

static void check_texts(const struct text_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        _cleanup_(json_freep) struct json_document *doc = NULL;
        struct cay_error err = {0};
        size_t len = cases[i].len != 0 ? cases[i].len : strlen(cases[i].text);
        int r = json_parse("test", cases[i].text, len, &doc, &err);
        if (r != (cases[i].message == NULL ? 0 : -CAY_INVALID_ARGUMENT))
            fail_msg("case %zu: %d %s", i, r, err.message);
        assert_true((doc != NULL) == (r == 0));
        if (r == 0 || cases[i].message == NULL)
            continue;
        if (strstr(err.message, cases[i].message) == NULL)
            fail_msg("case %zu: '%s'", i, err.message);
        assert_null(strchr(err.message, 0x1b));
        assert_true(err.remedy[0] != '\0');
    }
}

static void texts(void **state) {
    (void)state;
    static const struct text_case cases[] = {
        {"{}", 0, NULL},
        {" [ ] \n", 0, NULL},
        {"\t\r\n{ \"a\" : 1 , \"b\" : [ { } , [ ] ] } ", 0, NULL},
        {"{\"a\": [1, -2.5e3, true, null, \"\\u00e4\\n\"]}", 0, NULL},
        {"{\"a\": \"]]]]\\\"[[[[\"}", 0, NULL},
        {"{\"\":0}", 0, NULL},
        {"[\"\x7f\xc2\x80\xef\xbf\xbf\xf4\x8f\xbf\xbf\"]", 0, NULL},
        {"[9223372036854775807, -9223372036854775808, 18446744073709551615]", 0, NULL},
        {"[-0, -0.0, 0e0, 0E+5, 1e-400, 123.456e-7]", 0, NULL},
        /* not a value, or not all of one */
        {"", 0, "expected an object or an array"},
        {" ", 0, "the text ends"},
        {"1", 0, "expected an object or an array"},
        {"\"x\"", 0, "expected an object or an array"},
        {"null", 0, "expected an object or an array"},
        {"\xef\xbb\xbf{}", 0, "expected an object or an array"}, /* a byte order mark */
        {"{", 0, "line 1, column 2: the text ends; expected a key"},
        {"[\n 1,\n x]", 0, "line 3, column 2: unexpected 'x'; expected a value"},
        {"[", 0, "the text ends"},
        {"[1", 0, "',' or ']'"},
        {"{\"a\"", 0, "':'"},
        {"{\"a\":", 0, "expected a value"},
        {"{\"a\":1", 0, "',' or '}'"},
        {"{} {}", 0, "expected the end of the text"},
        {"{}x", 0, "expected the end of the text"},
        {"[]]", 0, "expected the end of the text"},
        {"{}\0", 3, "unexpected NUL byte"},
        {"[1,]", 0, "expected a value"},
        {"[,1]", 0, "expected a value"},
        {"[1 2]", 0, "',' or ']'"},
        {"[1}", 0, "',' or ']'"},
        {"{\"a\":1]", 0, "',' or '}'"},
        {"{\"a\":1,}", 0, "expected a key"},
        {"{,}", 0, "expected a key"},
        {"{a:1}", 0, "expected a key"},
        {"{1:1}", 0, "expected a key"},
        {"{\"a\" 1}", 0, "':'"},
        {"['a']", 0, "expected a value"},
        {"[// c\n1]", 0, "expected a value"},
        {"[1 /* c */]", 0, "',' or ']'"},
        {"[\f1]", 0, "expected a value"},
        {"[tru]", 0, "expected a value"},
        {"[nulll]", 0, "',' or ']'"},
        {"[True]", 0, "expected a value"},
        {"[\0]", 3, "unexpected NUL byte"},
        {"\x1b[31m", 0, "\\x1b"}, /* shown escaped */
        /* keys */
        {"{\"a\":1,\"a\":2}", 0, "duplicate"},
        {"{\"a\":1,\"\\u0061\":2}", 0, "duplicate"},
        {"{\"\":1,\"\":2}", 0, "duplicate"},
        {"[{\"a\":{\"b\":1,\"c\":{},\"b\":1}}]", 0, "duplicate"},
        {"{\"a\\u0000\":1}", 0, "NUL"},
    };
    check_texts(cases, ARRAY_LEN(cases));
}

static void bad_scalars(void **state) {
    (void)state;
    static const struct text_case cases[] = {
        /* numbers */
        {"[01]", 0, "begins with 0"},
        {"[-01]", 0, "begins with 0"},
        {"[+1]", 0, "expected a value"},
        {"[.5]", 0, "expected a value"},
        {"[-]", 0, "expected a digit"},
        {"[1.]", 0, "expected a digit"},
        {"[1.e5]", 0, "expected a digit"},
        {"[1e]", 0, "expected a digit"},
        {"[1e+]", 0, "expected a digit"},
        {"[0x10]", 0, "',' or ']'"},
        {"[1_000]", 0, "',' or ']'"},
        {"[NaN]", 0, "expected a value"},
        {"[-Infinity]", 0, "expected a digit"},
        {"[1e999]", 0, "too big"},
        {"[-1e999]", 0, "too big"},
        {"[18446744073709551616]", 0, "too big"},
        {"[-9223372036854775809]", 0, "too big"},
        {"[99999999999999999999999999999999999999]", 0, "too big"},
        /* strings */
        {"[\"a", 0, "ends within a string"},
        {"[\"a\\", 0, "invalid escape"},
        {"[\"\\x41\"]", 0, "invalid escape"},
        {"[\"\\u12\"]", 0, "four hexadecimal digits"},
        {"[\"\\u12", 0, "four hexadecimal digits"},
        {"[\"\\u-123\"]", 0, "four hexadecimal digits"},
        {"[\"\\ud800\"]", 0, "surrogate"},
        {"[\"\\ud800\\", 0, "surrogate"},
        {"[\"\\ud800\\u", 0, "surrogate"},
        {"[\"\\ud800\\u0041\"]", 0, "surrogate"},
        {"[\"\\udc00\"]", 0, "surrogate"},
        {"[\"\\udc00\\ud800\"]", 0, "surrogate"},
        {"[\"a\\u0000b\"]", 0, "NUL (\\u0000)"},
        {"[\"a\0b\"]", 7, "control character"},
        {"[\"\n\"]", 0, "control character"},
        {"[\"\x1b[31m\"]", 0, "control character"},
        {"[\"\xff\"]", 0, "invalid UTF-8"},
        {"[\"\x80\"]", 0, "invalid UTF-8"},
        {"[\"\xc0\xaf\"]", 0, "invalid UTF-8"},
        {"[\"\xe0\x80\xaf\"]", 0, "invalid UTF-8"},
        {"[\"\xed\xa0\x80\"]", 0, "invalid UTF-8"}, /* a surrogate */
        {"[\"\xf4\x90\x80\x80\"]", 0, "invalid UTF-8"},
        {"[\"\xe2\x82", 0, "invalid UTF-8"},
        {"[\"\xe2\x82\"]", 0, "invalid UTF-8"},
    };
    check_texts(cases, ARRAY_LEN(cases));
}

/* What is decoded, and that it is exact. */
static void strings(void **state) {
    (void)state;
    static const struct {
        const char *text, *meant;
    } cases[] = {
        {"[\"\"]", ""},
        {"[\"plain\"]", "plain"},
        {"[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", "\"\\/\b\f\n\r\t"},
        {"[\"a\\u0041b\"]", "aAb"},
        {"[\"\\u007f\\u0080\\u07FF\\u0800\\uffff\"]",
         "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"},
        {"[\"\\ud800\\udc00 \\uDBFF\\uDFFF\"]", "\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"},
        {"[\"\\u00e4\xc3\xa4\\\\u00e4\"]", "\xc3\xa4\xc3\xa4\\u00e4"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(json_freep) struct json_document *doc = parse_ok(cases[i].text);
        struct json root = json_root(doc, ""), one;
        struct cay_error err = {0};
        const char *text = NULL;
        assert_true(json_item(&root, 0, &one));
        assert_int_equal(json_as_string(&one, &text, &err), 0);
        assert_string_equal(text, cases[i].meant);
    }
}

static void numbers(void **state) {
    (void)state;
    _cleanup_(json_freep) struct json_document *doc =
        parse_ok("[9223372036854775807, -9223372036854775808, 18446744073709551615, 0.1, 1e3, -0,"
                 "9223372036854775808, -1, 4.9e-324]");
    struct json root = json_root(doc, ""), v[9];
    struct cay_error err = {0};
    int64_t n = 0;
    uint64_t u = 0;
    double d = 0;
    for (size_t i = 0; i < ARRAY_LEN(v); i++)
        assert_true(json_item(&root, i, &v[i]));
    assert_true(json_as_integer(&v[0], INT64_MIN, INT64_MAX, &n, &err) == 0 && n == INT64_MAX);
    assert_true(json_as_integer(&v[1], INT64_MIN, INT64_MAX, &n, &err) == 0 && n == INT64_MIN);
    assert_true(json_as_integer(&v[2], INT64_MIN, INT64_MAX, &n, &err) < 0);
    assert_true(json_as_unsigned(&v[2], UINT64_MAX, &u, &err) == 0 && u == UINT64_MAX);
    assert_true(json_as_unsigned(&v[2], UINT64_MAX - 1, &u, &err) < 0);
    assert_true(json_as_unsigned(&v[6], UINT64_MAX, &u, &err) == 0 && u == UINT64_C(1) << 63);
    assert_true(json_as_unsigned(&v[4], 1000, &u, &err) == 0 && u == 1000);
    assert_true(json_as_unsigned(&v[7], UINT64_MAX, &u, &err) < 0);
    assert_true(json_as_number(&v[2], &d, &err) == 0 && d == 18446744073709551616.0);
    assert_true(json_as_number(&v[3], &d, &err) == 0 && d == 0.1);
    assert_true(json_as_integer(&v[5], 0, 0, &n, &err) == 0 && n == 0);
    assert_true(json_as_number(&v[8], &d, &err) == 0 && d > 0);
    static const struct json_rules any = {.text_max = JSON_TEXT_MAX,
                                          .values_max = JSON_VALUES_MAX,
                                          .depth_max = 1,
                                          .integers = JSON_INTEGERS_ANY};
    static const char large[] = "[36893488147419103232]";
    _cleanup_(json_freep) struct json_document *other = NULL;
    assert_int_equal(json_parse_by(&any, "test", large, strlen(large), &other, &err), 0);
    root = json_root(other, "");
    assert_true(json_item(&root, 0, &v[0]) && json_as_number(&v[0], &d, &err) == 0);
    assert_true(d == 36893488147419103232.0);
}

/* More keys than are compared one by one. */
static void many_keys(void **state) {
    (void)state;
    for (size_t round = 0; round < 20; round++) {
        size_t many = round < 10 ? 60 : 100; /* few, and sorted */
        size_t same = many * (round % 10) / 10;
        _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
        for (size_t i = 0; i < many; i++)
            (void)buf_printf(&b, "%s\"k%zu\":%zu", i == 0 ? "{" : ",", i, i);
        _cleanup_(json_freep) struct json_document *doc = NULL, *twice = NULL;
        struct cay_error err = {0};
        struct json root, one;
        int64_t n = -1;
        size_t len = b.len;
        (void)buf_puts(&b, "}");
        assert_int_equal(json_parse("test", b.data, b.len, &doc, &err), 0);
        root = json_root(doc, "");
        assert_int_equal(json_count(&root), many);
        assert_true(json_child(&root, "k59", &one));
        assert_true(json_as_integer(&one, 0, 100, &n, &err) == 0 && n == 59);
        b.len = len;
        (void)buf_printf(&b, ",\"\\u006b%zu\":1}", same);
        assert_int_equal(json_parse("test", b.data, b.len, &twice, &err), -CAY_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "duplicate"));
    }
}

static void plain_objects(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool is_plain;
    } cases[] = {
        {"{}", true},
        {" { } ", true},
        {"{\"a\": [1, -0.5, 1e308, 0, 2.5E-3], \"b\": [true, false, null]}", true},
        {"{\"\": \"\\u00e9 \\ud83d\\ude00 \\n \\\" \\/ ~\"}", true},
        {"{\"a\":[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]}", true},
        {"{\"a\":[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}", false},
        {"[]", false},
        {"", false},
        {"{\"a\":1,\"a\":1}", false},
        {"{\"a\":9999999999999999999}", false},
        {"{\"a\":\"\xc3\xa9\"}", false},
        {"{\"\xc3\xa9\":1}", false},
        {"{}}", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (json_is_plain_object(cases[i].text, strlen(cases[i].text)) != cases[i].is_plain)
            fail_msg("%s", cases[i].text);
    assert_false(json_is_plain_object("{\"a\":\0}", 7));
    assert_false(json_is_plain_object("{}\0", 3));
    assert_true(json_is_plain_object("{}}", 2)); /* bytes beyond the length are not read */
    _cleanup_(buf_free) struct buf b = BUF_INIT(1000);
    struct jsonw w = JSONW_INIT(&b);
    jsonw_begin_array(&w);
    jsonw_object(&w, "{\"a\":1}", 7);
    jsonw_object(&w, "{\"a\":1}]", 8);
    jsonw_object(&w, "{}", 2);
    jsonw_end_array(&w);
    assert_int_equal(jsonw_finish(&w), 0);
    assert_string_equal(buf_text(&b), "[{\"a\":1},null,{}]");
}

static int parse_repeated(const char *head, const char *part, size_t count, const char *tail,
                          struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT((size_t)64 << 20);
    (void)buf_puts(&b, head);
    for (size_t i = 0; i < count; i++)
        (void)buf_puts(&b, part);
    (void)buf_puts(&b, tail);
    assert_false(b.failed);
    _cleanup_(json_freep) struct json_document *doc = NULL;
    return json_parse("test", b.data, b.len, &doc, err);
}

static void maxima(void **state) {
    (void)state;
    static const struct {
        const char *head, *part, *tail;
        size_t count;
        const char *message; /* NULL: not because of a maximum */
    } cases[] = {
        {"", "[", "", JSON_DEPTH_MAX + 1, "nested too deeply"},
        {"", "[", "", 5000000, "nested too deeply"},
        {"", "{\"a\":", "", JSON_DEPTH_MAX + 1, "nested too deeply"},
        {"[0", ",0", "]", JSON_VALUES_MAX, "too many values"},
        {"[0", ",[]", "]", JSON_VALUES_MAX, "too many values"},
        {"[\"", ",[", "\"]", 500000, NULL}, /* inside a string nothing counts */
        {"[0", ",0", "]", 1000, NULL},
        {"[", " ", "]", JSON_TEXT_MAX, "more than"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        int r = parse_repeated(cases[i].head, cases[i].part, cases[i].count, cases[i].tail, &err);
        if (r != (cases[i].message != NULL ? -CAY_INVALID_ARGUMENT : 0))
            fail_msg("case %zu: %d %s", i, r, err.message);
        if (r != 0 && strstr(err.message, cases[i].message) == NULL)
            fail_msg("case %zu: %s", i, err.message);
    }
    char nested[2 * JSON_DEPTH_MAX + 1] = {0};
    memset(nested, '[', JSON_DEPTH_MAX);
    memset(nested + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    json_free(parse_ok(nested));
}

static const char sample[] =
    "{\"sandbox\": {\"memory\": \"512m\", \"cpus\": 1.5, \"pids\": 256,"
    "\"idle\": 30.0, \"keep\": true, \"note\": null, \"big\": 1e300,"
    "\"env\": [\"A=1\", 2], \"labels\": {\"a.b\": \"c\", \"\\u001b\": 1}}}";

static void getters(void **state) {
    (void)state;
    _cleanup_(json_freep) struct json_document *doc = parse_ok(sample);
    struct json root = json_root(doc, ""), box, env, none;
    struct cay_error err = {0};
    assert_int_equal(json_get_object(&root, "sandbox", JSON_REQUIRED, &box, &err), 0);
    const char *text = "default";
    int64_t n = -1;
    double d = -1;
    bool yes = false;
    assert_int_equal(json_get_string(&box, "memory", JSON_REQUIRED, &text, &err), 0);
    assert_string_equal(text, "512m");
    assert_int_equal(json_get_string(&box, "absent", JSON_OPTIONAL, &text, &err), 0);
    assert_int_equal(json_get_string(&box, "note", JSON_OPTIONAL, &text, &err), 0);
    assert_string_equal(text, "512m"); /* absent and null leave it alone */
    assert_int_equal(json_get_integer(&box, "pids", JSON_REQUIRED, 1, 256, &n, &err), 0);
    assert_int_equal(n, 256);
    assert_int_equal(json_get_integer(&box, "idle", JSON_REQUIRED, 0, 100, &n, &err), 0);
    assert_int_equal(n, 30);
    assert_int_equal(json_get_number(&box, "cpus", JSON_REQUIRED, &d, &err), 0);
    assert_true(d == 1.5);
    assert_int_equal(json_get_number(&box, "pids", JSON_REQUIRED, &d, &err), 0);
    assert_true(d == 256);
    assert_int_equal(json_get_bool(&box, "keep", JSON_REQUIRED, &yes, &err), 0);
    assert_true(yes);
    assert_int_equal(json_get_array(&box, "env", JSON_REQUIRED, &env, &err), 0);
    assert_int_equal(json_count(&env), 2);
    assert_int_equal(json_get_object(&box, "absent", JSON_OPTIONAL, &none, &err), 0);
    assert_null(none.value);
    assert_int_equal(json_kind(&none), JSON_KIND_ABSENT);
}

/* What is asked of the sample, and the error it gives. */
enum ask { STRING, INTEGER, NUMBER, BOOL, OBJECT, ARRAY };

static int ask(const struct json *at, enum ask what, const char *key, struct cay_error *err) {
    const char *text;
    int64_t n;
    double d;
    bool yes;
    struct json v;
    switch (what) {
    case STRING:
        return json_get_string(at, key, JSON_REQUIRED, &text, err);
    case INTEGER:
        return json_get_integer(at, key, JSON_REQUIRED, 0, 100, &n, err);
    case NUMBER:
        return json_get_number(at, key, JSON_OPTIONAL, &d, err);
    case BOOL:
        return json_get_bool(at, key, JSON_OPTIONAL, &yes, err);
    case OBJECT:
        return json_get_object(at, key, JSON_OPTIONAL, &v, err);
    case ARRAY:
        break;
    }
    return json_get_array(at, key, JSON_REQUIRED, &v, err);
}

static void getter_errors(void **state) {
    (void)state;
    static const struct {
        enum ask what;
        const char *key;
        const char *message;
    } cases[] = {
        {STRING, "pids", "sandbox.pids: expected a string, got a number"},
        {STRING, "absent", "sandbox.absent: is missing"},
        {STRING, "note", "sandbox.note: is missing"},
        {STRING, "a\x1b]0;x", "sandbox.a\\x1b]0;x: is missing"},
        {INTEGER, "pids", "sandbox.pids: must be between 0 and 100"},
        {INTEGER, "cpus", "sandbox.cpus: expected an integer, got a number with a fraction"},
        {INTEGER, "big", "sandbox.big: expected an integer, got a number with a fraction"},
        {INTEGER, "memory", "sandbox.memory: expected an integer, got a string"},
        {NUMBER, "memory", "sandbox.memory: expected a number, got a string"},
        {NUMBER, "keep", "sandbox.keep: expected a number, got a boolean"},
        {BOOL, "pids", "sandbox.pids: expected a boolean, got a number"},
        {OBJECT, "env", "sandbox.env: expected an object, got an array"},
        {ARRAY, "labels", "sandbox.labels: expected an array, got an object"},
        {ARRAY, "absent", "sandbox.absent: is missing"},
    };
    _cleanup_(json_freep) struct json_document *doc = parse_ok(sample);
    struct json root = json_root(doc, ""), box;
    assert_true(json_child(&root, "sandbox", &box));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        assert_int_equal(ask(&box, cases[i].what, cases[i].key, &err), -CAY_INVALID_ARGUMENT);
        assert_string_equal(err.message, cases[i].message);
    }
}

static void paths(void **state) {
    (void)state;
    _cleanup_(json_freep) struct json_document *doc = parse_ok(sample);
    struct json root = json_root(doc, "request"), box, env, item, labels, label;
    struct cay_error err = {0};
    const char *text;
    assert_true(json_child(&root, "sandbox", &box) && json_child(&box, "env", &env));
    assert_true(json_item(&env, 1, &item));
    assert_false(json_item(&env, 2, &label));
    assert_int_equal(json_as_string(&item, &text, &err), -CAY_INVALID_ARGUMENT);
    assert_string_equal(err.message, "request.sandbox.env[1]: expected a string, got a number");
    assert_int_equal(json_get_string(&item, "x", JSON_OPTIONAL, &text, &err),
                     -CAY_INVALID_ARGUMENT);
    assert_string_equal(err.message, "request.sandbox.env[1]: expected an object, got a number");
    assert_int_equal(json_as_object(&env, &err), -CAY_INVALID_ARGUMENT);
    assert_int_equal(json_refuse(&item, &err, "no %d", 5), -CAY_INVALID_ARGUMENT);
    assert_string_equal(err.message, "request.sandbox.env[1]: no 5");
    struct json bare = json_root(doc, "");
    assert_int_equal(json_as_array(&bare, &err), -CAY_INVALID_ARGUMENT);
    assert_string_equal(err.message, "expected an array, got an object");
    /* a walk over members that the sender named */
    assert_true(json_child(&box, "labels", &labels));
    void *iterator = NULL;
    size_t seen = 0;
    while (json_next(&labels, &iterator, &label)) {
        seen++;
        if (json_as_string(&label, &text, &err) < 0)
            assert_string_equal(err.message, "request.sandbox.labels.\\x1b: expected a string, "
                                             "got a number");
        else
            assert_string_equal(label.key, "a.b");
    }
    assert_int_equal(seen, json_count(&labels));
    assert_false(json_next(&env, &iterator, &label)); /* no object */
}

static void writing(void **state) {
    (void)state;
    static const char text[] = "{\"a\":[1,-2.5,true,false,null,\"\xc3\xa4\\n\\\"\",{},[]],\"b\":"
                               "{\"c\":18446744073709551615}}";
    _cleanup_(json_freep) struct json_document *doc = parse_ok(text);
    struct json root = json_root(doc, ""), none;
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    struct jsonw w = JSONW_INIT(&b);
    jsonw_begin_array(&w);
    json_write(&root, &w);
    assert_false(json_child(&root, "absent", &none));
    json_write(&none, &w);
    jsonw_end_array(&w);
    assert_int_equal(jsonw_finish(&w), 0);
    char expect[sizeof text + 16];
    assert_int_equal(str_format(expect, sizeof expect, "[%s,null]", text), 0);
    assert_string_equal(buf_text(&b), expect);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),   cmocka_unit_test(bad_scalars), cmocka_unit_test(strings),
        cmocka_unit_test(numbers), cmocka_unit_test(many_keys),   cmocka_unit_test(plain_objects),
        cmocka_unit_test(maxima),  cmocka_unit_test(getters),     cmocka_unit_test(getter_errors),
        cmocka_unit_test(paths),   cmocka_unit_test(writing),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
