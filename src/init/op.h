/* What an operation of cay-init looks like. Each connection is served by a process of its own,
 * forked from PID 1; when run() is called that process has read and parsed the request and, unless
 * the operation asked to stay as it is, has become the request's user without any capability. It
 * may use memory and exit as it likes: nothing is shared. */
#pragma once

#include <stdbool.h>

#include "wire/wire.h"

struct cay_error;
struct user;

struct op_conn {
    int fd;                     /* the connection: blocking, send answers here */
    struct wire_reader *reader; /* further frames of the host come through this */
    /* Identity that commands get, already looked up; the process has it unless stay_init. */
    unsigned uid;
    unsigned gid;
    const char *home;
    const struct user *user;
    int program; /* a descriptor that came with the request; -1: none */
    int stop;    /* writing a byte here ends PID 1, and with it the sandbox */
};

/* Runs the operation and sends all answer frames, WIRE_DONE included. On failure fills err and
 * returns negative: the caller sends it as WIRE_ERROR. */
typedef int op_run_fn(struct op_conn *c, const struct wire_message *request, struct cay_error *err);

struct op {
    enum wire_op number;
    const char *name;
    op_run_fn *run;
    bool stay_init; /* needs cay-init's own identity (exec changes it in the child) */
};

/* The operation with this number, or NULL. */
const struct op *op_find(uint64_t number);

op_run_fn op_ping, op_exec, op_stat, op_list, op_read, op_write, op_mkdir, op_move, op_remove,
    op_chmod, op_chown, op_find_names, op_search, op_replace, op_tar_in, op_tar_out, op_dial,
    op_shutdown, op_session_create, op_session_list, op_session_ask, op_terminal_create,
    op_terminal_list, op_terminal_ask, op_activity;

/* The request's environment, with HOME from the user's entry where the host did not set it.
 * NULL-terminated; the caller frees the array only. NULL on OOM. */
const char **op_environment(const struct op_conn *c, const struct wire_message *m);
