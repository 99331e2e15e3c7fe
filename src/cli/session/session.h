/* What the verbs of `cay session` share. */
#pragma once

#include <limits.h>

#include "base/json/jsonw.h"
#include "client/daemon.h"
#include "client/follow.h"
#include "cmd/verb.h"
#include "wire/client_exec.h"
#include "wire/client_session.h"

/* A verb at work on the sessions of one sandbox; release it with session_close. */
struct session_verb {
    const struct verb_common *common;
    struct daemon daemon;
    struct daemon_connection connection;
    struct wire_call call;
    struct cay_error err;
};

#define SESSION_VERB_INIT(c)                                                                       \
    ((struct session_verb){.common = (c), .connection = DAEMON_CONNECTION_INIT})

/* A connection to the init of the sandbox, for one operation. */
int session_open(struct session_verb *v, const char *sandbox);
void session_close(struct session_verb *v);

/* How v's command in a session or context of the sandbox is followed, once it was asked for. */
struct follow session_follow(struct session_verb *v, const char *sandbox, const char *session);

/* Tells the failure, as JSON if that was asked for; code 0: that of its class. */
int session_fail(const struct session_verb *v, int code);

/* Prints the name of what was made or removed, as JSON if that was asked for. */
int session_report_name(const struct session_verb *v, const char *name);

/* Something that is done to what has this name in v's sandbox; 0 or a failure in v->err. */
typedef int session_deed(struct session_verb *v, const char *name);

/* argv is SANDBOX NAME...: does it to each name, and tells the names unless that is to be quiet.
 * What fails does not keep the others from their turn; the exit code is that of the first. */
int session_each(const struct verb_common *common, int argc, char **argv, session_deed *deed);

/* What is to be started inside, as far as the user said; NULL elsewhere. */
struct session_program {
    const char *user, *workdir;
    const char *const *env;
    bool tty;
};

/* What goes with the request, until session_begun(). */
struct session_beginning {
    const char **env;
    char cwd[PATH_MAX], hostname[128];
};

/* Completes v's call and the environment by what the sandbox has by default. */
int session_begin(struct session_verb *v, const struct session_program *p,
                  struct session_beginning *ret);
/* After the request: frees what went with it, also after a failure. */
void session_begun(struct session_verb *v, struct session_beginning *b);

/* After v made what has this name: whether it is where the user said, if he did. It goes elsewhere
 * when that cannot be entered, as it must later on; then it is removed again, and v->err says so.
 */
int session_check_folder(struct session_verb *v, const char *sandbox, const char *name,
                         const char *workdir);

/* Whether a command that began then (clock_us()) ended for want of memory. */
bool session_ran_out_of_memory(const struct session_verb *v, const char *sandbox, int64_t began_us,
                               const struct exec_outcome *o);
/* The members stdout_file and stderr_file: null, or where inside all of an output is. */
void session_put_files(struct jsonw *w, const struct exec_outcome *o);

/* Verbs that carry the streams of a command. */
extern const struct opt_command session_exec, session_logs, session_input;
