/* Follows a command of a session or context to its end, over restarts of the daemon: the command
 * goes on inside meanwhile, and its logs have what was missed. */
#pragma once

#include <stdint.h>

#include "client/daemon.h"
#include "wire/call.h"
#include "wire/client_exec.h"

struct cay_error;

struct follow {
    struct daemon *daemon;
    struct daemon_connection *connection; /* on which the request was sent; replaced */
    struct wire_call *call;               /* of that connection */
    const char *sandbox, *session;
    int stream;              /* of the logs: as in wire_session_logs() */
    uint64_t offset;         /* the same */
    int64_t deadline_ms;     /* the host's own limit of the command; 0: none */
    void (*waits)(void);     /* called when the daemon is away; may be NULL */
    void (*input_cut)(void); /* called when input that has not ended is ended; may be NULL */
};

/* exec_carry() on f's call. If the connection is lost after the command has started, connects
 * again, without starting a daemon, and goes on behind the output that was passed on before. Its
 * input ends then. Fails as exec_carry() does; with the loss if the command cannot be found again.
 */
int follow_command(const struct follow *f, struct exec_streams *s, struct exec_outcome *ret,
                   struct cay_error *err);
