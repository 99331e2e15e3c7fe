/* Tests of what language servers say: heads, names of files, and answers in any shape. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/code/lsp_text.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"

/* Every message of a text that comes in pieces of this size, each in "<>"; or the error's class. */
static int take_all(const char *text, size_t piece, struct buf *out) {
    _cleanup_(lsp_reader_free) struct lsp_reader r = LSP_READER_INIT;
    struct cay_error err;
    const char *message;
    size_t len, left = strlen(text);
    int n = 0;
    for (; left > 0 && n == 0; text += MIN(piece, left), left -= MIN(piece, left)) {
        n = lsp_reader_append(&r, text, MIN(piece, left), &err);
        while (n == 0 && (n = lsp_reader_next(&r, &message, &len, &err)) > 0) {
            assert_int_equal(buf_printf(out, "<%.*s>", (int)len, message), 0);
            n = 0;
        }
    }
    return n;
}

static void messages(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
        int result;
    } cases[] = {
        {"Content-Length: 2\r\n\r\n{}", "<{}>", 0},
        {"content-length:2\r\nContent-Type: x\r\n\r\n{}Content-Length: 3\r\n\r\n[1]", "<{}><[1]>",
         0},
        {"Content-Type: a\r\nContent-Length: 5\r\n\r\n\r\n\r\nx", "<\r\n\r\nx>", 0},
        {"Content-Length: 3\r\n\r\n{}", "", 0},
        {"Content-Length: 0\r\n\r\n", "", -CAY_UNAVAILABLE},
        {"Content-Length: -1\r\n\r\n", "", -CAY_UNAVAILABLE},
        {"Content-Length: 4194305\r\n\r\n", "", -CAY_UNAVAILABLE},
        {"Content-Length: 99999999999999999999999999\r\n\r\n", "", -CAY_UNAVAILABLE},
        {"Content-Length: 2x\r\n\r\n{}", "", -CAY_UNAVAILABLE},
        {"Content-Type: x\r\n\r\n{}", "", -CAY_UNAVAILABLE},
        {"Traceback\r\n\r\n", "", -CAY_UNAVAILABLE},
        {"\r\n\r\n", "", -CAY_UNAVAILABLE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t piece = 1; piece < 80; piece++) {
            _cleanup_(buf_free) struct buf out = BUF_INIT(4096);
            assert_int_equal(take_all(cases[i].text, piece, &out), cases[i].result);
            assert_string_equal(buf_text(&out), cases[i].want);
        }
    }
}

static void a_head_without_end(void **state) {
    (void)state;
    char text[2 * LSP_HEAD_MAX];
    _cleanup_(buf_free) struct buf out = BUF_INIT(64);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(take_all(text, 1000, &out), -CAY_UNAVAILABLE);
}

static void own_messages(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf text = BUF_INIT(64), out = BUF_INIT(128);
    (void)buf_puts(&text, "{\"a\":1}");
    lsp_put_message(&out, &text);
    assert_string_equal(buf_text(&out), "Content-Length: 7\r\n\r\n{\"a\":1}");
}

