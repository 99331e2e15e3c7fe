/* What requests carry and answers say, for /openapi.json, as tables of a short notation.
 *
 * A type is a letter: s text, b boolean, i integer, n number, t time, m object of texts, o any
 * object; or the name of a shape; or [TYPE], an array. In the fields of a shape it follows the key
 * and a colon, and may be followed by '!' (it is always there) and '?' (it may be null). */
#pragma once

#include <stddef.h>

#include "base/json/jsonw.h"

struct openapi_shape {
    const char *name, *fields; /* "id:s! labels:m parts:[Part]!" */
    unsigned of_sandbox;       /* and attributes of a sandbox with one of these flags */
    unsigned but_not;          /* and none of these: manager/record/fields.h */
};

/* One method of a path. */
struct openapi_call {
    const char *method, *pattern;
    const char *body;   /* a type, "form" or "bytes"; NULL: none */
    const char *answer; /* a status and a type, "text" or "bytes", or the status alone */
};

/* NULL if nothing is known of it. Names in braces do not matter. */
const struct openapi_call *openapi_find(const char *method, const char *pattern);
/* True if both match the same paths. */
bool openapi_is_same(const char *a, const char *b);

/* The members "requestBody" and "responses" of an operation; call may be NULL. */
void openapi_put_call(struct jsonw *w, const struct openapi_call *call);
/* The object of all shapes. */
void openapi_put_shapes(struct jsonw *w);
