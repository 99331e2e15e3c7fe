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
    int came[WIRE_FDS_MAX]; /* descriptors that came with the request; -1: none */
    int tell;               /* a pipe to PID 1: struct init_news; -1: there is none */
    unsigned proxy_port;    /* of the way out, on loopback; 0: there is none */
};

/* What PID 1 is told, in one write. */
struct init_news {
    bool ends;           /* the sandbox shall */
    unsigned proxy_port; /* for those who start commands from now on */
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
    op_terminal_list, op_terminal_ask, op_activity, op_listen;

/* Makes a socket that listens on this port of loopback, sends it over the last descriptor that
 * came, and has c->proxy_port set. */
int listen_for_proxy(struct op_conn *c, uint64_t port, struct cay_error *err);

/* What PID 1 of each sandbox writes to, relocations and its stack (stack.c) included, is on one
 * page: common symbols lie behind everything else that begins as zero, but for cold.ld's. */
#define OP_ROOM __attribute__((common))

/* For one piece of content; an operation has use for one at a time. */
extern char op_data[WIRE_DATA_MAX];

/* Strings of a request. Few of them need no memory of their own: the first use of malloc costs a
 * process as much as everything else that it does for a command. Must not be moved. */
struct op_strings {
    const char **v; /* NULL-terminated */
    const char *few[48];
};
void op_strings_free(struct op_strings *s);

/* 0 or -ENOMEM. */
int op_arguments(const struct wire_message *m, struct op_strings *ret);
/* The request's environment, with HOME from the user's entry and the variables that name a proxy,
 * if there is one, where the host did not set them. 0 or -ENOMEM. */
int op_environment(const struct op_conn *c, const struct wire_message *m, struct op_strings *ret);
