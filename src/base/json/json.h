/* Reading JSON that came from outside. Everything is bounded: the text, the number of values, the
 * depth; nothing recurses over what somebody else wrote.
 *
 * A document is owned (json_free); a struct json points into it and to the struct json that it was
 * reached through, so that errors can name the place: "sandbox.memory: expected a number". Both
 * must live as long as it is used. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct cay_error;
struct jsonw;
struct json_document;

enum {
    JSON_TEXT_MAX = 16 * 1024 * 1024,
    JSON_DEPTH_MAX = 64,
    JSON_VALUES_MAX =
        200 * 1000, /* a short text can hold many values, each of which costs memory */
    JSON_PLAIN_DEPTH_MAX = 16,
};

/* Which integers are read. Beyond int64 they are for json_as_unsigned only; JSON_INTEGERS_ANY makes
 * those beyond uint64 numbers, which lose digits. */
enum json_integers { JSON_INTEGERS_INT64, JSON_INTEGERS_UINT64, JSON_INTEGERS_ANY };

struct json_rules {
    size_t text_max, values_max;
    unsigned depth_max; /* at most JSON_DEPTH_MAX */
    enum json_integers integers;
    bool is_ascii; /* all other characters are escaped */
};

#define JSON_RULES                                                                                 \
    {                                                                                              \
        .text_max = JSON_TEXT_MAX, .values_max = JSON_VALUES_MAX, .depth_max = JSON_DEPTH_MAX,     \
        .integers = JSON_INTEGERS_UINT64                                                           \
    }

/* A value and how it was reached. */
struct json {
    const void *value;
    const struct json *parent; /* NULL: the root */
    const char *key; /* in its object; for the root its name in errors; NULL in an array */
    size_t index;    /* in its array */
};

enum json_kind {
    JSON_KIND_ABSENT, /* value is NULL */
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_INTEGER, /* int64 or uint64 */
    JSON_KIND_NUMBER,  /* with a fraction or an exponent */
    JSON_KIND_STRING,
    JSON_KIND_ARRAY,
    JSON_KIND_OBJECT,
};

enum json_need { JSON_OPTIONAL, JSON_REQUIRED };

/* Parses one object or array. Refused as CAY_INVALID_ARGUMENT: more than the rules allow, a key
 * twice in an object, invalid UTF-8, NUL in a string, an integer beyond uint64, a number beyond
 * double, anything after the value. `what` names the text in errors ("request body"). */
int json_parse(const char *what, const char *text, size_t len, struct json_document **ret,
               struct cay_error *err);
/* The same with other rules than JSON_RULES. */
int json_parse_by(const struct json_rules *rules, const char *what, const char *text, size_t len,
                  struct json_document **ret, struct cay_error *err);
/* True for an object that every reader of JSON accepts: as json_parse has it, in ASCII, not nested
 * deeper than JSON_PLAIN_DEPTH_MAX, with integers that fit int64. */
bool json_is_plain_object(const char *text, size_t len);
void json_free(struct json_document *doc);
static inline void json_freep(struct json_document **doc) {
    json_free(*doc);
}

/* The root; name begins the paths in errors, "" to begin with the key. */
struct json json_root(const struct json_document *doc, const char *name);

enum json_kind json_kind(const struct json *at);

/* The member of an object; false if it is absent or null, or if `at` is no object. */
bool json_child(const struct json *at, const char *key, struct json *ret);

/* Elements of an array (0 if it is none), members of an object. */
size_t json_count(const struct json *at);
bool json_item(const struct json *at, size_t index, struct json *ret);

/* Walks the members of an object: *iterator starts as NULL; false at the end. ret->key is set. */
bool json_next(const struct json *at, void **iterator, struct json *ret);

/* The value as a type; CAY_INVALID_ARGUMENT naming the place otherwise. A number with an integral
 * value is an integer too, as clients write 30.0. Strings hold no NUL and live with the document.
 */
int json_as_string(const struct json *at, const char **ret, struct cay_error *err);
int json_as_integer(const struct json *at, int64_t min, int64_t max, int64_t *ret,
                    struct cay_error *err);
int json_as_unsigned(const struct json *at, uint64_t max, uint64_t *ret, struct cay_error *err);
int json_as_number(const struct json *at, double *ret, struct cay_error *err);
int json_as_bool(const struct json *at, bool *ret, struct cay_error *err);
int json_as_object(const struct json *at, struct cay_error *err);
int json_as_array(const struct json *at, struct cay_error *err);

/* The member of an object as a type. Absent and null are the same: *ret keeps its value if the
 * member is optional, and it is an error if not. json_get_object and _array leave ret->value NULL
 * where an optional member is absent. */
int json_get_string(const struct json *at, const char *key, enum json_need need, const char **ret,
                    struct cay_error *err);
int json_get_integer(const struct json *at, const char *key, enum json_need need, int64_t min,
                     int64_t max, int64_t *ret, struct cay_error *err);
int json_get_unsigned(const struct json *at, const char *key, enum json_need need, uint64_t max,
                      uint64_t *ret, struct cay_error *err);
int json_get_number(const struct json *at, const char *key, enum json_need need, double *ret,
                    struct cay_error *err);
int json_get_bool(const struct json *at, const char *key, enum json_need need, bool *ret,
                  struct cay_error *err);
int json_get_object(const struct json *at, const char *key, enum json_need need, struct json *ret,
                    struct cay_error *err);
int json_get_array(const struct json *at, const char *key, enum json_need need, struct json *ret,
                   struct cay_error *err);

/* Fills err for the value at this place: "tools[2].name: MESSAGE". */
int json_refuse(const struct json *at, struct cay_error *err, const char *fmt, ...) _printf_(3, 4);

/* Writes the value, with all below it, where the writer stands. */
void json_write(const struct json *at, struct jsonw *w);
