/* Commands in a sandbox, from the first byte of their input to the end of their output. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "api/metrics/metrics.h"
#include "api/toolbox/command.h"
#include "base/clock.h"
#include "base/error.h"
#include "lib/command.h"
#include "wire/client_command.h"

/* The inside asks, waits, kills; then the host stops believing it. */
enum { HOST_GRACE_MS = 5000 };

void toolbox_output_free(struct toolbox_output *o) {
    buf_free(&o->all);
    buf_free(&o->part[0]);
    buf_free(&o->part[1]);
}

const char *toolbox_mark(bool is_stderr) {
    return is_stderr ? "\2\2\2" : "\1\1\1";
}

/* ---- carrying ---- */

struct carry {
    const struct call *call;
    const struct toolbox *t;
    struct wire_reader reader;
    const struct buf *input;
    size_t sent;
    uint64_t credit;
    bool input_ended;
    struct toolbox_output *out;
    struct exec_outcome *ret;
    bool ended;
};

/* A sandbox that does not take what it asked for holds nobody up for ever. */
static void limit_sending(int fd) {
    const struct timeval limit = {.tv_sec = TOOLBOX_WAIT_MS / 1000};
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); /* it is a socket */
}

static void carry_free(struct carry *x) {
    wire_reader_free(&x->reader);
}

static void keep(struct toolbox_output *o, struct buf *b, const char *data, size_t len) {
    size_t room = b->max - b->len;
    (void)buf_append(b, data, MIN(room, len));
    if (len > room)
        o->is_cut = true;
}

static void take_output(struct toolbox_output *o, const struct wire_command_event *e) {
    if (o->wants_marks)
        keep(o, &o->all, toolbox_mark(e->is_stderr), TOOLBOX_MARK_SIZE);
    keep(o, &o->all, e->data, e->len);
    if (o->wants_parts)
        keep(o, &o->part[e->is_stderr], e->data, e->len);
}

/* As much as the other side has room for. What it does not take any more it has its reasons for,
 * and tells them by the other direction. */
static void feed(struct carry *x) {
    if (x->input == NULL || x->input_ended)
        return;
    size_t len = MIN(x->input->len - x->sent, (size_t)x->credit);
    if (len > 0)
        (void)wire_send_data(x->t->wire.fd, WIRE_INPUT, x->input->data + x->sent, len);
    x->sent += len;
    x->credit -= len;
    if (x->sent < x->input->len)
        return;
    (void)wire_send(x->t->wire.fd, WIRE_INPUT_END, NULL);
    x->input_ended = true;
}

static void take_event(struct carry *x, const struct wire_command_event *e) {
    switch (e->kind) {
    case WIRE_COMMAND_STARTED:
        *x->ret = e->outcome;
        break;
    case WIRE_COMMAND_OUTPUT:
        take_output(x->out, e);
        break;
    case WIRE_COMMAND_REPORT:
        if (x->out->report != NULL)
            (void)buf_append(x->out->report, e->data,
                             MIN(x->out->report->max - x->out->report->len, e->len));
        break;
    case WIRE_COMMAND_CREDITS:
        x->credit = MIN(x->credit + e->credits, (uint64_t)WIRE_INPUT_CREDIT);
        feed(x);
        break;
    case WIRE_COMMAND_CHANGE:
        if (x->out->changed != NULL)
            x->out->changed(x->out->changed_arg, e->data, e->size, e->created);
        break;
    case WIRE_COMMAND_ENDED: {
        uint64_t number = x->ret->number;
        *x->ret = e->outcome;
        x->ret->started = true;
        x->ret->number = number;
        x->out->is_cut |= e->outcome.printed > TOOLBOX_OUTPUT_MAX;
        x->ended = true;
    }
    }
}

static int take_events(struct carry *x, struct cay_error *err) {
    struct wire_command_event e;
    int n = 0;
    while (!x->ended && (n = wire_command_next(&x->reader, &e, err)) > 0)
        take_event(x, &e);
    return n < 0 ? n : 0;
}

static int read_more(struct carry *x, struct cay_error *err) {
    int n = wire_reader_fill(&x->reader, x->t->wire.fd);
    if (n > 0)
        return take_events(x, err);
    error_set(err, CAY_UNAVAILABLE, "the sandbox ended before its command did");
    return error_remedy(err, "it was stopped, or ran out of memory; look at its state");
}

static int wait_for_more(struct carry *x, int64_t deadline_ms, struct cay_error *err) {
    struct pollfd fds[] = {
        {.fd = x->t->wire.fd, .events = POLLIN},
        {.fd = call_socket(x->call), .events = POLLRDHUP},
    };
    int n = poll(fds, ARRAY_LEN(fds), clock_poll_timeout(deadline_ms));
    if (n < 0)
        return errno == EINTR ? 0 : error_errno(err, "waiting for the sandbox");
    if (fds[0].revents != 0)
        return read_more(x, err);
    if (fds[1].revents == 0)
        return 0;
    error_set(err, CAY_UNAVAILABLE, "the client hung up before the command ended");
    return error_remedy(err, "start what takes long in a session, with runAsync");
}

