/* A Python program in a sandbox that stays, by an interpreter that the daemon has woken there or by
 * a new one. */
#pragma once

#include "client/daemon.h"

struct cay_exec;
struct cay_python;
struct cay_python_result;

struct client_python {
    const struct daemon *daemon; /* borrowed, as are the other texts */
    const char *who;
    const char *not_warm; /* why no interpreter is to be woken there; NULL: one is */
    struct daemon_connection connection;
    char why_cold[200]; /* if it is a new one */
};

/* Connects, and has an interpreter woken; daemon_disconnect(&p->connection) in any case. */
int client_python_connect(struct client_python *p, struct cay_error *err);

/* Runs a program over that connection, once; warm and waits of it are not used. As python_exec, and
 * knows if it ran out of memory. */
int client_python_run(struct client_python *p, const struct cay_python *program,
                      const struct cay_exec *exec, struct cay_python_result *ret,
                      struct cay_error *err);

/* What commands over a connection have by default. */
struct command_defaults client_defaults(const struct daemon_connection *c);
