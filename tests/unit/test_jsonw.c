/* Tests of base/json/jsonw.c. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"

/* One letter per call, so that a table can hold sequences: { } [ ] k(ey) s(tring) i(nteger) t(rue)
 * n(ull) d(ouble) x (infinite). */
static void play(struct jsonw *w, const char *calls) {
    for (const char *c = calls; *c != '\0'; c++) {
        switch (*c) {
        case '{':
            jsonw_begin_object(w);
            break;
        case '}':
            jsonw_end_object(w);
            break;
        case '[':
            jsonw_begin_array(w);
            break;
        case ']':
            jsonw_end_array(w);
            break;
        case 'k':
            jsonw_key(w, "k");
            break;
        case 's':
            jsonw_string(w, "s");
            break;
        case 'i':
            jsonw_integer(w, -7);
            break;
        case 't':
            jsonw_bool(w, true);
            break;
        case 'n':
            jsonw_string(w, NULL);
            break;
        case 'd':
            jsonw_number(w, 0.5);
            break;
        default:
            jsonw_number(w, INFINITY);
        }
    }
}

static void structure(void **state) {
    (void)state;
    static const struct {
        const char *calls;
        const char *text; /* NULL: refused */
    } cases[] = {
        {"{}", "{}"},
        {"[]", "[]"},
        {"s", "\"s\""},
        {"i", "-7"},
        {"{kskikn}", "{\"k\":\"s\",\"k\":-7,\"k\":null}"},
        {"[sitnd]", "[\"s\",-7,true,null,0.5]"},
        {"[[][]{}[[]i]i]", "[[],[],{},[[],-7],-7]"},
        {"{k[i]k{ki}ki}", "{\"k\":[-7],\"k\":{\"k\":-7},\"k\":-7}"},
        {"[{ki}{}]", "[{\"k\":-7},{}]"},
        {"", NULL},
        {"{", NULL},
        {"{k}", NULL},
        {"{ki", NULL},
        {"{i}", NULL},
        {"{kii}", NULL},
        {"{kk}", NULL},
        {"[k]", NULL},
        {"k", NULL},
        {"{]", NULL},
        {"[}", NULL},
        {"]", NULL},
        {"{}}", NULL},
        {"{}{}", NULL},
        {"ii", NULL},
        {"[x]", NULL},
        {"{{}}", NULL},
        {"{k[}", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
        struct jsonw w = JSONW_INIT(&b);
        play(&w, cases[i].calls);
        int r = jsonw_finish(&w);
        if (r != (cases[i].text != NULL ? 0 : -EINVAL))
            fail_msg("'%s': %d, '%s'", cases[i].calls, r, buf_text(&b));
        if (r == 0)
            assert_string_equal(buf_text(&b), cases[i].text);
    }
}

static void strings(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t len;
        const char *text;
    } cases[] = {
        {"", 0, "\"\""},
        {"a\"b\\c/d", 7, "\"a\\\"b\\\\c/d\""},
        {"\b\t\n\f\r", 5, "\"\\b\\t\\n\\f\\r\""},
        {"\x00\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\x7f\""},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"a\xff\xfe z", 5, "\"a\xef\xbf\xbd\xef\xbf\xbd z\""},
        {"\xc3", 1, "\"\xef\xbf\xbd\""},
        {"\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xc3\"", 2, "\"\xef\xbf\xbd\\\"\""}, /* a cut character must not eat the quote */
        {"\xc0\xaf", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\""},                 /* overlong '/' */
        {"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}, /* surrogate */
        {"\xf4\x90\x80\x80", 4, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
        struct jsonw w = JSONW_INIT(&b);
        jsonw_bytes(&w, cases[i].data, cases[i].len);
        assert_int_equal(jsonw_finish(&w), 0);
        assert_string_equal(buf_text(&b), cases[i].text);
    }
}

static void numbers(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0.0"},
        {1, "1"},
        {0.1, "0.1"},
        {0.3, "0.3"},
        {1.0 / 3, "0.3333333333333333"},
        {1e21, "1e+21"},
        {-1.5, "-1.5"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {5e-324, "4.94065645841247e-324"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
        struct jsonw w = JSONW_INIT(&b);
        jsonw_number(&w, cases[i].value);
        assert_int_equal(jsonw_finish(&w), 0);
        assert_string_equal(buf_text(&b), cases[i].text);
        assert_true(strtod(buf_text(&b), NULL) == cases[i].value);
    }
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
        struct jsonw w = JSONW_INIT(&b);
        jsonw_number(&w, bad[i]);
        assert_int_equal(jsonw_finish(&w), -EINVAL);
    }
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    struct jsonw w = JSONW_INIT(&b);
    jsonw_begin_array(&w);
    jsonw_integer(&w, INT64_MIN);
    jsonw_integer(&w, INT64_MAX);
    jsonw_unsigned(&w, UINT64_MAX);
    jsonw_end_array(&w);
    assert_int_equal(jsonw_finish(&w), 0);
    assert_string_equal(buf_text(&b),
                        "[-9223372036854775808,9223372036854775807,18446744073709551615]");
}

static void pairs(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    assert_int_equal(buf_puts(&b, "data: "), 0); /* appends to what is there */
    struct jsonw w = JSONW_INIT(&b);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "a\"", "x");
    jsonw_put_string(&w, "b", NULL);
    jsonw_put_integer(&w, "c", -1);
    jsonw_put_unsigned(&w, "d", 1);
    jsonw_put_number(&w, "e", 2.5);
    jsonw_put_bool(&w, "f", false);
    jsonw_end_object(&w);
    assert_int_equal(jsonw_finish(&w), 0);
    assert_string_equal(buf_text(&b), "data: {\"a\\\"\":\"x\",\"b\":null,\"c\":-1,\"d\":1,"
                                      "\"e\":2.5,\"f\":false}");
}

