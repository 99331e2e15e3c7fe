/* Looking at a terminal that stays in a sandbox, from the caller's own. */
#pragma once

#include "cli/session/session.h"
#include "wire/client_terminal.h"

struct attach_options {
    const char *detach_keys;
    bool read_only;
    bool only_running; /* not the past of a program that has ended */
};

/* The size of the caller's terminal; 0 by 0 if there is none. */
void attach_size(unsigned *rows, unsigned *cols);

/* Attaches with v's open connection, until the program ends, the keys are typed or a signal comes.
 * A connection that is lost is made again for a while: the daemon may be restarting. The caller's
 * terminal is as before afterwards. *ret is the exit code: the program's, 0 after the
 * keys, 128+n after a signal. */
int attach_run(struct session_verb *v, const char *sandbox, const char *name,
               const struct attach_options *o, int *ret);

/* The terminal of that name, made with a login shell if there is none that runs. */
int attach_shell(const struct verb_common *common, const char *sandbox, const char *name,
                 const struct session_program *program, const char *detach_keys);
