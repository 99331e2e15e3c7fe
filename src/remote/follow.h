/* A command of a Daytona's session: started, and its output carried to cay until it has ended. */
#pragma once

#include "remote/feed.h"

struct cay_error;

enum { FOLLOW_ID_SIZE = 128 };

struct follow {
    struct op *op;
    const char *session;
    char command[FOLLOW_ID_SIZE]; /* its id there */
    struct feed *feed;            /* NULL: it gets no input */
    const char *pid_file;         /* of the process that gets signals; NULL: none does */
    int64_t timeout_ms, quiet_ms; /* 0: none */
    uint64_t output_max;          /* 0: none */
    int only;                     /* 1: standard output, 2: standard error, 0: both */
    uint64_t skip[2];             /* bytes of each to leave out */

    /* how it ended */
    enum wire_reason reason;
    int exit_code;
    bool running; /* it goes on, and was left */
    bool hung_up; /* cay has gone */
    uint64_t sent;
    int64_t began_us;
};

/* Gives the session a command, which does not wait for its end. */
int follow_start(struct follow *f, const char *text, struct cay_error *err);

/* Carries until the command ends, a limit strikes, a signal cannot be passed on, or cay goes. */
int follow_run(struct follow *f, struct cay_error *err);

/* Asks whether it has ended: 1 with exit_code, 0 if it runs. */
int follow_ask(struct follow *f, struct cay_error *err);

/* The last answer: how it ended. */
int follow_report(struct follow *f, struct cay_error *err);

/* Appends the path of a session in the toolbox. */
void follow_put_path(struct buf *path, const char *session, const char *after);