static void bounds(void **state) {
    (void)state;
    static const struct {
        unsigned depth;
        int r;
    } cases[] = {{1, 0}, {JSONW_DEPTH_MAX, 0}, {JSONW_DEPTH_MAX + 1, -EINVAL}, {1000, -EINVAL}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
        struct jsonw w = JSONW_INIT(&b);
        for (unsigned d = 0; d < cases[i].depth; d++)
            jsonw_begin_array(&w);
        for (unsigned d = 0; d < cases[i].depth; d++)
            jsonw_end_array(&w);
        assert_int_equal(jsonw_finish(&w), cases[i].r);
    }
    _cleanup_(buf_free) struct buf small = BUF_INIT(10);
    struct jsonw w = JSONW_INIT(&small);
    jsonw_string(&w, "0123456789");
    assert_int_equal(jsonw_finish(&w), -ENOBUFS);
}

/* Whatever bytes go in, the reader takes what comes out. */
static void output_is_json(void **state) {
    (void)state;
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned c = 0; c < 256; c += 3) {
            const char data[] = {(char)a, (char)c, 'x', (char)a};
            _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
            struct jsonw w = JSONW_INIT(&b);
            jsonw_begin_array(&w);
            jsonw_bytes(&w, data, sizeof data);
            jsonw_end_array(&w);
            assert_int_equal(jsonw_finish(&w), 0);
            struct cay_error err = {0};
            _cleanup_(json_freep) struct json_document *doc = NULL;
            int r = json_parse("output", b.data, b.len, &doc, &err);
            if (r != 0 && a != 0 && c != 0) /* the reader refuses NUL on purpose */
                fail_msg("%02x %02x: %s", a, c, err.message);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structure), cmocka_unit_test(strings), cmocka_unit_test(numbers),
        cmocka_unit_test(pairs),     cmocka_unit_test(bounds),  cmocka_unit_test(output_is_json),
    };
    return cmocka_run_group_tests_name("jsonw", tests, NULL, NULL);
}
