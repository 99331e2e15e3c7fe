/* A sandbox's attributes as members of JSON objects, by the table in
 * manager/record/fields.h. */
#pragma once

#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "manager/record/fields.h"

struct cay_error;

/* Writes the member of a field that is not derived, and the one in Daytona's
 * unit if it has one. */
void fields_json_put(struct jsonw *w, const struct field *f, const struct sandbox_record *r);

/* Reads the members that a request may set: `flag` is FIELD_CREATE, where 0 and
 * "" stand for the default (and field.zero for 0), FIELD_UPDATE, where lists
 * are the caller's business, or FIELD_LIMIT. What was there is marked in
 * ret_set, which may be NULL. An error names the member and its range. */
int fields_json_read(const struct json *at, enum field_flags flag, struct sandbox_record *ret,
                     struct field_set *ret_set, struct cay_error *err);

/* The names that fields_json_read() knows; returns how many of `max` there are.
 */
size_t fields_json_names(enum field_flags flag, const char **names, size_t max);
