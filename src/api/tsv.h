/* Tables for programs that read no JSON: a line of names, then a line for each row, fields
 * separated by tabs. */
#pragma once

#include "base/buf.h"

struct tsv {
    struct buf *out;
    bool filled; /* the line has a field */
};

#define TSV_INIT(b) ((struct tsv){.out = (b)})

/* Adds a field to the line. Backslashes, control characters and bytes that are no UTF-8 are
 * written as \\, \t, \n and \xNN, so that a line is a row and a tab ends a field. */
void tsv_field(struct tsv *t, const char *text);
void tsv_number(struct tsv *t, int64_t value);
void tsv_unsigned(struct tsv *t, uint64_t value);
/* One field of a list: entries separated by commas, those within an entry written as \x2c. */
void tsv_list(struct tsv *t, const char *const *entries, size_t count);
void tsv_end_line(struct tsv *t);
