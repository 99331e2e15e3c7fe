/* Sessions: shells that stay, and interpreters that stay (contexts), which a driver runs. Each has
 * a keeper, a process that starts its shell, hands it commands and keeps what they print. Whoever
 * serves a connection about a session hands the connection over to its keeper, so a session needs
 * nobody but itself to live on.
 *
 * A session has two folders: its place (session/registry.h), cay-init's own, with the logs, and
 * cay-io-NAME, the user's, in memory where there is some to write to (what the shell must open by
 * name, made anew for each command). Contexts have names of their own, and folders of another
 * prefix. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "init/session/registry.h"

struct user;

#define SESSION_IO     "cay-io-"
#define CONTEXT_IO     "cay-context-"
#define SESSION_MEMORY "/dev/shm"

enum { SESSION_WOKEN_MAX = 7 };

/* What its keeper begins with. */
struct session_start {
    struct place at;
    int io_place;                 /* where cay-io-NAME is */
    const char *io_prefix;        /* SESSION_IO, or CONTEXT_IO */
    int io;                       /* cay-io-NAME */
    char io_path[PLACE_PATH_MAX]; /* the shell's way there; needs no quoting */
    const struct user *user;
    const char *shell;         /* NULL: bash, else sh */
    const char *const *driver; /* what is started instead of a shell; NULL: a shell */
    int program;               /* a driver that has been started once, tried first; 0: none */
    const char *woken[SESSION_WOKEN_MAX + 1]; /* its arguments */
    const char *label;                        /* of whoever made it, told when it is listed */
    const char *cwd;
    const char *const *env;
};

/* Keeps the session until it is deleted. Answers the connection that asked for it, once there is a
 * shell or an error. Returns what the process should exit with. */
int keeper_run(const struct session_start *start, int connection);
