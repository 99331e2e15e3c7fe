/* Inside of the TOML reader: what toml.c (document), toml/scalar.c (strings, numbers, times) and
 * toml/tree.c (values and who may add to them) share. Not for others. */
#pragma once

#include "base/auto.h"
#include "base/buf.h"
#include "base/toml/toml.h"

struct toml_place {
    unsigned line, column;
};

struct toml_reader {
    const char *name;
    const char *text;
    size_t len;
    size_t at;
    struct toml_place place; /* of text[at] */
    struct toml_value *root;
    size_t values;
    struct cay_error *err;
};

struct toml_key {
    struct buf text;
    struct toml_place place;
};

/* ---- toml.c ---- */

/* Fills the error with name, place, cause and remedy (NULL for none); returns a negative code. */
int toml_fail(struct toml_reader *r, struct toml_place at, const char *remedy, const char *fmt, ...)
    _printf_(4, 5);
int toml_fail_memory(struct toml_reader *r);

/* The byte `ahead` bytes further on, -1 at the end. */
int toml_peek(const struct toml_reader *r, size_t ahead);
/* True if the text goes on like this. */
bool toml_at(const struct toml_reader *r, const char *text);
/* Moves on, counting lines and characters; the bytes must be there. */
void toml_skip(struct toml_reader *r, size_t bytes);
/* The byte at the place, in a form fit for an error. */
const char *toml_show(const struct toml_reader *r, char out[static 24]);

/* ---- toml/scalar.c ---- */

/* One basic or literal string on one line, as keys may be, appended to out. */
int toml_read_line_string(struct toml_reader *r, struct buf *out);
/* A string of any kind into v. */
int toml_read_string(struct toml_reader *r, struct toml_value *v);
/* A number, boolean or date-time into v. */
int toml_read_plain(struct toml_reader *r, struct toml_value *v);

/* ---- toml/time.c ---- */

/* Recognises a date, a time or both and puts their 'T' and 'Z' in upper case: 1 with *ret_type set,
 * 0 if the token is something else, -EINVAL if it is one with a wrong form or field. */
int toml_check_time(char *token, enum toml_type *ret_type);

/* ---- toml/tree.c ---- */

/* A new last child of parent (key NULL for an array element), or the root for parent NULL. */
int toml_add(struct toml_reader *r, struct toml_value *parent, const struct toml_key *key,
             enum toml_type type, struct toml_value **ret);
/* The table that `key` of a dotted key leads to. */
int toml_enter_dotted(struct toml_reader *r, struct toml_value **table, const struct toml_key *key);
/* The table that `key` in a header leads to, not being its last. */
int toml_enter_header(struct toml_reader *r, struct toml_value **table, const struct toml_key *key);
/* The table that the header [… key] defines. */
int toml_define_table(struct toml_reader *r, struct toml_value **table, const struct toml_key *key);
/* A new element of the array that the header [[… key]] appends to. */
int toml_append_table(struct toml_reader *r, struct toml_value **table, const struct toml_key *key);
/* The new child of table that `key = …` makes; refuses a second one. */
int toml_add_keyed(struct toml_reader *r, struct toml_value *table, const struct toml_key *key,
                   struct toml_value **ret);
