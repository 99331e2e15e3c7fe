/* Any bytes through the JSON reader and writer: what is read is written so that it reads the same
 * again, and what is written from any bytes can be read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static void check_error(const struct cay_error *err) {
    require(err->code == CAY_INVALID_ARGUMENT);
    for (const char *c = err->message; *c != '\0'; c++)
        require((unsigned char)*c >= 0x20 && *c != 0x7f);
}

static void write_document(const struct json_document *doc, struct buf *b) {
    struct json root = json_root(doc, "");
    struct jsonw w = JSONW_INIT(b);
    json_write(&root, &w);
    require(jsonw_finish(&w) == 0);
}

/* Asks every value for every type. */
static void ask(const struct json *at) {
    struct cay_error err = {0};
    const char *text;
    int64_t n;
    double d;
    bool yes;
    if (json_as_string(at, &text, &err) < 0)
        check_error(&err);
    if (json_as_integer(at, -5, 5, &n, &err) < 0)
        check_error(&err);
    (void)json_as_number(at, &d, &err);
    (void)json_as_bool(at, &yes, &err);
    (void)json_get_string(at, "a", JSON_REQUIRED, &text, &err);
    struct json v;
    for (size_t i = 0; json_item(at, i, &v); i++)
        ask(&v);
    for (void *i = NULL; json_next(at, &i, &v);)
        ask(&v);
}

static void check_reader(const char *text, size_t len) {
    struct cay_error err = {0};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    if (json_parse("input", text, len, &doc, &err) < 0) {
        check_error(&err);
        return;
    }
    struct json root = json_root(doc, "input");
    ask(&root);
    _cleanup_(buf_free) struct buf first = BUF_INIT((size_t)64 << 20);
    _cleanup_(buf_free) struct buf second = BUF_INIT((size_t)64 << 20);
    write_document(doc, &first);
    _cleanup_(json_freep) struct json_document *again = NULL;
    require(json_parse("written", first.data, first.len, &again, &err) == 0);
    write_document(again, &second);
    require(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
}

static void check_writer(const char *data, size_t len) {
    _cleanup_(buf_free) struct buf b = BUF_INIT((size_t)64 << 20);
    struct jsonw w = JSONW_INIT(&b);
    jsonw_begin_array(&w);
    jsonw_bytes(&w, data, len);
    jsonw_end_array(&w);
    require(jsonw_finish(&w) == 0 && str_is_utf8(b.data, b.len));
    struct cay_error err = {0};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    bool has_nul = len > 0 && memchr(data, '\0', len) != NULL; /* refused by the reader */
    require(json_parse("written", b.data, b.len, &doc, &err) == 0 || has_nul);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_reader((const char *)data, size);
    check_writer((const char *)data, size);
    return 0;
}
