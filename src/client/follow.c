#include "client/follow.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "wire/client_session.h"

enum {
    RETRY_MS = 200,
    RESTART_MS = 30 * 1000, /* what a daemon may take to come back */
    SILENT_TRIES_MAX = 20,  /* connections that are lost without a byte */
};

/* Waits a moment; false if a signal for us came instead. */
static bool wait_a_moment(const struct exec_streams *s) {
    struct pollfd p = {.fd = s->signals, .events = POLLIN};
    return poll(&p, 1, RETRY_MS) == 0;
}

/* Without starting a daemon: whoever has ended it may have meant it. */
static int connect_again(const struct follow *f, const struct exec_streams *s,
                         struct cay_error *err) {
    int64_t deadline = clock_deadline(RESTART_MS);
    bool said = false;
    f->daemon->start = false;
    for (;;) {
        daemon_disconnect(f->connection);
        int r = daemon_connect(f->daemon, f->sandbox, f->connection, err);
        f->call->fd = f->connection->fd;
        f->call->deadline_ms = clock_deadline(RESTART_MS);
        if (r != -CAY_UNAVAILABLE || clock_expired(deadline))
            return r;
        if (!said && f->waits != NULL)
            f->waits();
        said = true;
        if (!wait_a_moment(s))
            return r;
    }
}

/* How much of the input arrived is unknown, so it ends rather than having a gap. A command that
 * takes none refuses this, and all is well. */
static void end_input(const struct follow *f, uint64_t number) {
    struct cay_error ignored;
    struct exec_outcome outcome;
    struct exec_streams none = {.in = -1, .out = {-1, -1}, .signals = -1};
    if (wire_session_input(f->call, f->session, number, true, &ignored) == 0 &&
        wire_send(f->call->fd, WIRE_INPUT_END, NULL) == 0)
        (void)exec_carry(f->call->fd, &none, f->call->deadline_ms, &outcome, &ignored);
}

/* What was written is skipped; what was captured is captured again, from the beginning. */
static void rewind_streams(struct exec_streams *s) {
    memcpy(s->known, s->written, sizeof s->known);
    buf_clear(&s->captured[0]);
    buf_clear(&s->captured[1]);
    if (s->report != NULL)
        buf_clear(s->report);
    s->in = -1;
}

static int ask_again(const struct follow *f, struct exec_streams *s, bool had_input,
                     uint64_t number) {
    struct cay_error ignored; /* the loss says more */
    int r = connect_again(f, s, &ignored);
    if (r == 0 && had_input) {
        end_input(f, number);
        r = connect_again(f, s, &ignored);
    }
    if (r < 0)
        return r;
    rewind_streams(s);
    return wire_session_logs(f->call, f->session, number, f->stream, f->offset, true, &ignored);
}

/* What the inside got of the request is not known. */
static int fail_unknown(struct cay_error *err) {
    error_set(err, CAY_UNAVAILABLE, "the connection ended before the session answered");
    return error_remedy(err, "the command may have begun: look at the session's status before it "
                             "is run again");
}

/* A command that is not found again was lost with its sandbox: the first error says so. */
int follow_command(const struct follow *f, struct exec_streams *s, struct exec_outcome *ret,
                   struct cay_error *err) {
    bool had_input = s->in >= 0;
    int r = exec_carry(f->call->fd, s, f->deadline_ms, ret, err);
    if (ret->lost && !ret->started)
        return fail_unknown(err);
    for (unsigned i = 0; r < 0 && ret->lost && ret->number != 0 && i < SILENT_TRIES_MAX; i++) {
        struct exec_outcome again;
        struct cay_error why = {0};
        uint64_t before = s->written[0] + s->written[1];
        bool is_cut = s->in >= 0;
        if (ask_again(f, s, had_input, ret->number) < 0)
            return r;
        if (is_cut && f->input_cut != NULL)
            f->input_cut();
        had_input = false;
        int result = exec_carry(f->call->fd, s, f->deadline_ms, &again, &why);
        if (s->written[0] + s->written[1] > before)
            i = 0;
        if (again.lost)
            continue;
        if (result < 0 && !again.started)
            return r;
        r = result;
        *ret = again;
        *err = why;
    }
    return r;
}
