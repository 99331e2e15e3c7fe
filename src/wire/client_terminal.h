/* The host's side of terminals that stay in a sandbox. After wire_terminal_attach() the connection
 * carries events one way and typing the other, for as long as the viewer wants: closing it is
 * detaching. The other end is hostile: events are bounded, and whatever does not fit is an error.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/call.h"

struct cay_error;

enum {
    WIRE_TERMINALS_MAX = 256,      /* that are heard of; a sandbox has 32 */
    WIRE_TERMINAL_SIZE_MAX = 1000, /* rows and columns */
};

struct wire_terminal_create {
    const char *const *argv; /* NULL: a login shell */
    const char *const *env;
    unsigned rows, cols; /* 0: 24 by 80 */
    bool lazy;           /* the program starts with the first viewer */
};

/* Makes a terminal of c's user in c's folder, and starts its program. */
int wire_terminal_create(const struct wire_call *c, const char *name,
                         const struct wire_terminal_create *create, struct cay_error *err);

struct wire_terminal {
    const char *name;
    const char *text; /* its command, of any bytes; "" for a login shell */
    const char *cwd;  /* where that began, of any bytes */
    bool running;
    bool lazy;     /* made so */
    bool waits;    /* for its first viewer: neither running nor ended */
    bool busy;     /* a program is in the foreground */
    int exit_code; /* 0..255, if it has ended */
    int signal;
    unsigned rows, cols, viewers;
    uint64_t bytes;     /* that are kept of its output */
    int64_t started_ms; /* wall clock of the sandbox */
};

/* Hears each terminal. A negative result ends the listing and is returned. */
typedef int wire_terminal_fn(void *arg, const struct wire_terminal *t, struct cay_error *err);
int wire_terminal_list(const struct wire_call *c, wire_terminal_fn *each, void *arg,
                       struct cay_error *err);

/* A new size, until a viewer who has another uses it. */
int wire_terminal_resize(const struct wire_call *c, const char *name, unsigned rows, unsigned cols,
                         struct cay_error *err);
/* A signal for everything that was started there. The terminal stays, with its output. */
int wire_terminal_kill(const struct wire_call *c, const char *name, int signal,
                       struct cay_error *err);
/* Ends everything that was started there, and removes it. */
int wire_terminal_delete(const struct wire_call *c, const char *name, struct cay_error *err);

/* ---- looking ---- */

struct wire_terminal_attach {
    unsigned rows, cols; /* of the viewer; 0: whatever there is */
    bool read_only;      /* types nothing, and has no say about the size */
    bool only_running;   /* a conflict if the program has ended */
};

/* Attaches; up to c's deadline. Nothing behind the answer has been read when it returns. */
int wire_terminal_attach(const struct wire_call *c, const char *name,
                         const struct wire_terminal_attach *attach, struct cay_error *err);

enum wire_terminal_kind {
    WIRE_TERMINAL_OUTPUT,  /* data, len */
    WIRE_TERMINAL_SKIPPED, /* bytes that came too fast for this viewer are left out here */
    WIRE_TERMINAL_CREDITS, /* so many bytes more may be typed */
    WIRE_TERMINAL_ENDED,   /* exit_code, signal; the last event */
};

struct wire_terminal_event {
    enum wire_terminal_kind kind;
    const char *data; /* until the next call on the reader */
    size_t len;
    uint64_t count; /* of bytes */
    int exit_code, signal;
};

/* Takes an event out of what wire_reader_fill() has read: 1, 0 if more is needed, negative. */
int wire_terminal_next(struct wire_reader *r, struct wire_terminal_event *ret,
                       struct cay_error *err);

/* Typing: no more than WIRE_TERMINAL_CREDIT bytes under way, so that nothing blocks; events give
 * them back. The window needs none. 0 or -errno. */
int wire_terminal_type(int fd, const void *data, size_t len);
int wire_terminal_window(int fd, unsigned rows, unsigned cols);

/* ---- activity ---- */

struct wire_activity {
    uint64_t commands; /* of sessions that run */
    uint64_t viewers;  /* of terminals */
    uint64_t busy;     /* terminals with a program in the foreground */
    int64_t quiet_ms;  /* since the last of that; -1: there was none */
};

/* What goes on in the sandbox's sessions and terminals, as it says. */
int wire_activity(const struct wire_call *c, struct wire_activity *ret, struct cay_error *err);
