/* Which function answers a request: a table of rows, each with a method and a pattern. */
#pragma once

#include <stddef.h>

#include "daemon/access.h"
#include "daemon/target.h"

struct call;

/* Fills the call's answer, or returns a negative code with err filled. */
typedef int (*route_handler)(struct call *call, struct cay_error *err);

struct route {
    const char *method;
    const char *pattern; /* "/api/sandbox/{who}/start": a part in braces matches any one */
    route_handler handler;
    enum access_need need; /* of the caller */
};

enum { ROUTE_ALLOW_SIZE = 64 };

/* True if {who} names a sandbox. */
bool route_has_sandbox(const struct route *route);

enum { ROUTE_ACTION_SIZE = 48 };
/* What a route does, in a word for the audit: "sandbox.start", "key.create", "volume.delete". */
const char *route_action(const struct route *route, char out[static ROUTE_ACTION_SIZE]);

/* The row for a request; HEAD is served by GET. *ret_who is what a part in braces matched, NULL if
 * there is none. If the path exists for other methods only, the result is NULL and allow lists
 * them ("GET, POST"); otherwise allow is empty. */
const struct route *route_find(const struct route *table, size_t count, const char *method,
                               const struct target *target, const char **ret_who,
                               char allow[static ROUTE_ALLOW_SIZE]);
