#include "base/json/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/json/json_value.h"
#include "base/json/jsonw.h"
#include "base/str.h"

enum { PATH_SIZE = 200 };

struct json json_root(const struct json_document *doc, const char *name) {
    return (struct json){.value = doc != NULL ? doc->root : NULL, .key = name};
}

/* ---- places ---- */

static const struct json_value *node(const struct json *at) {
    return at->value;
}

static void put_path(struct buf *b, const struct json *at) {
    if (at->parent != NULL)
        put_path(b, at->parent);
    if (at->parent != NULL && at->key == NULL) {
        (void)buf_printf(b, "[%zu]", at->index);
        return;
    }
    char shown[64];
    const char *dot = b->len > 0 && at->parent != NULL ? "." : "";
    (void)buf_printf(b, "%s%s", dot, str_escape(shown, sizeof shown, at->key));
}

int json_refuse(const struct json *at, struct cay_error *err, const char *fmt, ...) {
    char message[200];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    _cleanup_(buf_free) struct buf path = BUF_INIT(PATH_SIZE);
    put_path(&path, at);
    return error_set(err, CAY_INVALID_ARGUMENT, "%s%s%s", buf_text(&path), path.len > 0 ? ": " : "",
                     message);
}

enum json_kind json_kind(const struct json *at) {
    return at->value == NULL ? JSON_KIND_ABSENT : (enum json_kind)node(at)->kind;
}

bool json_child(const struct json *at, const char *key, struct json *ret) {
    *ret = (struct json){.parent = at, .key = key};
    if (json_kind(at) != JSON_KIND_OBJECT)
        return false;
    const struct json_value *member = node(at)->values, *end = member + 2 * (size_t)node(at)->count;
    size_t len = strlen(key);
    for (; member < end; member += 2)
        if (member->count == len && memcmp(member->text, key, len) == 0) {
            ret->value = member[1].kind == JSON_KIND_NULL ? NULL : &member[1];
            return ret->value != NULL;
        }
    return false;
}

size_t json_count(const struct json *at) {
    enum json_kind kind = json_kind(at);
    return kind == JSON_KIND_ARRAY || kind == JSON_KIND_OBJECT ? node(at)->count : 0;
}

bool json_item(const struct json *at, size_t index, struct json *ret) {
    *ret = (struct json){.parent = at, .index = index};
    if (json_kind(at) != JSON_KIND_ARRAY || index >= node(at)->count)
        return false;
    ret->value = &node(at)->values[index];
    return true;
}

bool json_next(const struct json *at, void **iterator, struct json *ret) {
    *ret = (struct json){.parent = at};
    if (json_kind(at) != JSON_KIND_OBJECT)
        return false;
    const struct json_value *members = node(at)->values;
    const struct json_value *next =
        *iterator == NULL ? members : (const struct json_value *)*iterator + 2;
    if (next == members + 2 * (size_t)node(at)->count)
        return false;
    *iterator = (void *)(uintptr_t)next; /* never written through */
    ret->key = next->text;
    ret->value = &next[1];
    return true;
}

/* ---- types ---- */

static int expected(const struct json *at, const char *type, struct cay_error *err) {
    static const char *const names[] = {
        [JSON_KIND_ABSENT] = "nothing",  [JSON_KIND_NULL] = "null",
        [JSON_KIND_BOOL] = "a boolean",  [JSON_KIND_INTEGER] = "a number",
        [JSON_KIND_NUMBER] = "a number", [JSON_KIND_STRING] = "a string",
        [JSON_KIND_ARRAY] = "an array",  [JSON_KIND_OBJECT] = "an object",
    };
    const char *got = names[json_kind(at)];
    bool fraction = json_kind(at) == JSON_KIND_NUMBER && strcmp(type, "an integer") == 0;
    return json_refuse(at, err, "expected %s, got %s%s", type, got,
                       fraction ? " with a fraction" : "");
}

int json_as_string(const struct json *at, const char **ret, struct cay_error *err) {
    if (json_kind(at) != JSON_KIND_STRING)
        return expected(at, "a string", err);
    *ret = node(at)->text;
    return 0;
}

/* Beyond 2^53 a double no longer says which integer was meant. */
static bool integral(double v) {
    return fabs(v) <= 9007199254740992.0 && floor(v) == v;
}

int json_as_integer(const struct json *at, int64_t min, int64_t max, int64_t *ret,
                    struct cay_error *err) {
    int64_t v;
    bool fits = true;
    if (json_kind(at) == JSON_KIND_INTEGER) {
        fits = !node(at)->is_unsigned;
        v = fits ? node(at)->integer : 0;
    } else if (json_kind(at) == JSON_KIND_NUMBER && integral(node(at)->number)) {
        v = (int64_t)node(at)->number;
    } else {
        return expected(at, "an integer", err);
    }
    if (!fits || v < min || v > max)
        return json_refuse(at, err, "must be between %" PRId64 " and %" PRId64, min, max);
    *ret = v;
    return 0;
}

