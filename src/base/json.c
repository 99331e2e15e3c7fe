#include "base/json.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/jsonw.h"
#include "base/str.h"

enum { PATH_SIZE = 200 };

/* ---- parsing ---- */

/* Depth and number of values are bounded before memory is spent on them. */
static const char *check_shape(const char *text, size_t len) {
    size_t depth = 0, values = 1;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (in_string)
            continue;
        else if (c == '[' || c == '{')
            depth++, values++;
        else if (c == ']' || c == '}')
            depth -= depth > 0;
        else if (c == ',')
            values++;
        if (depth > JSON_DEPTH_MAX)
            return "is nested too deeply";
        if (values > JSON_VALUES_MAX)
            return "holds too many values";
    }
    return NULL;
}

static int refuse_syntax(const char *what, const json_error_t *e, struct cay_error *err) {
    char shown[JSON_ERROR_TEXT_LENGTH];
    if (json_error_code(e) == json_error_null_character) {
        error_set(err, CAY_INVALID_ARGUMENT, "%s: line %d, column %d: a text with a NUL (\\u0000)",
                  what, e->line, e->column);
        return error_remedy(err, "leave it away: code, names and arguments have none");
    }
    int r = error_set(err, CAY_INVALID_ARGUMENT, "%s: line %d, column %d: %s", what, e->line,
                      e->column, str_escape(shown, sizeof shown, e->text));
    (void)error_remedy(err, "send one well-formed JSON object or array");
    return r;
}

static int parse(const char *what, const char *text, size_t len, size_t flags,
                 struct json_document **ret, struct cay_error *err) {
    *ret = NULL;
    if (len > JSON_TEXT_MAX)
        return error_set(err, CAY_INVALID_ARGUMENT, "%s: more than %d bytes of JSON", what,
                         JSON_TEXT_MAX);
    const char *why = check_shape(text, len);
    if (why != NULL)
        return error_set(err, CAY_INVALID_ARGUMENT, "%s: the JSON %s", what, why);
    json_error_t e;
    json_t *root = json_loadb(text, len, flags, &e);
    if (root == NULL && json_error_code(&e) == json_error_out_of_memory)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "%s: out of memory", what);
    if (root == NULL)
        return refuse_syntax(what, &e, err);
    *ret = (struct json_document *)(void *)root;
    return 0;
}

int json_parse(const char *what, const char *text, size_t len, struct json_document **ret,
               struct cay_error *err) {
    return parse(what, text, len, JSON_REJECT_DUPLICATES, ret, err);
}

int json_parse_measures(const char *what, const char *text, size_t len, struct json_document **ret,
                        struct cay_error *err) {
    return parse(what, text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, ret, err);
}

void json_free(struct json_document *doc) {
    json_decref((json_t *)(void *)doc);
}

struct json json_root(const struct json_document *doc, const char *name) {
    return (struct json){.value = doc, .key = name};
}

/* ---- places ---- */

/* The reading functions of the library take non-const pointers but change nothing. */
static json_t *node(const struct json *at) {
    return (json_t *)(uintptr_t)at->value;
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
    static const enum json_kind kinds[] = {
        [JSON_OBJECT] = JSON_KIND_OBJECT, [JSON_ARRAY] = JSON_KIND_ARRAY,
        [JSON_STRING] = JSON_KIND_STRING, [JSON_INTEGER] = JSON_KIND_INTEGER,
        [JSON_REAL] = JSON_KIND_NUMBER,   [JSON_TRUE] = JSON_KIND_BOOL,
        [JSON_FALSE] = JSON_KIND_BOOL,    [JSON_NULL] = JSON_KIND_NULL,
    };
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): callers set it */
    return at->value == NULL ? JSON_KIND_ABSENT : kinds[json_typeof(node(at))];
}

bool json_child(const struct json *at, const char *key, struct json *ret) {
    json_t *v = json_object_get(node(at), key);
    *ret = (struct json){.value = json_is_null(v) ? NULL : v, .parent = at, .key = key};
    return ret->value != NULL;
}

size_t json_count(const struct json *at) {
    return json_is_object(node(at)) ? json_object_size(node(at)) : json_array_size(node(at));
}

bool json_item(const struct json *at, size_t index, struct json *ret) {
    *ret = (struct json){.value = json_array_get(node(at), index), .parent = at, .index = index};
    return ret->value != NULL;
}

bool json_next(const struct json *at, void **iterator, struct json *ret) {
    *iterator =
        *iterator == NULL ? json_object_iter(node(at)) : json_object_iter_next(node(at), *iterator);
    *ret = (struct json){.parent = at};
    if (*iterator == NULL)
        return false;
    ret->key = json_object_iter_key(*iterator);
    ret->value = json_object_iter_value(*iterator);
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
    *ret = json_string_value(node(at));
    return 0;
}

/* Beyond 2^53 a double no longer says which integer was meant. */
static bool integral(double v) {
    return fabs(v) <= 9007199254740992.0 && floor(v) == v;
}

int json_as_integer(const struct json *at, int64_t min, int64_t max, int64_t *ret,
                    struct cay_error *err) {
    int64_t v;
    if (json_kind(at) == JSON_KIND_INTEGER)
        v = json_integer_value(node(at));
    else if (json_kind(at) == JSON_KIND_NUMBER && integral(json_real_value(node(at))))
        v = (int64_t)json_real_value(node(at));
    else
        return expected(at, "an integer", err);
    if (v < min || v > max)
        return json_refuse(at, err, "must be between %" PRId64 " and %" PRId64, min, max);
    *ret = v;
    return 0;
}

int json_as_number(const struct json *at, double *ret, struct cay_error *err) {
    if (json_kind(at) != JSON_KIND_INTEGER && json_kind(at) != JSON_KIND_NUMBER)
        return expected(at, "a number", err);
    *ret = json_number_value(node(at));
    return 0;
}

int json_as_bool(const struct json *at, bool *ret, struct cay_error *err) {
    if (json_kind(at) != JSON_KIND_BOOL)
        return expected(at, "a boolean", err);
    *ret = json_is_true(node(at));
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

static void write_node(json_t *v, struct jsonw *w);

static void write_object(json_t *v, struct jsonw *w) {
    jsonw_begin_object(w);
    for (void *i = json_object_iter(v); i != NULL; i = json_object_iter_next(v, i)) {
        jsonw_key(w, json_object_iter_key(i));
        write_node(json_object_iter_value(i), w);
    }
    jsonw_end_object(w);
}

static void write_array(const json_t *v, struct jsonw *w) {
    jsonw_begin_array(w);
    for (size_t i = 0; i < json_array_size(v); i++)
        write_node(json_array_get(v, i), w);
    jsonw_end_array(w);
}

/* Depth was bounded when the text was parsed. */
static void write_node(json_t *v, struct jsonw *w) {
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        write_object(v, w);
        break;
    case JSON_ARRAY:
        write_array(v, w);
        break;
    case JSON_STRING:
        jsonw_bytes(w, json_string_value(v), json_string_length(v));
        break;
    case JSON_INTEGER:
        jsonw_integer(w, json_integer_value(v));
        break;
    case JSON_REAL:
        jsonw_number(w, json_real_value(v));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        jsonw_bool(w, json_typeof(v) == JSON_TRUE);
        break;
    case JSON_NULL:
        jsonw_null(w);
        break;
    }
}

void json_write(const struct json *at, struct jsonw *w) {
    if (at->value == NULL)
        jsonw_null(w);
    else
        write_node(node(at), w);
}
