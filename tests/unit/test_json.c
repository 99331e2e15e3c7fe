/* Tests of base/json.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/str.h"

static struct json_document *parse_ok(const char *text) {
    struct json_document *doc = NULL;
    struct cay_error err = {0};
    if (json_parse("test", text, strlen(text), &doc, &err) != 0)
        fail_msg("%s: %s", text, err.message);
    return doc;
}

static void texts(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t len;          /* 0: strlen */
        const char *message; /* NULL: accepted */
    } cases[] = {
        {"{}", 0, NULL},
        {" [ ] \n", 0, NULL},
        {"{\"a\": [1, -2.5e3, true, null, \"\\u00e4\\n\"]}", 0, NULL},
        {"{\"a\": \"]]]]\\\"[[[[\"}", 0, NULL},
        {"[9223372036854775807, -9223372036854775808]", 0, NULL},
        {"", 0, "test: line"},
        {"1", 0, "test: line"},
        {"\"x\"", 0, "test: line"},
        {"{", 0, "test: line 1, column 1"},
        {"{} {}", 0, "end of file expected"},
        {"{}x", 0, "end of file expected"},
        {"{\"a\":1,\"a\":2}", 0, "duplicate"},
        {"{\"a\":1,\"\\u0061\":2}", 0, "duplicate"},
        {"[1,]", 0, "test: line"},
        {"[01]", 0, "test: line"},
        {"[NaN]", 0, "test: line"},
        {"[1e999]", 0, "test: line"},
        {"[9223372036854775808]", 0, "too big"},
        {"['a']", 0, "test: line"},
        {"[// c\n1]", 0, "test: line"},
        {"[\"\xff\"]", 0, "unable to decode"},
        {"[\"\xc0\xaf\"]", 0, "unable to decode"},
        {"[\"\\ud800\"]", 0, "test: line"},
        {"[\"a\\u0000b\"]", 0, "a text with a NUL (\\u0000)"},
        {"{\"a\\u0000\":1}", 0, "NUL byte in object key"},
        {"[\"a\0b\"]", 7, "test: line"},
        {"{}\0", 3, "test: line"},
        {"[\"\x1b[31m\"]", 0, "control character"},
        {"\x1b[31m", 0, "\\x1b"}, /* shown escaped */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
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
        {"[0", ",[]", "]", JSON_VALUES_MAX / 2 + 1, "too many values"},
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
                               "{\"c\":9223372036854775807}}";
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
        cmocka_unit_test(texts),         cmocka_unit_test(maxima), cmocka_unit_test(getters),
        cmocka_unit_test(getter_errors), cmocka_unit_test(paths),  cmocka_unit_test(writing),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
