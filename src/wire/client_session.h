/* The host's side of sessions: shells inside a sandbox that stay. Their commands are carried as
 * others are: a request is sent here, exec_carry() of client_exec.h does the rest. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/call.h"

struct cay_error;

enum { WIRE_SESSIONS_MAX = 4096, WIRE_SESSION_COMMANDS_MAX = 1024 };

/* Makes a session of c's user in c's folder. shell NULL: bash, or sh where there is none. */
int wire_session_create(const struct wire_call *c, const char *name, const char *shell,
                        const char *const *env, struct cay_error *err);

/* Ends a session and everything that it started, and removes its logs. */
int wire_session_delete(const struct wire_call *c, const char *name, struct cay_error *err);

/* Hears each session. A negative result ends the listing and is returned. */
typedef int wire_session_fn(void *arg, const char *name, struct cay_error *err);
int wire_session_list(const struct wire_call *c, wire_session_fn *each, void *arg,
                      struct cay_error *err);

struct wire_session_command {
    uint64_t number;
    const char *text; /* its beginning, as it was given: bytes of any kind */
    bool running;
    int exit_code; /* 0..255, if it has ended */
    enum wire_reason reason;
    bool restarted, truncated;
    uint64_t bytes;     /* of its logs */
    int64_t started_ms; /* wall clock of the sandbox */
    int64_t elapsed_us; /* if it has ended */
};

/* Hears each command that the session has kept, oldest first. */
typedef int wire_command_fn(void *arg, const struct wire_session_command *cmd,
                            struct cay_error *err);
int wire_session_status(const struct wire_call *c, const char *name, wire_command_fn *each,
                        void *arg, struct cay_error *err);

struct wire_session_exec {
    const char *text; /* what a shell reads; at most WIRE_TEXT_MAX bytes */
    bool async;       /* the answer comes at once */
    bool want_stdin;
    bool echo; /* its input appears in its logs, as typed text does on a terminal */
    int64_t timeout_ms, quiet_ms; /* 0: none */
    const char *const *env;       /* of this one only; NULL: none more than the session has */
};

/* Each sends a request that exec_carry() then sees to its end; outcome.number is the command's. */
int wire_session_exec(const struct wire_call *c, const char *name,
                      const struct wire_session_exec *exec, struct cay_error *err);
/* number 0: the last command; stream 0: both, 1: stdout, 2: stderr. */
int wire_session_logs(const struct wire_call *c, const char *name, uint64_t number, int stream,
                      uint64_t offset, bool follow, struct cay_error *err);
/* close: the command's input ends with this one. */
int wire_session_input(const struct wire_call *c, const char *name, uint64_t number, bool close,
                       struct cay_error *err);

/* A signal for the last command, if it runs. */
int wire_session_signal(const struct wire_call *c, const char *name, int number,
                        struct cay_error *err);

/* ---- contexts: interpreters that stay. All of the above, with WIRE_SESSION_CONTEXT in the call;
 * their commands are pieces of code. ---- */

struct wire_context_start {
    const char *language;      /* told when it is listed */
    const char *const *driver; /* what runs the code; NULL: a shell does */
    const char *shell;         /* then: which */
    const char *const *env;
    int program;              /* a descriptor to execute in place of the driver; 0: none */
    const char *const *woken; /* its arguments */
};

/* What came of the program. */
struct wire_context_made {
    bool is_woken; /* it runs; else the driver does */
    int exit_code; /* of one that ended before, if it did */
};

/* Makes a context of c's user in c's folder. ret may be NULL. */
int wire_context_create(const struct wire_call *c, const char *name,
                        const struct wire_context_start *start, struct wire_context_made *ret,
                        struct cay_error *err);

struct wire_context {
    const char *name, *language;
    const char *cwd; /* where it began */
    int64_t made_ms; /* wall clock of the sandbox */
    bool is_alive;   /* false: the next code starts its interpreter anew */
    bool is_busy;
};

/* Hears each context. A negative result ends the listing and is returned. */
typedef int wire_context_fn(void *arg, const struct wire_context *context, struct cay_error *err);
int wire_context_list(const struct wire_call *c, wire_context_fn *each, void *arg,
                      struct cay_error *err);
