/* Daytona's control plane, as far as cay asks for it. Sandboxes are found by id or name. */
#pragma once

#include "remote/far_read.h"
#include "remote/rest.h"

struct cay_error;

/* One request below the API. */
struct far_call {
    const char *method;
    const char *before, *who, *after; /* the path; who is escaped, NULL if it is about none */
    const struct buf *body;           /* JSON, or NULL */
};

/* ret NULL: the answer does not matter. */
int far_call(struct world *w, const struct far_call *call, struct json_document **ret,
             struct cay_error *err);

int far_get(struct world *w, const char *who, struct json_document **ret, struct cay_error *err);

/* All sandboxes, page by page. Each document holds some; the caller frees them with far_list_free.
 */
struct far_list {
    struct json_document **page;
    size_t pages;
    struct json *item; /* all of them, pointing into the pages */
    size_t count;
};
/* labels: JSON of an object, or NULL. */
int far_list(struct world *w, const char *labels, struct far_list *ret, struct cay_error *err);
void far_list_free(struct far_list *list);

/* Waits until the sandbox is in a state; "destroyed" is also that nobody knows it any more. ret may
 * be NULL. */
int far_await(struct world *w, const char *who, const char *state, struct json_document **ret,
              struct cay_error *err);
