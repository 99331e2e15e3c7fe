/* Sessions: shells that stay. Each has a keeper, a process that starts its shell, hands it commands
 * and keeps what they print. Whoever serves a connection about a session hands the connection over
 * to its keeper, so a session needs nobody but itself to live on.
 *
 * A session has two folders: s-NAME, cay-init's own, in the first of SESSION_PLACES that can be
 * made (the socket of the keeper, the logs), and cay-io-NAME, the user's, in memory where there is
 * some to write to (what the shell must open by name, made anew for each command). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "init/op.h"

struct user;

enum { SESSION_NAME_MAX = 64, SESSION_PATH_MAX = 128 };

#define SESSION_PLACES                                                                             \
    { "/run/cay-session", "/tmp/.cay-session" }
#define SESSION_SOCKET "socket"
#define SESSION_IO     "cay-io-"
#define SESSION_MEMORY "/dev/shm"

/* What its keeper begins with. */
struct session_start {
    char name[SESSION_NAME_MAX + 1];
    int place;                      /* the folder of all sessions */
    int io_place;                   /* where cay-io-NAME is */
    int folder;                     /* s-NAME */
    int io;                         /* cay-io-NAME */
    char io_path[SESSION_PATH_MAX]; /* the shell's way there; needs no quoting */
    int listener;                   /* connections about the session are handed over here */
    const struct user *user;
    const char *shell; /* NULL: bash, else sh */
    const char *cwd;
    const char *const *env;
};

/* Takes on the user's rights over files, or cay-init's own again (NULL), for what is made next. */
void session_act_as(const struct user *u);

/* Keeps the session until it is deleted. Answers the connection that asked for it, once there is a
 * shell or an error. Returns what the process should exit with. */
int keeper_run(const struct session_start *start, int connection);
