/* The operations of cay-init (docs/protocol.md), done by the toolbox of a Daytona. Each gets the
 * request that came and answers on the connection, but for a failure that it returns. */
#pragma once

#include "remote/toolbox.h"
#include "wire/wire.h"

struct cay_error;

struct op {
    struct toolbox toolbox;
    int fd; /* to cay */
    struct wire_reader reader;
    struct wire_message message; /* the request */
};

typedef int op_fn(struct op *o, struct cay_error *err);

op_fn op_stat, op_read, op_write, op_tar_in, op_tar_out;
op_fn op_exec;
op_fn op_session_create, op_session_list, op_session_delete, op_session_exec, op_session_status,
    op_session_logs, op_session_input;
op_fn op_terminal_create, op_terminal_list, op_terminal_attach, op_terminal_resize,
    op_terminal_kill, op_terminal_delete;
/* EXEC with a terminal. */
op_fn op_exec_tty;

/* A field of the request; "" and 0 where it is absent. */
const char *op_text(const struct op *o, enum wire_tag tag);
uint64_t op_number(const struct op *o, enum wire_tag tag);

/* The last answer, without fields. */
int op_done(struct op *o, struct cay_error *err);
/* Sends a frame with fields. */
int op_send(struct op *o, enum wire_type type, const struct buf *fields, struct cay_error *err);

/* The next frame from cay: 1, 0 at its end, negative. */
int op_next(struct op *o, struct wire_frame *f, struct cay_error *err);
/* Whether one can be had without waiting. */
bool op_has_frame(struct op *o);

/* Whether an entry "K=V" of a request's environment was asked for, and is no default of cay's. */
bool op_is_own_env(const struct op *o, const char *entry);

/* A name that nobody else has: "cay-…". */
int op_make_name(char out[static 32], struct cay_error *err);
