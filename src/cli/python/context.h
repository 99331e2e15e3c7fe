/* What the verbs of `cay context` share. */
#pragma once

#include "base/buf.h"
#include "cli/session/session.h"
#include "wire/client_exec.h"

/* A connection to the init of the sandbox, for one operation on a context. */
int context_open(struct session_verb *v, const char *sandbox);

/* What is to be made, as far as the user said; NULL elsewhere. */
struct context_wish {
    const char *language, *user, *workdir;
    const char *const *env;
};

/* How the interpreter of a context that was made began. */
struct context_beginning {
    bool is_python; /* there is something to tell */
    bool is_warm;
    char why_cold[200];
};

/* Makes a context: by the daemon, who may have an interpreter that has been started once, or over
 * v, which is used up by it. */
int context_make(struct session_verb *v, const char *sandbox, const char *name,
                 const struct context_wish *wish, struct context_beginning *ret);

/* The member "interpreter": null, or how it began. */
void context_put_beginning(struct jsonw *w, const struct context_beginning *b);

/* How a run ended, and what it reported. */
struct context_reported {
    const struct exec_outcome *outcome;
    const struct exec_streams *streams;
    const struct buf *report;
    const char *figures;                       /* a folder for them; NULL: none */
    const struct context_beginning *beginning; /* if the context was made for it */
    bool oom_killed;
};

/* Tells what streams do not: exceptions, notices; saves figures. 0 or negative. */
int context_report(const struct session_verb *v, const struct context_reported *t,
                   struct cay_error *err);

/* Prints the whole as JSON and returns the exit code. failed: v's error is the end of it. */
int context_report_json(const struct session_verb *v, const struct context_reported *t,
                        bool failed);

extern const struct opt_command context_run;
