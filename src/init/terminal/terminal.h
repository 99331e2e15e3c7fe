/* Terminals that stay: a program on a pseudo-terminal, with a keeper that reads all that it prints
 * and shows it to whoever attaches, from the kept past on. The program never waits for a viewer,
 * and needs none. Its end is kept too, until the terminal is deleted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "init/session/registry.h"
#include "init/spawn.h"
#include "init/terminal/scrollback.h"

enum {
    TERMINAL_VIEWERS = 16,
    TERMINAL_CONNECTIONS = 2 * TERMINAL_VIEWERS, /* with those that ask something else */
    TERMINAL_SIZE_MAX = 1000,                    /* rows and columns */
    TERMINAL_KILL_MS = 3000,
};

/* What its keeper begins with. */
struct terminal_start {
    struct place at;
    struct spawn_request program;
    bool is_shell; /* the user's, who may leave it idle */
    bool is_lazy;  /* it starts with the first viewer */
};

struct viewer {
    int fd;
    int slot; /* in the poll set */
    enum wire_op op;
    struct wire_reader reader;
    struct buf out; /* frames, not yet sent */
    bool attached;
    bool writes;         /* may type, and has a say about the size */
    uint64_t position;   /* in the stream: shown so far */
    struct buf input;    /* typed, not yet taken by the program */
    uint64_t credit;     /* taken, not yet reported */
    unsigned rows, cols; /* 0: whatever there is */
    uint64_t used;       /* the order of the last use */
    bool answered;       /* the last frame is in out */
    bool gone;
};

struct terminal {
    const struct terminal_start *start;
    int signals;            /* SIGCHLD */
    struct spawned program; /* in and out are the master side; -1 when it has ended */
    struct scrollback past;
    bool waits; /* for its first viewer */
    bool running;
    int exit_code, signal;
    unsigned rows, cols;
    int64_t wall_ms;   /* of the start */
    int64_t active_ms; /* the last sign of life */
    uint64_t uses;
    struct viewer *viewers[TERMINAL_CONNECTIONS];
    size_t viewer_count;
    char *data; /* WIRE_DATA_MAX bytes for whoever reads */
    bool deleted;
};

/* Keeps the terminal until it is deleted. Answers the connection that asked for it. Returns what
 * the process should exit with. */
int terminal_run(const struct terminal_start *start, int connection);

/* Starts the program of one that waits, in the size that it has by now. */
int terminal_start_program(struct terminal *t, struct cay_error *err);
/* Sets the size, and so tells the program. */
void terminal_set_size(struct terminal *t, unsigned rows, unsigned cols);
/* That of the viewer who used it last. */
void terminal_follow_size(struct terminal *t);
/* The process group in the foreground; 0: none. */
pid_t terminal_foreground(const struct terminal *t);
/* Whether something goes on there that nobody may be looking at. */
bool terminal_is_busy(const struct terminal *t);

/* ---- connections (terminal/viewer.c) ---- */

/* Takes a connection that is handed over. */
void viewer_accept(struct terminal *t);
void viewer_read(struct terminal *t, struct viewer *v);
/* Puts what there is to say into its buffer. */
void viewer_fill(struct terminal *t, struct viewer *v);
void viewer_send(struct viewer *v);
/* The program took so many bytes of what was typed there. */
void viewer_take_input(struct viewer *v, size_t taken);
void viewer_free(struct viewer *v);
