/* An answer in lines of fields separated by tabs, the first line naming them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cay_error;

struct table {
    char *text;         /* what the fields point into */
    const char **field; /* the names, then row after row */
    size_t columns, rows;
};

/* Takes a copy of the text. A row with another number of fields than there are names is refused. */
int table_parse(const char *text, struct table *ret, struct cay_error *err);
void table_free(struct table *t);

/* The field of a row (from 0) by its name; "" if there is no such column. */
const char *table_get(const struct table *t, size_t row, const char *name);
/* The same as a number; 0 if it is none. */
uint64_t table_number(const struct table *t, size_t row, const char *name);

/* Replaces what stands for another character (docs/api.md) by it, in place. What is no such thing
 * stays. */
void table_unescape(char *text);