int toolbox_carry(const struct call *c, const struct toolbox *t, const struct buf *input,
                  int64_t deadline_ms, struct toolbox_output *out, struct exec_outcome *ret,
                  struct cay_error *err) {
    *ret = (struct exec_outcome){.exit_code = 125};
    _cleanup_(carry_free) struct carry x = {
        .call = c,
        .t = t,
        .reader = WIRE_READER_INIT,
        .input = input,
        .credit = WIRE_INPUT_CREDIT,
        .out = out,
        .ret = ret,
    };
    limit_sending(t->wire.fd);
    feed(&x);
    while (!x.ended) {
        if (clock_expired(deadline_ms)) {
            ret->reason = WIRE_REASON_TIMEOUT;
            return 0;
        }
        int r = wait_for_more(&x, deadline_ms, err);
        if (r < 0)
            return r;
    }
    return 0;
}

void toolbox_count(const struct call *c, int r, const struct exec_outcome *o) {
    if (r == 0 && o->running)
        return; /* a session's command that nobody waited for */
    if (r == 0 && o->reason == WIRE_REASON_TIMEOUT)
        manager_note_command(c->manager, c->who, "it ran longer than its time limit");
    if (r == 0 && o->reason == WIRE_REASON_QUIET)
        manager_note_command(c->manager, c->who, "it printed nothing for longer than it may");
    if (r < 0)
        metrics_command(METRICS_LOST);
    else if (o->reason == WIRE_REASON_TIMEOUT || o->reason == WIRE_REASON_QUIET)
        metrics_command(METRICS_TIMEOUT);
    else if (o->reason == WIRE_REASON_SIGNAL || o->signal != 0)
        metrics_command(METRICS_SIGNAL);
    else
        metrics_command(o->exit_code == 0 ? METRICS_OK : METRICS_FAILED);
}

/* ---- running ---- */

const char **toolbox_env(const struct toolbox *t, const char *const *more, bool tty,
                         char hostname[static TOOLBOX_HOSTNAME_SIZE], struct cay_error *err) {
    const struct command_defaults defaults = {.hostname = t->record.name,
                                              .env = (const char *const *)t->record.env.v};
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.env = more;
    exec.tty = tty;
    return command_env(&defaults, &exec, hostname, TOOLBOX_HOSTNAME_SIZE, err);
}

int toolbox_send(const struct toolbox *t, const struct toolbox_command *command,
                 struct cay_error *err) {
    char cwd[PATH_MAX], hostname[TOOLBOX_HOSTNAME_SIZE];
    int r = toolbox_path(t, "cwd", command->cwd, cwd, sizeof cwd, err);
    if (r < 0)
        return r;
    _cleanup_(freep) const char **env = toolbox_env(t, command->env, false, hostname, err);
    if (env == NULL)
        return -(int)err->code;
    const struct exec_request request = {
        .argv = command->argv,
        .env = env,
        .cwd = cwd,
        .user = t->wire.user,
        .want_stdin = command->input != NULL || command->keeps_input,
        .timeout_ms = command->timeout_ms,
        .program = command->program,
        .report = command->report,
        .merge = command->merge,
        .watch = command->watch,
        .reported_max = command->spills ? TOOLBOX_OUTPUT_MAX : 0,
    };
    limit_sending(t->wire.fd);
    return exec_send(t->wire.fd, &request, err);
}

bool toolbox_ran_out_of_memory(const struct call *c, int exit_code, int64_t began_ms) {
    struct engine_stats stats;
    struct cay_error ignored;
    bool is_oom = exit_code == 128 + SIGKILL &&
                  manager_stats(c->manager, c->who, &stats, &ignored) == 0 &&
                  stats.oom_age_ms >= 0 && stats.oom_age_ms < clock_ms() - began_ms;
    if (is_oom) {
        metrics_command(METRICS_OOM);
        manager_note_command(c->manager, c->who, "the sandbox ran out of memory");
    }
    return is_oom;
}

int toolbox_run(struct call *c, const struct toolbox_command *command, struct toolbox_output *out,
                struct exec_outcome *ret, struct cay_error *err) {
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    *ret = (struct exec_outcome){.exit_code = 125};
    int r = toolbox_begin(c, &t, err);
    if (r == 0)
        r = toolbox_send(&t, command, err);
    if (r < 0)
        return r;
    int64_t limit =
        command->timeout_ms > 0 ? clock_deadline(command->timeout_ms + HOST_GRACE_MS) : 0;
    r = toolbox_carry(c, &t, command->input, limit, out, ret, err);
    toolbox_count(c, r, ret);
    return r;
}
