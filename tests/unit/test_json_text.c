/* Objects of JSON that others wrote: what every reader takes, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_text.h"
#include "base/jsonw.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static bool is_object(const char *text) {
    return json_text_is_object(text, strlen(text));
}

static void what_is_taken(void **state) {
    (void)state;
    static const char *const good[] = {
        "{}",
        " { } ",
        "{\"a\":1}",
        "{\"a\":[],\"b\":{},\"c\":[{}, [] ,1]}",
        "{\"a\": [1, -0.5, 1e308, 0, 2.5E-3], \"b\": [true, false, null]}",
        "{\"\": \"\\u00e9 \\ud83d\\ude00 \\n \\\" \\/ ~\"}",
        "{\"a\":[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]}",
        "\t{\"a\" :\n999999999999999999 , \"b\":-1}\r\n",
    };
    for (size_t i = 0; i < COUNT(good); i++)
        if (!is_object(good[i]))
            fail_msg("refused: %s", good[i]);
}

static void what_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "[]",
        "1",
        "\"a\"",
        "{",
        "}",
        "{}}",
        "{} {}",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{1:1}",
        "{\"a\":[1,]}",
        "{\"a\":[1 2]}",
        "{\"a\":[1}",
        "{\"a\":{]}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1.}",
        "{\"a\":1e}",
        "{\"a\":1e999}",
        "{\"a\":-}",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":9999999999999999999}",
        "{\"a\":tru}",
        "{\"a\":nulll}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\u0000\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\ud800\\u0041\"}",
        "{\"a\":\"\\udc00\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\xc3\xa9\"}",
        "{\"a\":\"",
        "{\"a\":\"\\",
        "{\"a\":[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}",
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        if (is_object(bad[i]))
            fail_msg("taken: %s", bad[i]);
    assert_false(json_text_is_object("{\"a\":\0}", 7));
    assert_false(json_text_is_object("{}\0", 3));
    assert_true(json_text_is_object("{}}", 2)); /* what lies behind is not looked at */
}

static void a_writer_takes_it_as_a_value(void **state) {
    (void)state;
    struct buf b = BUF_INIT(1000);
    struct jsonw w = JSONW_INIT(&b);
    jsonw_begin_array(&w);
    jsonw_object(&w, "{\"a\":1}", 7);
    jsonw_object(&w, "{\"a\":1}]", 8);
    jsonw_object(&w, "{}", 2);
    jsonw_end_array(&w);
    assert_int_equal(jsonw_finish(&w), 0);
    assert_string_equal(buf_text(&b), "[{\"a\":1},null,{}]");
    buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(a_writer_takes_it_as_a_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
