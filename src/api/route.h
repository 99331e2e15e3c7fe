/* Which function answers a request: a table of rows, each with a method and a pattern. */
#pragma once

#include <stddef.h>

#include "api/access.h"
#include "api/http/target.h"

struct call;

/* Fills the call's answer, or returns a negative code with err filled. */
typedef int (*route_handler)(struct call *call, struct cay_error *err);

struct route {
    const char *method; /* "*": any */
    /* "/api/sandbox/{who}/start": a part in braces matches any one; "*" at the end any number. */
    const char *pattern;
    route_handler handler;
    enum access_need need; /* of the caller */
    /* Called when the head of the request is known, to set the call's sink, if its body is to be
     * taken piece by piece; or NULL. */
    route_handler open;
    size_t body_max;  /* bytes of a body that is taken as a whole; 0: CALL_BODY_MAX */
    bool needs_space; /* refused while the disk of the state folder is nearly full */
};

struct route_table {
    const struct route *rows;
    size_t count;
};

enum { ROUTE_ALLOW_SIZE = 64, ROUTE_ARGS_MAX = 4 };

/* What the parts in braces matched, in their order. */
struct route_args {
    const char *v[ROUTE_ARGS_MAX];
    size_t count;
    size_t row; /* which row it was, counted through all tables */
};

/* True if {who} names a sandbox. */
bool route_has_sandbox(const struct route *route);

enum { ROUTE_ACTION_SIZE = 48 };
/* What a route does, in a word for the audit: "sandbox.start", "key.create", "volume.delete". */
const char *route_action(const struct route *route, char out[static ROUTE_ACTION_SIZE]);

/* The first row for a request; HEAD is served by GET. If the path exists for other methods only,
 * the result is NULL and allow lists them ("GET, POST"); otherwise allow is empty. */
const struct route *route_find(const struct route_table *const *tables, size_t count,
                               const char *method, const struct target *target,
                               struct route_args *ret, char allow[static ROUTE_ALLOW_SIZE]);
