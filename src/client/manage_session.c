/* cay_manager: sessions. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "client/follow.h"
#include "client/manage.h"
#include "lib/command.h"
#include "wire/client_exec.h"
#include "wire/client_session.h"

enum {
    ANSWER_MS = 30 * 1000,
    GRACE_MS = 30 * 1000, /* beyond the limit that is kept inside: as that of cay session exec */
    CAPTURED_MAX = 16 * 1024 * 1024
};

/* A connection for one operation. */
struct visit {
    struct daemon_connection connection;
    struct wire_call call;
};

#define VISIT_INIT ((struct visit){.connection = DAEMON_CONNECTION_INIT})

static int visit(const cay_manager *m, const char *who, struct visit *v, struct cay_error *err) {
    int r = daemon_connect(&m->daemon, who, &v->connection, err);
    v->call = (struct wire_call){.fd = v->connection.fd,
                                 .user = v->connection.user,
                                 .cwd = v->connection.work_dir,
                                 .deadline_ms = clock_ms() + ANSWER_MS};
    return r;
}

static void leave(struct visit *v) {
    daemon_disconnect(&v->connection);
}

int cay_manager_session_create(cay_manager *m, const char *who, const char *session,
                               struct cay_error *err) {
    _cleanup_(leave) struct visit v = VISIT_INIT;
    const struct cay_exec none = CAY_EXEC_INIT;
    char hostname[128];
    int r = visit(m, who, &v, err);
    if (r < 0)
        return r;
    const struct command_defaults defaults = {
        .user = v.connection.user, .hostname = v.connection.name, .env = v.connection.env};
    _cleanup_(freep) const char **env =
        command_env(&defaults, &none, hostname, sizeof hostname, err);
    return env == NULL ? -(int)err->code : wire_session_create(&v.call, session, NULL, env, err);
}

int cay_manager_session_delete(cay_manager *m, const char *who, const char *session,
                               struct cay_error *err) {
    _cleanup_(leave) struct visit v = VISIT_INIT;
    int r = visit(m, who, &v, err);
    return r < 0 ? r : wire_session_delete(&v.call, session, err);
}

static int carry(const cay_manager *m, const char *who, const char *session,
                 const struct wire_session_exec *exec, struct exec_streams *streams,
                 struct exec_outcome *outcome, struct cay_error *err) {
    _cleanup_(leave) struct visit v = VISIT_INIT;
    int r = visit(m, who, &v, err);
    if (r == 0)
        r = wire_session_exec(&v.call, session, exec, err);
    if (r < 0)
        return r;
    struct daemon daemon = m->daemon; /* a copy: following starts none, later requests do */
    const struct follow f = {
        .daemon = &daemon,
        .connection = &v.connection,
        .call = &v.call,
        .sandbox = who,
        .session = session,
        .deadline_ms = exec->timeout_ms > 0 ? clock_ms() + exec->timeout_ms + GRACE_MS : 0};
    return follow_command(&f, streams, outcome, err);
}

int cay_manager_session_run(cay_manager *m, const char *who, const char *session,
                            const char *command, int64_t timeout_ms, struct cay_result *result,
                            struct cay_error *err) {
    const struct wire_session_exec exec = {.text = command, .timeout_ms = timeout_ms};
    struct exec_streams s = {.in = -1,
                             .out = {-1, -1},
                             .captured = {BUF_INIT(CAPTURED_MAX), BUF_INIT(CAPTURED_MAX)},
                             .signals = -1};
    struct exec_outcome o = {.exit_code = 125};
    int r = carry(m, who, session, &exec, &s, &o, err);
    *result = (struct cay_result){
        .exit_code = o.exit_code,
        .signal = o.signal,
        .timed_out = o.reason == WIRE_REASON_TIMEOUT,
        .output_truncated = o.truncated,
        .duration_us = o.elapsed_us,
        .out_len = s.captured[0].len,
        .err_len = s.captured[1].len,
    };
    (void)buf_append(&s.captured[0], "", 0); /* a text also where there is none */
    (void)buf_append(&s.captured[1], "", 0);
    result->out = buf_take(&s.captured[0]);
    result->err = buf_take(&s.captured[1]);
    return r;
}

int cay_manager_session_start(cay_manager *m, const char *who, const char *session,
                              const char *command, uint64_t *ret_number, struct cay_error *err) {
    const struct wire_session_exec exec = {.text = command, .async = true};
    struct exec_streams s = {.in = -1, .out = {-1, -1}, .signals = -1};
    struct exec_outcome o;
    int r = carry(m, who, session, &exec, &s, &o, err);
    if (r == 0 && ret_number != NULL)
        *ret_number = o.number;
    return r;
}
