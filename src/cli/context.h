/* What the verbs of `cay context` share. */
#pragma once

#include "base/buf.h"
#include "cli/session.h"
#include "wire/client_exec.h"

/* A connection to the init of the sandbox, for one operation on a context. */
int context_open(struct session_verb *v, const char *sandbox);

/* What is to be made, as far as the user said; NULL elsewhere. */
struct context_wish {
    const char *language, *user, *workdir;
    const char *const *env;
};

/* Makes a context over v, which is used up by it. */
int context_make(struct session_verb *v, const char *name, const struct context_wish *wish);

/* How a run ended, and what it reported. */
struct context_told {
    const struct exec_outcome *outcome;
    const struct exec_streams *streams;
    const struct buf *report;
    const char *figures; /* a folder for them; NULL: none */
    bool oom_killed;
};

/* Tells what streams do not: exceptions, notices; saves figures. 0 or negative. */
int context_tell(const struct session_verb *v, const struct context_told *t, struct cay_error *err);

/* Prints the whole as JSON and returns the exit code. failed: v's error is the end of it. */
int context_tell_json(const struct session_verb *v, const struct context_told *t, bool failed);

extern const struct opt_command context_run;
