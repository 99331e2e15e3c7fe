/* An answer of the daemon: a JSON object, or an array of objects. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/json/json.h"
#include "base/str.h"

struct cay_error;

struct reply {
    struct json_document *doc;
    size_t rows;      /* objects */
    struct strv made; /* what reply_text wrote */
};

/* Parses a copy of the text: one object; or an array of them, which may be empty. */
int reply_parse(const struct buf *text, struct reply *ret, struct cay_error *err);
int reply_parse_list(const struct buf *text, struct reply *ret, struct cay_error *err);
void reply_free(struct reply *r);

/* A member of an object (from 0) as text for people, on one line, with control characters escaped:
 * a list as "A,B", an object as "K=V,K=V". "" if it is absent or null. Lives as long as the
 * reply. */
const char *reply_text(struct reply *r, size_t row, const char *name);

/* A string as it was sent; "" if it is none. */
const char *reply_string(const struct reply *r, size_t row, const char *name);
/* A number; 0 if it is none, or does not fit. */
uint64_t reply_unsigned(const struct reply *r, size_t row, const char *name);
double reply_number(const struct reply *r, size_t row, const char *name);
bool reply_is_true(const struct reply *r, size_t row, const char *name);

/* The object itself, and a member of it; false if it is absent or null. `row` must live as long as
 * what is reached through it. */
struct json reply_row(const struct reply *r, size_t row);
bool reply_member(const struct reply *r, size_t row, const char *name, struct json *ret);
