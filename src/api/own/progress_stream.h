/* Work that takes long and tells how far it is: its lines of progress come as they are told, then
 * "done" and the answer, or "error" and the error. For who asks with X-Cay-Progress: lines. */
#pragma once

#include <stdbool.h>

struct buf;
struct call;
struct cay_error;

/* What is done with `user`, whatever the work is about. */
struct progress_work {
    /* In a thread of its own: does it, with lines to the descriptor. */
    int (*run)(void *user, int progress_fd, struct cay_error *err);
    /* Writes it to the audit; the same thread. */
    void (*note)(void *user, int result, const struct cay_error *err);
    /* Appends the answer, if it was done. */
    void (*answer)(void *user, struct buf *out);
    void (*release)(void *user);
};

/* Begins it; it is done to its end also if the client goes, but a pull is given up. user is taken
 * over, also if this fails. */
int progress_stream_begin(struct call *c, const struct progress_work *work, void *user,
                          struct cay_error *err);
