/* What every part of the toolbox needs: a way into the sandbox, and errors as Daytona's in-sandbox
 * daemon has them. */
#pragma once

#include "manager/manager.h"
#include "wire/call.h"

struct buf;
struct call;
struct cay_error;
struct jsonw;
struct target;

/* How long a sandbox may take to answer, or to take or give the next piece of content. */
enum { TOOLBOX_WAIT_MS = 60 * 1000 };

/* One operation inside a sandbox. */
struct toolbox {
    struct manager *manager;
    struct operation *operation;
    struct sandbox_record record; /* its defaults: user, work folder, environment */
    struct wire_call wire;        /* with that user in that folder; no deadline */
};

#define TOOLBOX_INIT ((struct toolbox){.wire = {.fd = -1}})

/* Connects to the call's sandbox. What it fills is toolbox_end's, also after a failure. */
int toolbox_begin(const struct call *c, struct toolbox *ret, struct cay_error *err);
void toolbox_end(struct toolbox *t);

/* Gives the sandbox TOOLBOX_WAIT_MS from now on. */
void toolbox_hurry(struct toolbox *t);

/* True if the request is one to a toolbox: its errors look so. */
bool toolbox_is_asked(const struct call *c);

/* Daytona's code ("FILE_NOT_FOUND"), and a status if it is not that of the error's class (0), for
 * the error that the handler is about to return. Returns -err->code. */
int toolbox_fault(struct call *c, const char *code, unsigned status, const struct cay_error *err);

/* Appends an error as JSON: {statusCode, message, code, source, timestamp, path, method}, and our
 * remedy; and "errors", if the call has such a list. code NULL: by the status. */
void toolbox_write_error(struct buf *out, const struct call *c, const struct cay_error *err,
                         const char *code, unsigned status);

/* The code of a status that says it all. */
const char *toolbox_code_of(unsigned status);

/* Parts of it: "path"; "message" with the remedy in it, since clients show the message alone, and
 * "remedy". */
void toolbox_write_path(struct jsonw *w, const struct target *t);
void toolbox_write_message(struct jsonw *w, const struct cay_error *shown);

/* Of an answer that has not all of the output: the file in the sandbox that has it, or "". */
void toolbox_put_output_file(struct jsonw *w, const char *file);
