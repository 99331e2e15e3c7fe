/* The host's side of WIRE_OP_EXEC: the request, and carrying the streams until the command ends.
 * Whatever comes from the sandbox is hostile: frames out of order, floods and silence are bounded
 * here, not there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "wire/wire.h"

struct cay_error;

struct exec_request {
    const char *const *argv;
    const char *const *env;
    const char *cwd;
    const char *user;
    bool tty;
    bool want_stdin;
    unsigned short rows, cols;
    int64_t timeout_ms, quiet_ms;
    uint64_t output_max;
    int program; /* a descriptor to execute; 0 or less: argv[0] is looked up inside */
    int door;    /* the socket over which the proxy gets its listener first; 0 or less: none */
    unsigned proxy_port;
    bool report; /* give it a descriptor 3, for exec_streams.report */
    bool merge;  /* its standard error is its standard output */
    bool watch;  /* tell what files below cwd it made or changed */
    /* Bytes of output to tell; all of more than that is in a file inside. 0: all is told. */
    uint64_t reported_max;
};

struct exec_streams {
    int in;            /* -1: none */
    const void *first; /* first_len bytes of input that come before */
    size_t first_len;
    const struct buf *opening; /* frames that go out in front of it; NULL: none */
    int out[2];                /* stdout and stderr; -1: captured */
    struct buf captured[2];
    /* Of out: bytes at the beginning that are not written, since they were before; and how many
     * were written. */
    uint64_t known[2], written[2];
    int signals;        /* signalfd; -1: none */
    int client;         /* a socket: who hangs up there gives the command up; 0 or less: nobody */
    struct buf *report; /* takes what it reports, up to its maximum; NULL: nobody asked */
    bool holds_input;   /* `in` is left alone until it has reported something */
    /* Hears of each file that was made or changed, with its path below cwd; NULL: nobody watches.
     * At most EXEC_CHANGES_MAX. */
    void (*changed)(void *arg, const char *path, uint64_t size, bool created);
    void *changed_arg;
    /* Hears output beyond what is captured of a stream; NULL: it is dropped. */
    void (*more)(void *arg, int stream, const struct buf *captured, const char *data, size_t len);
    void *more_arg;
};

enum { EXEC_CHANGES_MAX = 1000, EXEC_FILE_SIZE = 64 };

struct exec_outcome {
    bool started;
    bool lost; /* the connection ended before the command did */
    int exit_code;
    int signal;
    enum wire_reason reason;
    bool truncated;
    unsigned left;      /* processes that the inside could not end */
    int64_t elapsed_us; /* how long it ran, as the inside says */
    uint64_t number;    /* of a session's command */
    bool restarted;     /* the session needed a new shell for it */
    bool fatal;         /* and its shell ended with it */
    bool running;       /* it has not ended: only what there is of it was carried */
    bool all_changes;   /* all files that it changed were told */
    /* Where inside all of its output is, each stream by itself for a session's command; "": there
     * is no file. */
    char file[2][EXEC_FILE_SIZE];
    uint64_t printed, in_file; /* with reported_max: bytes altogether, and in the file */
};

/* What the end of a command (WIRE_DONE) says, with what is out of range brought into it. */
void exec_read_end(const struct wire_message *m, struct exec_outcome *ret);

/* Sends the request. The answer is read by exec_carry. */
int exec_send(int fd, const struct exec_request *req, struct cay_error *err);

/* Appends the frame that gives a command which was sent before its limits; they count from then. */
void exec_put_limits(const struct exec_request *req, struct buf *ret);

/* Carries the streams until the command has ended. deadline_ms (0: none) is the host's own limit,
 * later than the inside's: when it passes, the inside lies or hangs, and the outcome is a timeout.
 * Fails when the command could not be started (outcome->exit_code says how) or when the sandbox
 * broke off. */
int exec_carry(int fd, struct exec_streams *s, int64_t deadline_ms, struct exec_outcome *ret,
               struct cay_error *err);
