/* What the verbs of `cay session` share. */
#pragma once

#include "client/daemon.h"
#include "verb/verb.h"
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

/* Tells the failure, as JSON if that was asked for; code 0: that of its class. */
int session_fail(const struct session_verb *v, int code);

/* Verbs that carry the streams of a command. */
extern const struct opt_command session_exec, session_logs, session_input;
