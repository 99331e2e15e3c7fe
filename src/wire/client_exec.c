#include "wire/client_exec.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

enum {
    PENDING_MAX = 4 * WIRE_DATA_MAX, /* output that a slow reader has not taken yet */
    SAFE_WRITE = 4096,               /* what poll(2) promises a pipe to take without blocking */
};

struct carry {
    int fd;
    struct exec_streams *s;
    struct wire_reader reader;
    struct buf pending[2];
    bool broken[2]; /* nobody reads this output any more */
    size_t chunk[2];
    uint64_t credit;
    unsigned changes;
    bool ended;
    struct exec_outcome *ret;
    struct cay_error *err;
    int result;
};

static size_t count_of(const char *const *list) {
    size_t n = 0;
    while (list[n] != NULL)
        n++;
    return n;
}

/* Descriptors go with the first bytes of the frame. */
static int send_request(int fd, const struct buf *b, const struct exec_request *req) {
    int fds[WIRE_FDS_MAX];
    size_t count = 0;
    if (req->program > 0)
        fds[count++] = req->program;
    if (req->door > 0)
        fds[count++] = req->door;
    return wire_send_with(fd, WIRE_REQUEST, b, fds, count);
}

int exec_send(int fd, const struct exec_request *req, struct cay_error *err) {
    if (MAX(count_of(req->argv), count_of(req->env)) > WIRE_REPEATED_MAX) {
        error_set(err, CAY_INVALID_ARGUMENT, "more than %d arguments or environment entries",
                  WIRE_REPEATED_MAX);
        return error_remedy(err, "pass large data on standard input or in a file");
    }
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    wire_put_number(&b, WIRE_TAG_VERSION, WIRE_VERSION);
    wire_put_number(&b, WIRE_TAG_OP, WIRE_OP_EXEC);
    if (req->user != NULL)
        wire_put_string(&b, WIRE_TAG_USER, req->user);
    wire_put_string(&b, WIRE_TAG_CWD, req->cwd);
    wire_put_number(&b, WIRE_TAG_TTY, req->tty);
    wire_put_number(&b, WIRE_TAG_ROWS, req->rows);
    wire_put_number(&b, WIRE_TAG_COLS, req->cols);
    wire_put_number(&b, WIRE_TAG_STDIN, req->want_stdin);
    wire_put_number(&b, WIRE_TAG_TIMEOUT_MS, (uint64_t)req->timeout_ms);
    wire_put_number(&b, WIRE_TAG_QUIET_MS, (uint64_t)req->quiet_ms);
    wire_put_number(&b, WIRE_TAG_OUTPUT_MAX, req->output_max);
    if (req->report) /* said only if wanted: a sandbox of an older version does not know it */
        wire_put_number(&b, WIRE_TAG_REPORT, 1);
    if (req->program > 0)
        wire_put_number(&b, WIRE_TAG_PROGRAM, 1);
    if (req->door > 0)
        wire_put_number(&b, WIRE_TAG_PROXY, req->proxy_port);
    if (req->watch)
        wire_put_number(&b, WIRE_TAG_WATCH, 1);
    if (req->merge)
        wire_put_number(&b, WIRE_TAG_MERGE, 1);
    if (req->reported_max > 0)
        wire_put_number(&b, WIRE_TAG_SPILL, req->reported_max);
    for (const char *const *p = req->argv; *p != NULL; p++)
        wire_put_string(&b, WIRE_TAG_ARG, *p);
    for (const char *const *p = req->env; *p != NULL; p++)
        wire_put_string(&b, WIRE_TAG_ENV, *p);
    if (b.failed) {
        error_set(err, CAY_INVALID_ARGUMENT, "arguments and environment are longer than %d MB",
                  WIRE_MESSAGE_MAX / 1024 / 1024);
        return error_remedy(err, "pass large data on standard input or in a file");
    }
    int r = send_request(fd, &b, req);
    if (r == -EPIPE)
        return 0; /* why it reads nothing is in its answer */
    return r < 0 ? error_sys(err, -r, "sending the command to the sandbox") : 0;
}

void exec_put_limits(const struct exec_request *req, struct buf *ret) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_DATA_MAX);
    wire_put_number(&b, WIRE_TAG_TIMEOUT_MS, (uint64_t)req->timeout_ms);
    wire_put_number(&b, WIRE_TAG_QUIET_MS, (uint64_t)req->quiet_ms);
    wire_put_number(&b, WIRE_TAG_OUTPUT_MAX, req->output_max);
    wire_put_frame(ret, WIRE_LIMITS, b.data, b.len);
    ret->failed |= b.failed;
}

/* ---- to the sandbox ---- */

