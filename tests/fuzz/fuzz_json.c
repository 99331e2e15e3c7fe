/* Any bytes through the JSON reader and writer: what is read is written so that it reads the same
 * again, and what is written from any bytes can be read. What the reader accepts and refuses, and
 * the values, are compared with jansson. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"
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

/* ---- the same by jansson ---- */

static bool same(const struct json *at, json_t *v);

static bool same_members(const struct json *at, json_t *v) {
    struct json one;
    void *i = NULL;
    if (json_count(at) != json_object_size(v))
        return false;
    for (void *j = json_object_iter(v); j != NULL; j = json_object_iter_next(v, j))
        if (!json_next(at, &i, &one) || !str_equal(one.key, json_object_iter_key(j)) ||
            !same(&one, json_object_iter_value(j)))
            return false;
    return !json_next(at, &i, &one);
}

static bool same_elements(const struct json *at, const json_t *v) {
    struct json one;
    if (json_count(at) != json_array_size(v))
        return false;
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!json_item(at, i, &one) || !same(&one, json_array_get(v, i)))
            return false;
    return true;
}

static bool same(const struct json *at, json_t *v) {
    struct cay_error err;
    const char *text = "";
    int64_t n = 0;
    double d = 0;
    bool yes = false;
    switch (json_kind(at)) {
    case JSON_KIND_OBJECT:
        return json_is_object(v) && same_members(at, v);
    case JSON_KIND_ARRAY:
        return json_is_array(v) && same_elements(at, v);
    case JSON_KIND_STRING:
        return json_is_string(v) && json_as_string(at, &text, &err) == 0 &&
               str_equal(text, json_string_value(v));
    case JSON_KIND_INTEGER:
        return json_is_integer(v) && json_as_integer(at, INT64_MIN, INT64_MAX, &n, &err) == 0 &&
               n == json_integer_value(v);
    case JSON_KIND_NUMBER:
        return json_is_real(v) && json_as_number(at, &d, &err) == 0 &&
               memcmp(&d, &(double){json_real_value(v)}, sizeof d) == 0;
    case JSON_KIND_BOOL:
        return json_is_boolean(v) && json_as_bool(at, &yes, &err) == 0 && yes == json_is_true(v);
    case JSON_KIND_NULL:
        return json_is_null(v);
    case JSON_KIND_ABSENT:
        break;
    }
    return false;
}

/* jansson takes integers up to int64 and counts neither values nor, below 2048, levels. */
static void compare(const char *text, size_t len) {
    static const struct json_rules rules = {.text_max = JSON_TEXT_MAX,
                                            .values_max = SIZE_MAX,
                                            .depth_max = JSON_DEPTH_MAX,
                                            .integers = JSON_INTEGERS_INT64};
    struct cay_error err = {0};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    json_error_t e;
    json_t *other = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
    int r = json_parse_by(&rules, "input", text, len, &doc, &err);
    bool is_deep = r < 0 && strstr(err.message, "nested") != NULL;
    bool has_nul =
        len > 0 && memchr(text, '\0', len) != NULL; /* jansson takes one after a number */
    require(!has_nul || r < 0);
    if (!is_deep && !has_nul) {
        struct json root = json_root(doc, "");
        require((other != NULL) == (r == 0));
        require(other == NULL || same(&root, other));
    }
    json_decref(other);
    require(!json_is_plain_object(text, len) || r == 0);
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
    compare((const char *)data, size);
    check_reader((const char *)data, size);
    check_writer((const char *)data, size);
    return 0;
}
