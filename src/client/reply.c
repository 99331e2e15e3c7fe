#include "client/reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "client/daemon.h"

/* Ten thousand sandboxes are half a million values. */
static const struct json_rules rules = {.text_max = DAEMON_ANSWER_MAX,
                                        .values_max = 4 * 1000 * 1000,
                                        .depth_max = JSON_DEPTH_MAX,
                                        .integers = JSON_INTEGERS_ANY};

static int refuse(struct cay_error *err) {
    error_set(err, CAY_UNAVAILABLE, "the daemon's answer cannot be read");
    return error_remedy(err, "update cay and its daemon to one version");
}

static int parse(const struct buf *text, struct reply *ret, struct cay_error *err) {
    struct cay_error why = {0};
    *ret = (struct reply){0};
    if (json_parse_by(&rules, "answer", buf_text(text), text->len, &ret->doc, &why) < 0)
        return why.code == CAY_RESOURCE_EXHAUSTED ? error_set(err, why.code, "%s", why.message)
                                                  : refuse(err);
    return 0;
}

int reply_parse(const struct buf *text, struct reply *ret, struct cay_error *err) {
    int r = parse(text, ret, err);
    if (r < 0)
        return r;
    struct json root = json_root(ret->doc, "");
    ret->rows = 1;
    if (json_kind(&root) == JSON_KIND_OBJECT)
        return 0;
    reply_free(ret);
    return refuse(err);
}

int reply_parse_list(const struct buf *text, struct reply *ret, struct cay_error *err) {
    int r = parse(text, ret, err);
    if (r < 0)
        return r;
    struct json root = json_root(ret->doc, ""), one;
    bool is_list = json_kind(&root) == JSON_KIND_ARRAY;
    for (size_t i = 0; is_list && json_item(&root, i, &one); i++)
        is_list = json_kind(&one) == JSON_KIND_OBJECT;
    ret->rows = json_count(&root);
    if (is_list)
        return 0;
    reply_free(ret);
    return refuse(err);
}

void reply_free(struct reply *r) {
    json_free(r->doc);
    strv_free(&r->made);
    *r = (struct reply){0};
}

/* ---- members ---- */

/* Without parents, which only errors would name. */
struct json reply_row(const struct reply *r, size_t row) {
    struct json root = json_root(r->doc, ""), one = root;
    if (json_kind(&root) == JSON_KIND_ARRAY)
        (void)json_item(&root, row, &one);
    one.parent = NULL;
    one.key = "";
    return row < r->rows ? one : (struct json){.key = ""};
}

bool reply_member(const struct reply *r, size_t row, const char *name, struct json *ret) {
    struct json one = reply_row(r, row);
    bool is_there = json_child(&one, name, ret);
    ret->parent = NULL;
    return is_there;
}

const char *reply_string(const struct reply *r, size_t row, const char *name) {
    struct json v;
    const char *text = "";
    if (reply_member(r, row, name, &v) && json_kind(&v) == JSON_KIND_STRING)
        (void)json_as_string(&v, &text, NULL);
    return text;
}

uint64_t reply_unsigned(const struct reply *r, size_t row, const char *name) {
    struct json v;
    uint64_t n = 0;
    return reply_member(r, row, name, &v) && json_as_unsigned(&v, UINT64_MAX, &n, NULL) == 0 ? n
                                                                                             : 0;
}

double reply_number(const struct reply *r, size_t row, const char *name) {
    struct json v;
    double n = 0;
    return reply_member(r, row, name, &v) && json_as_number(&v, &n, NULL) == 0 ? n : 0;
}

bool reply_is_true(const struct reply *r, size_t row, const char *name) {
    struct json v;
    bool is_true = false;
    return reply_member(r, row, name, &v) && json_as_bool(&v, &is_true, NULL) == 0 && is_true;
}

/* ---- for people ---- */

static bool is_printable(const char *text) {
    size_t left = strlen(text);
    while (left > 0) {
        size_t n = str_printable_length(text, left);
        if (n == 0)
            return false;
        text += n;
        left -= n;
    }
    return true;
}

static void put_text(struct buf *b, const char *text) {
    size_t size = 4 * strlen(text) + 1;
    _cleanup_(freep) char *shown = malloc(size);
    if (shown != NULL)
        (void)buf_puts(b, str_escape(shown, size, text));
}

static void put_scalar(struct buf *b, const struct json *v) {
    const char *text = "";
    double number = 0;
    int64_t integer = 0;
    uint64_t natural = 0;
    bool is_true = false;
    switch (json_kind(v)) {
    case JSON_KIND_STRING:
        (void)json_as_string(v, &text, NULL);
        put_text(b, text);
        break;
    case JSON_KIND_BOOL:
        (void)json_as_bool(v, &is_true, NULL);
        (void)buf_puts(b, is_true ? "true" : "false");
        break;
    case JSON_KIND_INTEGER:
        if (json_as_integer(v, INT64_MIN, INT64_MAX, &integer, NULL) == 0)
            (void)buf_printf(b, "%" PRId64, integer);
        else if (json_as_unsigned(v, UINT64_MAX, &natural, NULL) == 0)
            (void)buf_printf(b, "%" PRIu64, natural);
        break;
    case JSON_KIND_NUMBER:
        (void)json_as_number(v, &number, NULL);
        (void)buf_printf(b, "%.6g", number);
        break;
    default:
        break;
    }
}

static void put_members(struct buf *b, const struct json *v) {
    struct json one;
    void *iterator = NULL;
    for (size_t i = 0; json_item(v, i, &one); i++) {
        (void)buf_puts(b, i > 0 ? "," : "");
        put_scalar(b, &one);
    }
    for (bool any = false; json_next(v, &iterator, &one); any = true) {
        (void)buf_puts(b, any ? "," : "");
        put_text(b, one.key);
        (void)buf_putc(b, '=');
        put_scalar(b, &one);
    }
}

const char *reply_text(struct reply *r, size_t row, const char *name) {
    struct json v;
    const char *text;
    if (!reply_member(r, row, name, &v))
        return "";
    if (json_kind(&v) == JSON_KIND_STRING && json_as_string(&v, &text, NULL) == 0 &&
        is_printable(text))
        return text;
    _cleanup_(buf_free) struct buf b = BUF_INIT(DAEMON_ANSWER_MAX);
    if (json_kind(&v) == JSON_KIND_ARRAY || json_kind(&v) == JSON_KIND_OBJECT)
        put_members(&b, &v);
    else
        put_scalar(&b, &v);
    return strv_push(&r->made, buf_text(&b)) < 0 ? "(no memory)" : r->made.v[r->made.len - 1];
}