int json_as_unsigned(const struct json *at, uint64_t max, uint64_t *ret, struct cay_error *err) {
    if (json_kind(at) == JSON_KIND_INTEGER && node(at)->is_unsigned) {
        if (node(at)->natural > max)
            return json_refuse(at, err, "must be between 0 and %" PRIu64, max);
        *ret = node(at)->natural;
        return 0;
    }
    int64_t v;
    int r = json_as_integer(at, 0, (int64_t)MIN(max, (uint64_t)INT64_MAX), &v, err);
    if (r < 0)
        return r;
    *ret = (uint64_t)v;
    return 0;
}

int json_as_number(const struct json *at, double *ret, struct cay_error *err) {
    if (json_kind(at) != JSON_KIND_INTEGER && json_kind(at) != JSON_KIND_NUMBER)
        return expected(at, "a number", err);
    *ret = json_kind(at) == JSON_KIND_NUMBER ? node(at)->number
           : node(at)->is_unsigned           ? (double)node(at)->natural
                                             : (double)node(at)->integer;
    return 0;
}

int json_as_bool(const struct json *at, bool *ret, struct cay_error *err) {
    if (json_kind(at) != JSON_KIND_BOOL)
        return expected(at, "a boolean", err);
    *ret = node(at)->is_true;
    return 0;
}

int json_as_object(const struct json *at, struct cay_error *err) {
    return json_kind(at) == JSON_KIND_OBJECT ? 0 : expected(at, "an object", err);
}

int json_as_array(const struct json *at, struct cay_error *err) {
    return json_kind(at) == JSON_KIND_ARRAY ? 0 : expected(at, "an array", err);
}

/* ---- members ---- */

/* 1 if the member is there, 0 if it is absent and may be, or the error. */
static int member(const struct json *at, const char *key, enum json_need need, struct json *ret,
                  struct cay_error *err) {
    if (json_kind(at) != JSON_KIND_OBJECT)
        return expected(at, "an object", err);
    if (json_child(at, key, ret))
        return 1;
    return need == JSON_OPTIONAL ? 0 : json_refuse(ret, err, "is missing");
}

int json_get_string(const struct json *at, const char *key, enum json_need need, const char **ret,
                    struct cay_error *err) {
    struct json v;
    int r = member(at, key, need, &v, err);
    return r <= 0 ? r : json_as_string(&v, ret, err);
}

int json_get_integer(const struct json *at, const char *key, enum json_need need, int64_t min,
                     int64_t max, int64_t *ret, struct cay_error *err) {
    struct json v;
    int r = member(at, key, need, &v, err);
    return r <= 0 ? r : json_as_integer(&v, min, max, ret, err);
}

int json_get_unsigned(const struct json *at, const char *key, enum json_need need, uint64_t max,
                      uint64_t *ret, struct cay_error *err) {
    struct json v;
    int r = member(at, key, need, &v, err);
    return r <= 0 ? r : json_as_unsigned(&v, max, ret, err);
}

int json_get_number(const struct json *at, const char *key, enum json_need need, double *ret,
                    struct cay_error *err) {
    struct json v;
    int r = member(at, key, need, &v, err);
    return r <= 0 ? r : json_as_number(&v, ret, err);
}

int json_get_bool(const struct json *at, const char *key, enum json_need need, bool *ret,
                  struct cay_error *err) {
    struct json v;
    int r = member(at, key, need, &v, err);
    return r <= 0 ? r : json_as_bool(&v, ret, err);
}

int json_get_object(const struct json *at, const char *key, enum json_need need, struct json *ret,
                    struct cay_error *err) {
    int r = member(at, key, need, ret, err);
    return r <= 0 ? r : json_as_object(ret, err);
}

int json_get_array(const struct json *at, const char *key, enum json_need need, struct json *ret,
                   struct cay_error *err) {
    int r = member(at, key, need, ret, err);
    return r <= 0 ? r : json_as_array(ret, err);
}

/* ---- writing ---- */

static void write_value(const struct json_value *v, struct jsonw *w);

static void write_object(const struct json_value *v, struct jsonw *w) {
    jsonw_begin_object(w);
    for (size_t i = 0; i < v->count; i++) {
        jsonw_key(w, v->values[2 * i].text);
        write_value(&v->values[2 * i + 1], w);
    }
    jsonw_end_object(w);
}

static void write_array(const struct json_value *v, struct jsonw *w) {
    jsonw_begin_array(w);
    for (size_t i = 0; i < v->count; i++)
        write_value(&v->values[i], w);
    jsonw_end_array(w);
}

/* Depth was bounded when the text was parsed. */
static void write_value(const struct json_value *v, struct jsonw *w) {
    switch (v->kind) {
    case JSON_KIND_OBJECT:
        write_object(v, w);
        break;
    case JSON_KIND_ARRAY:
        write_array(v, w);
        break;
    case JSON_KIND_STRING:
        jsonw_bytes(w, v->text, v->count);
        break;
    case JSON_KIND_INTEGER:
        if (v->is_unsigned)
            jsonw_unsigned(w, v->natural);
        else
            jsonw_integer(w, v->integer);
        break;
    case JSON_KIND_NUMBER:
        jsonw_number(w, v->number);
        break;
    case JSON_KIND_BOOL:
        jsonw_bool(w, v->is_true);
        break;
    default:
        jsonw_null(w);
        break;
    }
}

void json_write(const struct json *at, struct jsonw *w) {
    if (at->value == NULL)
        jsonw_null(w);
    else
        write_value(node(at), w);
}
