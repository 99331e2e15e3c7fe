/* A command over a connection to cay-init, whoever made the sandbox. */
#pragma once

#include <cay.h>

struct buf;

/* What a command gets unless its caller says otherwise. */
struct command_defaults {
    const char *user; /* NULL: root */
    const char *hostname;
    const char *work_dir;
    const char *const *env; /* over our own, under the caller's; NULL: none */
    int door;               /* over which cay-init sends the proxy's listener; 0: none */
    int client;             /* a socket: who hangs up there gives the command up; 0: nobody */
    /* As exec_streams.more (wire/client_exec.h). */
    void (*more)(void *arg, int stream, const struct buf *captured, const char *data, size_t len);
    void *more_arg;
};

/* The environment of a command: nothing of the caller's own; ours, then the sandbox's, then what
 * was asked for. hostname holds one entry of it. The caller frees the array only; NULL with err
 * filled on failure. */
const char **command_env(const struct command_defaults *d, const struct cay_exec *exec,
                         char *hostname, size_t size, struct cay_error *err);

/* What `cay shell` runs by "sh -c": the best shell that there is. */
#define COMMAND_SHELL "command -v bash >/dev/null 2>&1 && exec bash -l; exec sh -l"

/* Runs a command to its end, as cay_sandbox_exec promises; tier, out of memory and the phases
 * before the command are the caller's to fill. *fd is closed when the command has ended, and stays
 * open if nothing was sent. */
int command_exec(int *fd, const struct cay_exec *exec, const struct command_defaults *defaults,
                 struct cay_result *ret, struct cay_error *err);

/* What a command can have beside its streams; wire/client_exec.h says more of each. */
struct command_extras {
    const void *first; /* input before that of the caller */
    size_t first_len;
    int program; /* a descriptor to execute; 0: argv[0] */
    bool waits;  /* it was sent by command_send, and waits for its input */
    struct buf *report;
    bool holds_input; /* the caller's, until there is a report */
    void (*changed)(void *arg, const char *path, uint64_t size, bool created);
    void *changed_arg;
    bool *ret_all_changes;
};

/* Sends a command without limits, which will wait for the input that command_exec_with brings it.
 * Of extras it is said again there. */
int command_send(int fd, const struct cay_exec *exec, const struct command_defaults *defaults,
                 const struct command_extras *extras, struct cay_error *err);

/* As command_exec, with all of them. */
int command_exec_with(int *fd, const struct cay_exec *exec, const struct command_defaults *defaults,
                      const struct command_extras *extras, struct cay_result *ret,
                      struct cay_error *err);
