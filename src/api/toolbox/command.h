/* What the parts of the toolbox share that run programs: commands, names of what stays inside, and
 * WebSockets. */
#pragma once

#include "api/call.h"
#include "api/toolbox/id.h"
#include "api/toolbox/toolbox.h"
#include "wire/client_exec.h"

struct json;

extern const struct route_table toolbox_info_routes, toolbox_process_routes, toolbox_session_routes,
    toolbox_pty_routes, toolbox_lsp_routes, toolbox_interpreter_routes;

/* ---- requests ---- */

/* The answer is a WebSocket: the connection and the operation live as long as it. */
void toolbox_hand_over(struct toolbox *t, struct call *c);

/* An absolute path, from one that may begin in the sandbox's work folder (NULL: that). */
int toolbox_path(const struct toolbox *t, const char *what, const char *path, char *out,
                 size_t size, struct cay_error *err);

/* The member `key`, an object of strings, as "K=V"; names that no shell knows are refused. */
int toolbox_read_env(const struct json *at, const char *key, struct strv *ret,
                     struct cay_error *err);

/* The member `key`, an array of strings, if there is one. */
int toolbox_read_argv(const struct json *at, const char *key, struct strv *ret,
                      struct cay_error *err);

/* Whether the client says its SDK's version, and whether that is older (as daytona_version()). */
bool toolbox_has_sdk(const struct call *c);
bool toolbox_sdk_is_before(const struct call *c, int version);

/* ---- WebSockets ---- */

/* Refuses what is none; answers one of the subprotocols that the client offers. */
int toolbox_accept(struct call *c, struct cay_error *err);
/* toolbox_find_offer() in what the client offers. */
bool toolbox_offered(const struct call *c, const char *prefix, char *rest, size_t size);

/* ---- commands ---- */

enum { TOOLBOX_HOSTNAME_SIZE = NAME_MAX_LEN + 16 };
/* The sandbox's environment with more ("K=V", or NULL) over it; as command_env(). */
const char **toolbox_env(const struct toolbox *t, const char *const *more, bool tty,
                         char hostname[static TOOLBOX_HOSTNAME_SIZE], struct cay_error *err);

enum { TOOLBOX_OUTPUT_MAX = 10 * 1024 * 1024 };

/* What a command printed. */
struct toolbox_output {
    struct buf all;     /* both streams, as they came */
    struct buf part[2]; /* each by itself, if that is wanted */
    bool wants_parts;
    bool wants_marks;   /* in `all`, before each piece: which stream it is of */
    bool is_cut;        /* there was more; outcome.file says where that is */
    struct buf *report; /* takes what the command reports; NULL: nobody asked */
    /* Hears of each file that the command changed, of as many as the inside likes; NULL: nobody
     * asked. */
    void (*changed)(void *arg, const char *path, uint64_t size, bool created);
    void *changed_arg;
};
#define TOOLBOX_OUTPUT_INIT                                                                        \
    ((struct toolbox_output){                                                                      \
        .all = BUF_INIT(TOOLBOX_OUTPUT_MAX),                                                       \
        .part = {BUF_INIT(TOOLBOX_OUTPUT_MAX), BUF_INIT(TOOLBOX_OUTPUT_MAX)}})
void toolbox_output_free(struct toolbox_output *o);

enum { TOOLBOX_MARK_SIZE = 3 };
/* Three bytes that say which stream follows. */
const char *toolbox_mark(bool is_stderr);

/* Sees a command, whose request was sent over t, to its end: feeds it input (or NULL), keeps what
 * it prints. It is given up when the client hangs up, or at the deadline (0: none), which is a
 * timeout in the outcome. */
int toolbox_carry(const struct call *c, const struct toolbox *t, const struct buf *input,
                  int64_t deadline_ms, struct toolbox_output *out, struct exec_outcome *ret,
                  struct cay_error *err);
/* Counts how a command ended, and records an event if a limit ended it; r is what toolbox_carry()
 * returned. */
void toolbox_count(const struct call *c, int r, const struct exec_outcome *o);

struct toolbox_command {
    const char *const *argv;
    const char *const *env; /* over the sandbox's; NULL: none */
    const char *cwd;        /* as toolbox_path() takes it */
    const struct buf *input;
    bool keeps_input;   /* the caller feeds it by himself */
    int64_t timeout_ms; /* 0: none */
    int program;        /* a descriptor to execute; 0: argv[0] */
    bool report;        /* it reports on descriptor 3, for toolbox_output.report */
    bool merge;         /* standard error is standard output */
    bool spills;        /* all of an output that is too long to be told is left in a file inside */
    bool watch; /* the files that it changes below cwd are told, to toolbox_output.changed */
};

/* Sends the request to run a command. */
int toolbox_send(const struct toolbox *t, const struct toolbox_command *command,
                 struct cay_error *err);

/* Whether a command that began then (clock_ms()) was killed for want of memory. Kills are counted
 * for the sandbox as a whole: one since then is taken for its own if it ended like one that was
 * killed. */
bool toolbox_ran_out_of_memory(const struct call *c, int exit_code, int64_t began_ms);

/* Runs a command over a connection of its own. */
int toolbox_run(struct call *c, const struct toolbox_command *command, struct toolbox_output *out,
                struct exec_outcome *ret, struct cay_error *err);
