#include "wire/call.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

int wire_call_broken(struct cay_error *err, const char *what) {
    error_set(err, CAY_INTERNAL, "the sandbox answered against the protocol: %s", what);
    return error_remedy(err, "restart the sandbox; what runs in it may have damaged its init");
}

bool wire_call_is_name(const char *name) {
    size_t len = name != NULL ? strlen(name) : 0;
    return len > 0 && len <= WIRE_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == len;
}

static int expired(struct cay_error *err) {
    error_set(err, CAY_TIMEOUT, "the sandbox did not answer in time");
    return error_remedy(err, "try again with a longer timeout, or restart the sandbox");
}

void wire_call_begin(const struct wire_call *c, enum wire_op op, struct buf *b) {
    wire_put_number(b, WIRE_TAG_VERSION, WIRE_VERSION);
    wire_put_number(b, WIRE_TAG_OP, (uint64_t)op);
    if (c->user != NULL)
        wire_put_string(b, WIRE_TAG_USER, c->user);
    if (c->cwd != NULL)
        wire_put_string(b, WIRE_TAG_CWD, c->cwd);
}

/* ---- receiving ---- */

static int wait_readable(const struct wire_call *c, struct cay_error *err) {
    if (c->deadline_ms == 0)
        return 0;
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    int n;
    do
        n = poll(&p, 1, clock_poll_timeout(c->deadline_ms));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_errno(err, "waiting for the sandbox");
    return n == 0 ? expired(err) : 0;
}

int wire_call_error(const struct wire_message *m, struct cay_error *err) {
    return m->number[WIRE_TAG_CODE] == CAY_OK ? wire_call_broken(err, "a malformed error")
                                              : wire_take_error(m, err);
}

static int take_error(const struct wire_frame *f, struct cay_error *err) {
    struct wire_message m;
    if (wire_parse(f->data, f->len, &m) < 0)
        return wire_call_broken(err, "a malformed error");
    return wire_call_error(&m, err);
}

/* One complete frame of what was read: 1, 0 if more is needed, negative. */
static int next_frame(struct wire_reader *r, struct wire_frame *f, struct cay_error *err) {
    int n = wire_reader_next(r, f);
    if (n < 0)
        return wire_call_broken(err, "a malformed frame");
    return n == 1 && f->type == WIRE_ERROR ? take_error(f, err) : n;
}

static int ended(int sys, struct cay_error *err) {
    error_sys(err, sys, "the sandbox ended the connection");
    return error_remedy(err, "look at the state of the sandbox; it may have been stopped");
}

int wire_call_receive(const struct wire_call *c, struct wire_reader *r, struct wire_frame *f,
                      struct cay_error *err) {
    for (;;) {
        int n = next_frame(r, f, err);
        if (n != 0)
            return n < 0 ? n : 0;
        n = wait_readable(c, err);
        if (n < 0)
            return n;
        n = wire_reader_fill(r, c->fd);
        if (n <= 0)
            return ended(n < 0 ? -n : ECONNRESET, err);
    }
}

/* How many bytes the frame at the start of the reader still lacks. */
static size_t missing(const struct wire_reader *r) {
    if (r->in.len < WIRE_HEADER_SIZE)
        return WIRE_HEADER_SIZE - r->in.len;
    uint32_t len;
    memcpy(&len, r->in.data, sizeof len);
    return WIRE_HEADER_SIZE + (size_t)le32toh(len) - r->in.len;
}

int wire_call_receive_exactly(const struct wire_call *c, struct wire_reader *r,
                              struct wire_frame *f, struct cay_error *err) {
    for (;;) {
        int n = next_frame(r, f, err); /* refuses a length beyond the maximum */
        if (n != 0)
            return n < 0 ? n : 0;
        size_t want = missing(r);
        char *to = buf_reserve(&r->in, want);
        if (to == NULL)
            return error_sys(err, ENOMEM, "receiving from the sandbox");
        n = wait_readable(c, err);
        if (n < 0)
            return n;
        ssize_t got = read(c->fd, to, want);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return ended(got < 0 ? errno : ECONNRESET, err);
        buf_commit(&r->in, (size_t)got);
    }
}

int wire_call_parse(const struct wire_frame *f, size_t max, struct wire_message *m,
                    struct cay_error *err) {
    if (f->len > max)
        return wire_call_broken(err, "an answer is too long");
    return wire_parse(f->data, f->len, m) < 0 ? wire_call_broken(err, "malformed fields") : 0;
}

/* ---- sending ---- */

/* A single frame may block no longer than what is left. */
static int limit_sending(const struct wire_call *c, struct cay_error *err) {
    if (c->deadline_ms == 0)
        return 0;
    int64_t left = c->deadline_ms - clock_ms();
    if (left <= 0)
        return expired(err);
    struct timeval t = {.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000};
    if (setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t) < 0 && errno != ENOTSOCK)
        return error_errno(err, "limiting the time to send");
    return 0;
}

/* The other end may have said why it stopped reading. */
static int explain_failure(const struct wire_call *c, int sys, struct cay_error *err) {
    if (sys == EAGAIN)
        return expired(err);
    if (sys == ENOBUFS || sys == EMSGSIZE) {
        error_set(err, CAY_INVALID_ARGUMENT, "the request is larger than %d bytes",
                  WIRE_MESSAGE_MAX);
        return error_remedy(err, "split it into several");
    }
    if (sys != EPIPE && sys != ECONNRESET)
        return error_sys(err, sys, "sending to the sandbox");
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct wire_frame f;
    int n = wire_call_receive(c, &r, &f, err);
    return n < 0 ? n : wire_call_broken(err, "it stopped reading without an error");
}

int wire_call_send_with(const struct wire_call *c, enum wire_type type, const struct buf *b,
                        int passed, struct cay_error *err) {
    int r = limit_sending(c, err);
    if (r < 0)
        return r;
    r = wire_send_with(c->fd, type, b, &passed, passed > 0 ? 1 : 0);
    return r < 0 ? explain_failure(c, -r, err) : 0;
}

int wire_call_send(const struct wire_call *c, enum wire_type type, const struct buf *b,
                   struct cay_error *err) {
    return wire_call_send_with(c, type, b, 0, err);
}

int wire_call_send_data(const struct wire_call *c, const void *data, size_t len,
                        struct cay_error *err) {
    int r = limit_sending(c, err);
    if (r < 0)
        return r;
    r = wire_send_data(c->fd, WIRE_INPUT, data, len);
    return r < 0 ? explain_failure(c, -r, err) : 0;
}
