/* One description of an answer, two forms: JSON objects, or lines of a table (docs/api.md). What
 * writes a row calls the same functions for both. */
#pragma once

#include "api/tsv.h"
#include "base/jsonw.h"
#include "base/str.h"

struct sheet {
    bool is_tsv;
    bool naming; /* the line of names is being written, not a row */
    struct jsonw json;
    struct tsv tsv;
};

struct sheet_kind {
    void (*write)(struct sheet *s, const void *row);
    size_t size;       /* of a row */
    const void *empty; /* a row from which the names are taken: a table without rows has them too */
};

/* Appends one row (an object in JSON), or an array of rows. */
void sheet_write_one(struct buf *out, bool is_tsv, const struct sheet_kind *kind, const void *row);
void sheet_write_all(struct buf *out, bool is_tsv, const struct sheet_kind *kind, const void *rows,
                     size_t count);

/* For the functions that write a row. */
void sheet_string(struct sheet *s, const char *name, const char *text);
/* null in JSON if it is empty. */
void sheet_optional(struct sheet *s, const char *name, const char *text);
void sheet_integer(struct sheet *s, const char *name, int64_t value);
void sheet_unsigned(struct sheet *s, const char *name, uint64_t value);
void sheet_number(struct sheet *s, const char *name, double value);
void sheet_bool(struct sheet *s, const char *name, bool value);
void sheet_time(struct sheet *s, const char *name, int64_t wall_ms);
/* null in JSON, and empty in a table, if it is 0. */
void sheet_optional_time(struct sheet *s, const char *name, int64_t wall_ms);
/* Words: an array of strings, or one field. */
void sheet_words(struct sheet *s, const char *name, const struct strv *words);
/* "K=V" texts: an object of strings, or one field. */
void sheet_pairs(struct sheet *s, const char *name, const struct strv *pairs);
