/* What a program in a fresh sandbox prints beyond what an answer has: it is kept for some minutes,
 * and a notice and the answer say where. */
#pragma once

#include "api/call.h"
#include "api/toolbox/outputs.h"

struct cay_result;

enum { PYTHON_PLACE_SIZE = 64 };

struct python_prints {
    struct outputs *all; /* NULL: nothing is kept */
    const char *owner;
    struct output out[2];
    bool began[2];
};
#define PYTHON_PRINTS_INIT(o, who)                                                                 \
    ((struct python_prints){.all = (o), .owner = (who), .out = {OUTPUT_NONE, OUTPUT_NONE}})

/* For exec_streams.more; arg is a struct python_prints. */
void python_take_more(void *arg, int stream, const struct buf *captured, const char *data,
                      size_t len);
/* Adds a notice to what was captured of a stream, and says where all of it is: NULL if there is
 * nothing more, or it was not kept. */
const char *python_note_more(const struct python_prints *p, int stream, struct cay_result *run,
                             char place[static PYTHON_PLACE_SIZE]);
/* Ends the files; they stay if the client hears of them. */
void python_prints_end(struct python_prints *p, bool keeps);

/* GET of such a file. */
int python_output_handle(struct call *c, struct cay_error *err);
