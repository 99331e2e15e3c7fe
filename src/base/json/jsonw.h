/* An append-only JSON writer over struct buf, for hot paths. Commas are its business. Whatever goes
 * in, what jsonw_finish() accepts is one well-formed JSON document: bytes that are no UTF-8 become
 * U+FFFD, and a call out of place fails the writer instead of writing nonsense. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct strv;

enum { JSONW_DEPTH_MAX = 64 };

struct jsonw {
    struct buf *out;
    unsigned depth;   /* open objects and arrays */
    uint64_t objects; /* bit n: level n is an object */
    uint64_t filled;  /* bit n: level n has an element */
    bool after_key;
    bool done;   /* the document's one value is written */
    bool failed; /* sticky, like out->failed */
};

/* Appends to b, which may hold other text already. */
#define JSONW_INIT(b) ((struct jsonw){.out = (b)})

void jsonw_begin_object(struct jsonw *w);
void jsonw_end_object(struct jsonw *w);
void jsonw_begin_array(struct jsonw *w);
void jsonw_end_array(struct jsonw *w);

/* The key of the next value; only inside an object. */
void jsonw_key(struct jsonw *w, const char *key);

/* Values. NULL text is null. A number that JSON cannot express (infinite, NaN) fails the writer. */
void jsonw_string(struct jsonw *w, const char *text);
void jsonw_bytes(struct jsonw *w, const char *data, size_t len);
/* An object that somebody else wrote; null if it is not a plain one (base/json/json.h). */
void jsonw_object(struct jsonw *w, const char *text, size_t len);
/* Any bytes as a string in base64. */
void jsonw_base64(struct jsonw *w, const void *data, size_t len);
void jsonw_integer(struct jsonw *w, int64_t value);
void jsonw_unsigned(struct jsonw *w, uint64_t value);
void jsonw_number(struct jsonw *w, double value);
void jsonw_bool(struct jsonw *w, bool value);
void jsonw_null(struct jsonw *w);

/* Key and value in one. */
void jsonw_put_string(struct jsonw *w, const char *key, const char *text);
void jsonw_put_integer(struct jsonw *w, const char *key, int64_t value);
void jsonw_put_unsigned(struct jsonw *w, const char *key, uint64_t value);
void jsonw_put_number(struct jsonw *w, const char *key, double value);
void jsonw_put_bool(struct jsonw *w, const char *key, bool value);
/* null if the text is empty. */
void jsonw_put_optional(struct jsonw *w, const char *key, const char *text);
/* RFC 3339, in UTC; with _optional_ null if it is 0. */
void jsonw_put_time(struct jsonw *w, const char *key, int64_t wall_ms);
void jsonw_put_optional_time(struct jsonw *w, const char *key, int64_t wall_ms);
/* An array of strings. */
void jsonw_put_strings(struct jsonw *w, const char *key, const struct strv *texts);
/* "K=V" texts as an object of strings. */
void jsonw_put_pairs(struct jsonw *w, const char *key, const struct strv *pairs);

/* Writes the members of an object that describes `row`. */
typedef void jsonw_members_fn(struct jsonw *w, const void *row);
/* Appends a whole document and a newline: an object, or an array of `count` objects. */
void jsonw_write_object(struct buf *out, jsonw_members_fn *members, const void *row);
void jsonw_write_array(struct buf *out, jsonw_members_fn *members, const void *rows, size_t count,
                       size_t row_size);

/* 0 if exactly one whole value was written; -ENOBUFS if the buffer was too small; -EINVAL after a
 * call out of place, too deep nesting, or with something left open. */
int jsonw_finish(const struct jsonw *w);
