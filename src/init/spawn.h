/* Starting a command: its streams, its identity, and the exact reason when it cannot start. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct cay_error;
struct user;

struct spawn_request {
    const char *const *argv; /* NULL-terminated, at least one */
    int program;             /* what to execute, stays open as descriptor 4; 0: argv[0] */
    const char *const *env;
    const char *cwd; /* absolute; made if missing */
    const struct user *user;
    bool tty;
    bool want_stdin;
    bool want_report; /* a pipe on descriptor 3 */
    bool merge;       /* errors go where output goes */
    unsigned short rows, cols;
};

/* The host's ends of the command's streams, -1 where there is none. With a terminal, in and out
 * are the two uses of its master side. */
struct spawned {
    pid_t pid; /* also its session and process group */
    int in;
    int out;
    int err;
    int report;
};

/* Starts the command. On failure nothing is left running; *ret_exit is what a shell would return:
 * 127 not found, 126 not executable, 125 anything else. */
int spawn_command(const struct spawn_request *req, struct spawned *ret, int *ret_exit,
                  struct cay_error *err);

/* fork(), which waits for room. Processes that have just been killed count until they are gone, and
 * that is soon. It reaps then: no child of the caller may be one that he waits for, here and in
 * spawn_command(). */
pid_t spawn_fork(void);

/* The error of a process that could not be forked. */
int spawn_fail(int sys, struct cay_error *err);

void spawned_close(struct spawned *s);
