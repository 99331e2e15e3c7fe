/* An answer that begins with lines of progress: "progress TEXT" any number of times, then "done" or
 * "error", then the answer itself. */
#pragma once

#include <stddef.h>

#include "base/buf.h"

struct cay_error;

struct progress {
    void (*tell)(void *arg, const char *line);
    void *arg;
    struct buf *answer; /* the answer is appended here */
    int status;         /* like an HTTP status: 0 before the end, 200 or 500 */
    struct buf line;    /* the line at hand */
};

/* An http_sink_fn; arg is a struct progress. */
int progress_take(void *arg, const char *data, size_t len, struct cay_error *err);
/* 0 if it is done, 1 if the answer is an error, negative if it broke off. */
int progress_end(const struct progress *p, struct cay_error *err);
void progress_free(struct progress *p);
