/* The input of a command of a Daytona, which has no way for bytes and none for their end: pieces
 * are put into files of a folder, and a loop of the shell hands them on. */
#pragma once

#include "remote/op.h"

struct cay_error;

struct feed {
    struct op *op;
    char folder[64]; /* in the sandbox; "" if nothing is fed */
    unsigned count;  /* of pieces */
    struct buf pending;
    bool ended;
};

/* Finds out whether the request has input: folder is "" if it has none, or if that has ended. */
int feed_begin(struct feed *f, struct op *o, struct cay_error *err);

/* Takes a frame of input or its end. What is small waits for more, until feed_flush. */
int feed_take(struct feed *f, const struct wire_frame *frame, struct cay_error *err);
int feed_flush(struct feed *f, struct cay_error *err);

/* Appends the loop, as a list of commands whose output is the input. */
void feed_put_loop(const struct feed *f, struct buf *script);

/* Removes the folder, which the script does too; but input may have come after that. */
void feed_remove(const struct feed *f);

/* Releases what it holds here. */
void feed_free(struct feed *f);
