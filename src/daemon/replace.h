/* Another program in the place of a running supervisor: the same process, with its listening
 * sockets and its lock, so that nobody is refused meanwhile. A package that was upgraded is taken
 * into use so. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/helpers/places.h"
#include "daemon/retired.h"

struct cay_error;

/* What goes from one program to the next. */
struct replace_kept {
    int lock;
    struct places_sockets sockets;
    unsigned fronts, launchers; /* started so far */
    pid_t retired[RETIRED_MAX];
};

/* Keeps the arguments and the work folder, for the next program. */
void replace_remember(char **argv);

/* True if a program before us has left descriptors to this one. */
bool replace_is_begun(void);

/* What the program before has left to this one; false if there was none. */
bool replace_inherit(struct replace_kept *ret);

/* Whether the program that is installed starts with our arguments; its errors go to the log. */
int replace_check(struct cay_error *err);

/* Becomes that program; returns only if it cannot. Signals are blocked until replace_admit_signals,
 * so that none is lost in between, nor ends a program that does not handle it yet. */
int replace_exec(const struct replace_kept *kept, struct cay_error *err);
void replace_admit_signals(void);

/* Asks the daemon of this state folder to replace itself, and waits until it serves. 1 if there is
 * no daemon. */
int replace_ask(const char *state_dir, struct cay_error *err);