static int send_signal(struct carry *c, int number) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(64);
    wire_put_number(&b, WIRE_TAG_SIGNAL, (uint64_t)number);
    return wire_send(c->fd, WIRE_SIGNAL, &b);
}

static int send_window(struct carry *c) {
    struct winsize size;
    if (ioctl(c->s->in, TIOCGWINSZ, &size) < 0)
        return 0;
    _cleanup_(buf_free) struct buf b = BUF_INIT(64);
    wire_put_number(&b, WIRE_TAG_ROWS, size.ws_row);
    wire_put_number(&b, WIRE_TAG_COLS, size.ws_col);
    return wire_send(c->fd, WIRE_WINDOW, &b);
}

/* A failed send is not an error of its own: the reason arrives by the other direction. */
static void forward_signal(struct carry *c) {
    struct signalfd_siginfo info;
    if (read(c->s->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (info.ssi_signo == SIGWINCH)
        (void)send_window(c);
    else
        (void)send_signal(c, (int)info.ssi_signo);
}

static void forward_input(struct carry *c) {
    char data[WIRE_DATA_MAX]; /* not static: programs with threads carry many at once */
    ssize_t n = read(c->s->in, data, MIN(sizeof data, (size_t)c->credit));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n > 0) {
        c->credit -= (uint64_t)n;
        (void)wire_send_data(c->fd, WIRE_INPUT, data, (size_t)n);
        return;
    }
    c->s->in = -1; /* the end, or a stream that cannot be read: both are no more input */
    (void)wire_send(c->fd, WIRE_INPUT_END, NULL);
}

/* What comes before the caller's own input; its end is the end of all if there is none. In one
 * piece, so that the other side wakes up once. */
static void send_first(struct carry *c) {
    struct exec_streams *s = c->s;
    _cleanup_(buf_free) struct buf out = BUF_INIT(2 * WIRE_DATA_MAX);
    size_t n = MIN(MIN(s->first_len, (size_t)c->credit), (size_t)WIRE_DATA_MAX);
    if (s->opening != NULL)
        (void)buf_append(&out, s->opening->data, s->opening->len);
    wire_put_frame(&out, WIRE_INPUT, s->first, n);
    if (n == s->first_len && s->in < 0)
        wire_put_frame(&out, WIRE_INPUT_END, NULL, 0);
    if (out.failed) {
        c->ended = true;
        c->result = error_set(c->err, CAY_RESOURCE_EXHAUSTED, "no memory for the input");
        return;
    }
    (void)wire_send_frames(c->fd, &out); /* why it is not taken is in the answer */
    s->opening = NULL;
    c->credit -= n;
    s->first = (const char *)s->first + n;
    s->first_len -= n;
}

/* ---- from the sandbox ---- */

static int protocol_error(struct carry *c, const char *what) {
    c->ended = true;
    error_set(c->err, CAY_UNAVAILABLE, "the sandbox's init sent %s", what);
    return c->result = error_remedy(c->err, "what runs inside may have attacked it; nothing of the "
                                            "host is affected");
}

/* Output beyond what is captured is somebody else's or dropped, but still counted as there. */
static void take_output(struct carry *c, int which, const struct wire_frame *f) {
    if (c->s->out[which] >= 0) {
        size_t known = (size_t)MIN(c->s->known[which], (uint64_t)f->len);
        c->s->known[which] -= known;
        if (!c->broken[which]) /* room was checked */
            (void)buf_append(&c->pending[which], f->data + known, f->len - known);
        return;
    }
    struct buf *b = &c->s->captured[which];
    size_t room = b->max - b->len;
    (void)buf_append(b, f->data, MIN(room, f->len));
    if (f->len <= room)
        return;
    c->ret->truncated = true;
    if (c->s->more != NULL)
        c->s->more(c->s->more_arg, which, b, f->data + room, f->len - room);
}

/* Beyond the maximum nothing is kept: whoever reads the report sees that it breaks off. */
static int take_report(struct carry *c, const struct wire_frame *f) {
    struct buf *b = c->s->report;
    if (b == NULL)
        return protocol_error(c, "a report that nobody asked for");
    (void)buf_append(b, f->data, MIN(b->max - b->len, f->len));
    return 0;
}

static int take_change(struct carry *c, const struct wire_message *m) {
    const char *path = m->string[WIRE_TAG_PATH];
    if (c->s->changed == NULL || path == NULL || c->changes++ >= EXEC_CHANGES_MAX)
        return protocol_error(c, "a file that nobody asked for");
    c->s->changed(c->s->changed_arg, path, m->number[WIRE_TAG_SIZE],
                  m->number[WIRE_TAG_CREATED] != 0);
    return 0;
}

static void take_file(const char *path, char ret[static EXEC_FILE_SIZE]) {
    if (path == NULL || path[0] != '/' || str_copy(ret, EXEC_FILE_SIZE, path) < 0)
        ret[0] = '\0';
}

void exec_read_end(const struct wire_message *m, struct exec_outcome *ret) {
    uint64_t code = m->number[WIRE_TAG_EXIT], reason = m->number[WIRE_TAG_REASON];
    ret->exit_code = code <= 255 ? (int)code : 255;
    ret->signal = m->number[WIRE_TAG_SIGNAL] < NSIG ? (int)m->number[WIRE_TAG_SIGNAL] : 0;
    ret->reason = reason <= WIRE_REASON_OUTPUT ? (enum wire_reason)reason : WIRE_REASON_EXIT;
    ret->truncated |= m->number[WIRE_TAG_TRUNCATED] != 0;
    ret->elapsed_us = (int64_t)MIN(m->number[WIRE_TAG_ELAPSED_US], (uint64_t)INT64_MAX);
    ret->restarted |= m->number[WIRE_TAG_RESTARTED] != 0; /* it may have been found out late */
    ret->fatal = m->number[WIRE_TAG_ENDED] != 0;
    ret->running = m->number[WIRE_TAG_RUNNING] != 0;
    ret->all_changes = m->number[WIRE_TAG_WATCH] != 0;
    ret->left = (unsigned)MIN(m->number[WIRE_TAG_COUNT], UINT64_C(65536));
    take_file(m->string[WIRE_TAG_PATH], ret->file[0]);
    take_file(m->string[WIRE_TAG_TARGET], ret->file[1]);
    ret->printed = m->number[WIRE_TAG_SPILL];
    ret->in_file = m->number[WIRE_TAG_SIZE];
}

static void take_failure(struct carry *c, const struct wire_message *m) {
    uint64_t code = m->number[WIRE_TAG_EXIT];
    c->ended = true;
    c->ret->exit_code = code >= 125 && code <= 127 ? (int)code : 125;
    c->result = wire_take_error(m, c->err);
}

static int take_message(struct carry *c, const struct wire_frame *f) {
    struct wire_message m;
    if (wire_parse(f->data, f->len, &m) < 0)
        return protocol_error(c, "a malformed message");
    switch (f->type) {
    case WIRE_STARTED:
        if (c->ret->started)
            return protocol_error(c, "a second start");
        c->ret->started = true;
        c->ret->number = m.number[WIRE_TAG_NUMBER];
        c->ret->restarted = m.number[WIRE_TAG_RESTARTED] != 0;
        return 0;
    case WIRE_CREDIT:
        c->credit = MIN(c->credit + m.number[WIRE_TAG_COUNT], (uint64_t)WIRE_INPUT_CREDIT);
        return 0;
    case WIRE_ENTRY:
        return take_change(c, &m);
    case WIRE_DONE:
        if (!c->ret->started)
            return protocol_error(c, "an end without a start");
        c->ended = true;
        exec_read_end(&m, c->ret);
        return 0;
    case WIRE_ERROR:
        take_failure(c, &m);
        return 0;
    default:
        return protocol_error(c, "an unexpected frame");
    }
}

static void take_frames(struct carry *c) {
    struct wire_frame f;
    int r = 0;
    while (!c->ended && c->pending[0].len + c->pending[1].len < PENDING_MAX &&
           (r = wire_reader_next(&c->reader, &f)) > 0) {
        if (f.type == WIRE_STDOUT || f.type == WIRE_STDERR)
            take_output(c, f.type == WIRE_STDERR, &f);
        else if (f.type == WIRE_REPORT)
            (void)take_report(c, &f);
        else
            (void)take_message(c, &f); /* leaves its result in c */
    }
    if (r < 0)
        (void)protocol_error(c, "a malformed frame");
}

static void read_sandbox(struct carry *c) {
    int n = wire_reader_fill(&c->reader, c->fd);
    if (n > 0 || c->ended)
        return;
    c->ended = c->ret->lost = true;
    c->ret->exit_code = 125;
    if (!c->ret->started) {
        error_set(c->err, CAY_UNAVAILABLE, "the sandbox ended before the command began");
        c->result = error_remedy(c->err, "nothing was done, so it is safe to try again");
        return;
    }
    error_set(c->err, CAY_UNAVAILABLE, "the sandbox ended before its command did");
    c->result = error_remedy(c->err, "it was stopped, or ran out of memory (--memory); the command "
                                     "had begun, so look what it did before it is run again");
}

/* ---- to the caller ---- */

/* The size of a write that will not block: everything for files, little for what can be full. */
static size_t chunk_of(int fd) {
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? WIRE_DATA_MAX : SAFE_WRITE;
}

static void write_output(struct carry *c, int which) {
    struct buf *b = &c->pending[which];
    ssize_t n = write(c->s->out[which], b->data, MIN(b->len, c->chunk[which]));
    if (n >= 0) {
        buf_consume(b, (size_t)n);
        c->s->written[which] += (uint64_t)n;
        return;
    }
    int sys = errno;
    if (sys == EINTR || sys == EAGAIN)
        return;
    /* A reader who had enough is no failure; a full disk is. */
    if (sys != EPIPE && c->result == 0) {
        error_sys(c->err, sys, "writing the command's output");
        c->result = error_remedy(c->err, "%s",
                                 sys == EBADF ? "send it somewhere, if only to /dev/null"
                                              : "make room, or send the output elsewhere");
    }
    /* The command's own pipe is closed too: it gets what it would have got without us. */
    c->broken[which] = true;
    buf_clear(b);
    (void)wire_send(c->fd, which == 0 ? WIRE_STDOUT_END : WIRE_STDERR_END, NULL);
}

static void give_up(struct carry *c) {
    if (c->ended)
        return;
    c->ended = true;
    error_set(c->err, CAY_UNAVAILABLE, "the client hung up before the command ended");
    c->result = error_remedy(c->err, "stay connected until it has ended");
}

/* Whether the caller's own input is wanted by now. */
static bool takes_input(const struct carry *c) {
    const struct exec_streams *s = c->s;
    bool held = s->holds_input && s->report != NULL && s->report->len == 0;
    return !c->ended && c->credit > 0 && s->first_len == 0 && !held;
}

static int wait_and_move(struct carry *c, int64_t deadline) {
    struct exec_streams *s = c->s;
    while (s->first_len > 0 && c->credit > 0 && !c->ended)
        send_first(c);
    size_t pending = c->pending[0].len + c->pending[1].len;
    struct pollfd fds[] = {
        {.fd = c->ended || pending >= PENDING_MAX ? -1 : c->fd, .events = POLLIN},
        {.fd = takes_input(c) ? s->in : -1, .events = POLLIN},
        {.fd = c->pending[0].len > 0 ? s->out[0] : -1, .events = POLLOUT},
        {.fd = c->pending[1].len > 0 ? s->out[1] : -1, .events = POLLOUT},
        {.fd = s->signals, .events = POLLIN},
        {.fd = s->client > 0 ? s->client : -1, .events = POLLRDHUP},
    };
    if (poll(fds, ARRAY_LEN(fds), clock_poll_timeout(deadline)) < 0)
        return errno == EINTR ? 0 : -errno;
    if (fds[0].revents != 0)
        read_sandbox(c);
    if (fds[1].revents != 0)
        forward_input(c);
    for (int i = 0; i < 2; i++)
        if (fds[2 + i].revents != 0)
            write_output(c, i);
    if (fds[4].revents != 0)
        forward_signal(c);
    if (fds[5].revents != 0)
        give_up(c);
    return 0;
}

static bool is_finished(const struct carry *c) {
    return c->ended && c->pending[0].len == 0 && c->pending[1].len == 0;
}

static void carry_free(struct carry *c) {
    wire_reader_free(&c->reader);
    buf_free(&c->pending[0]);
    buf_free(&c->pending[1]);
}

int exec_carry(int fd, struct exec_streams *s, int64_t deadline_ms, struct exec_outcome *ret,
               struct cay_error *err) {
    *ret = (struct exec_outcome){.exit_code = 125};
    size_t max = PENDING_MAX + WIRE_DATA_MAX;
    _cleanup_(carry_free) struct carry c = {
        .fd = fd,
        .s = s,
        .reader = WIRE_READER_INIT,
        .pending = {BUF_INIT(max), BUF_INIT(max)},
        .chunk = {chunk_of(s->out[0]), chunk_of(s->out[1])},
        .credit = WIRE_INPUT_CREDIT,
        .ret = ret,
        .err = err,
    };
    while (!is_finished(&c)) {
        if (!c.ended && clock_expired(deadline_ms)) {
            ret->reason = WIRE_REASON_TIMEOUT;
            ret->exit_code = 124;
            return 0;
        }
        /* Once the command has ended, a slow reader of its output has all the time it wants. */
        int r = wait_and_move(&c, c.ended ? 0 : deadline_ms);
        if (r < 0)
            return error_sys(err, -r, "waiting for the sandbox");
        take_frames(&c);
    }
    if (c.result < 0 && ret->started)
        ret->exit_code = 125; /* whatever the command says of itself */
    return c.result;
}