static void names_of_files(void **state) {
    (void)state;
    static const struct {
        const char *uri, *path;
    } cases[] = {
        {"file:///tmp/a.py", "/tmp/a.py"},
        {"file://rel/a.py", "rel/a.py"},
        {"file:///tmp/a b.py", "/tmp/a b.py"},
        {"file:///tmp/a%20b.py", "/tmp/a b.py"},
        {"file:///tmp/100%.py", "/tmp/100%.py"},
        {"file:///tmp/a b%20c.py", "/tmp/a b%20c.py"}, /* a space is in no URI */
        {"file:///tmp/%00.py", "/tmp/%00.py"},
        {"file:///%C3%BC", "/\xc3\xbc"},
        {"file:///\xc3\xbc", "/\xc3\xbc"},
        {"file://", NULL},
        {"/tmp/a.py", NULL},
        {"http:///tmp/a.py", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char path[PATH_MAX];
        struct cay_error err;
        int r = lsp_read_uri(cases[i].uri, path, &err);
        assert_int_equal(r, cases[i].path != NULL ? 0 : -CAY_INVALID_ARGUMENT);
        if (r == 0)
            assert_string_equal(path, cases[i].path);
    }
    char uri[LSP_URI_SIZE], path[PATH_MAX];
    lsp_put_uri("/a b/\xc3\xbc%#?.py", uri);
    assert_string_equal(uri, "file:///a%20b/%C3%BC%25%23%3F.py");
    memset(path, '%', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    lsp_put_uri(path, uri);
    assert_int_equal(strlen(uri), 7 + 3 * (PATH_MAX - 1));
}

#define RANGE "{\"start\":{\"line\":1,\"character\":2},\"end\":{\"line\":3,\"character\":4}}"
#define PLACE "{\"uri\":\"u\",\"range\":" RANGE "}"

enum shape { COMPLETIONS, SYMBOLS };

static void check_shape(enum shape shape, const char *result, const char *want) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    _cleanup_(buf_free) struct buf text = BUF_INIT(4096), out = BUF_INIT(4096);
    struct cay_error err;
    struct json at = {0};
    (void)buf_printf(&text, "{\"result\":%s}", result);
    assert_int_equal(json_parse("test", buf_text(&text), text.len, &doc, &err), 0);
    struct json root = json_root(doc, "");
    (void)json_child(&root, "result", &at);
    struct jsonw w = JSONW_INIT(&out);
    if (shape == COMPLETIONS)
        lsp_write_completions(&w, &at);
    else
        lsp_write_symbols(&w, &at, "d");
    assert_int_equal(jsonw_finish(&w), 0);
    assert_string_equal(buf_text(&out), want);
}

static void completions(void **state) {
    (void)state;
    static const char none[] = "{\"items\":[],\"isIncomplete\":false}";
    static const char *const empty[] = {"null",
                                        "[]",
                                        "{}",
                                        "7",
                                        "\"x\"",
                                        "[1,null,{}]",
                                        "{\"items\":7}",
                                        "{\"items\":[{\"label\":3}]}"};
    for (size_t i = 0; i < ARRAY_LEN(empty); i++)
        check_shape(COMPLETIONS, empty[i], none);
    check_shape(COMPLETIONS,
                "{\"isIncomplete\":true,\"items\":[{\"label\":\"a\",\"kind\":3,\"detail\":null,"
                "\"documentation\":{\"value\":\"v\"},\"insertText\":\"n\",\"data\":{}}]}",
                "{\"items\":[{\"label\":\"a\",\"kind\":3,\"insertText\":\"n\",\"documentation\":"
                "{\"kind\":\"plaintext\",\"value\":\"v\"}}],\"isIncomplete\":true}");
    check_shape(COMPLETIONS, "[{\"label\":\"a\",\"kind\":-1,\"documentation\":\"t\"}]",
                "{\"items\":[{\"label\":\"a\",\"documentation\":\"t\"}],\"isIncomplete\":false}");
}

static void symbols(void **state) {
    (void)state;
    static const char *const empty[] = {
        "null",
        "[]",
        "{}",
        "7",
        "[7,{\"name\":\"a\"},{\"name\":\"a\",\"kind\":1}]",
        "[{\"name\":\"a\",\"kind\":1,\"location\":{\"uri\":\"u\",\"range\":{\"start\":1}}}]"};
    for (size_t i = 0; i < ARRAY_LEN(empty); i++)
        check_shape(SYMBOLS, empty[i], "[]");
    check_shape(SYMBOLS, "[{\"name\":\"a\",\"kind\":5,\"location\":" PLACE ",\"x\":1}]",
                "[{\"name\":\"a\",\"kind\":5,\"location\":" PLACE "}]");
    check_shape(SYMBOLS,
                "[{\"name\":\"a\",\"kind\":5,\"selectionRange\":" RANGE ",\"children\":["
                "{\"name\":\"b\",\"kind\":6,\"selectionRange\":" RANGE "}]}]",
                "[{\"name\":\"a\",\"kind\":5,\"location\":{\"uri\":\"d\",\"range\":" RANGE "}},"
                "{\"name\":\"b\",\"kind\":6,\"location\":{\"uri\":\"d\",\"range\":" RANGE "}}]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages),     cmocka_unit_test(a_head_without_end),
        cmocka_unit_test(own_messages), cmocka_unit_test(names_of_files),
        cmocka_unit_test(completions),  cmocka_unit_test(symbols),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
