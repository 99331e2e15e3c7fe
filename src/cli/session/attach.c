#include "cli/session/attach.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/vt.h"
#include "cli/command.h"
#include "cli/session/detach_keys.h"
#include "cli/session/terminal.h"

enum {
    KEY_MS = 500, /* the keys that detach are typed in one go */
    PENDING_MAX = 4 * WIRE_DATA_MAX,
    SAFE_WRITE = 4096, /* what poll(2) promises a terminal to take without blocking */
    RETRY_MS = 200,
    RESTART_MS = 30 * 1000, /* what a daemon may take to come back */
    FAILED = 125,
};

struct attachment {
    struct session_verb *v;
    const char *name;
    int fd;
    int in; /* -1: nothing more is typed */
    int signals;
    struct terminal terminal;
    struct wire_reader reader;
    struct buf typed;   /* for the program */
    struct buf pending; /* for our own terminal */
    struct vt vt;       /* what the program did to it */
    struct detach_keys keys;
    int64_t key_deadline;
    uint64_t credit;
    bool read_only;
    bool over;
    bool lost; /* the connection, and not by us */
    bool detached;
    int signal; /* that ended us */
    int exit_code;
    int result;
};

void attach_size(unsigned *rows, unsigned *cols) {
    struct winsize size;
    *rows = *cols = 0;
    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0)
        return;
    *rows = MIN(size.ws_row, WIRE_TERMINAL_SIZE_MAX);
    *cols = MIN(size.ws_col, WIRE_TERMINAL_SIZE_MAX);
}

/* ---- to the sandbox ---- */

/* A failed send is not an error of its own: the reason arrives by the other direction. */
static void send_typed(struct attachment *a) {
    if (a->read_only)
        buf_clear(&a->typed); /* only the keys that leave are looked for */
    size_t len = (size_t)MIN((uint64_t)a->typed.len, a->credit);
    if (len == 0)
        return;
    a->credit -= len;
    (void)wire_terminal_type(a->fd, a->typed.data, len);
    buf_consume(&a->typed, len);
}

static void read_keys(struct attachment *a) {
    char data[4096];
    ssize_t n = read(a->in, data, sizeof data);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) { /* the end, or a terminal that is gone: nobody types any more */
        a->in = -1;
        a->over = a->detached = a->terminal.fd >= 0;
        return;
    }
    if (detach_keys_take(&a->keys, data, (size_t)n, &a->typed))
        a->over = a->detached = true;
    a->key_deadline = a->keys.matched > 0 ? clock_ms() + KEY_MS : 0;
    send_typed(a);
}

static void read_signal(struct attachment *a) {
    struct signalfd_siginfo info;
    unsigned rows, cols;
    if (read(a->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (info.ssi_signo != SIGWINCH) {
        a->over = true;
        a->signal = (int)info.ssi_signo;
        return;
    }
    attach_size(&rows, &cols);
    if (rows > 0)
        (void)wire_terminal_window(a->fd, rows, cols);
}

/* ---- from the sandbox ---- */

static void take_event(struct attachment *a, const struct wire_terminal_event *e) {
    switch (e->kind) {
    case WIRE_TERMINAL_OUTPUT:
        vt_feed(&a->vt, e->data, e->len);
        (void)buf_append(&a->pending, e->data, e->len); /* room was checked */
        return;
    case WIRE_TERMINAL_SKIPPED:
        (void)buf_printf(&a->pending, "\x18\x1b[m\r\n[cay: %llu bytes left out]\r\n",
                         (unsigned long long)e->count);
        return;
    case WIRE_TERMINAL_CREDITS:
        a->credit = MIN(a->credit + e->count, (uint64_t)WIRE_TERMINAL_CREDIT);
        send_typed(a);
        return;
    case WIRE_TERMINAL_ENDED:
        a->over = true;
        a->exit_code = e->exit_code;
        return;
    }
}

static void take_events(struct attachment *a) {
    struct wire_terminal_event e;
    int r = 0;
    while (!a->over && a->pending.len < PENDING_MAX &&
           (r = wire_terminal_next(&a->reader, &e, &a->v->err)) > 0)
        take_event(a, &e);
    if (r < 0) {
        a->over = true;
        a->result = r;
    }
}

static void read_sandbox(struct attachment *a) {
    if (wire_reader_fill(&a->reader, a->fd) > 0)
        return;
    a->over = a->lost = true;
    error_set(&a->v->err, CAY_UNAVAILABLE, "the connection to terminal '%s' ended", a->name);
    a->result = error_remedy(&a->v->err, "attach again; it lives on if the sandbox does");
}

static void write_output(struct attachment *a) {
    ssize_t n = write(STDOUT_FILENO, a->pending.data, MIN(a->pending.len, (size_t)SAFE_WRITE));
    if (n >= 0) {
        buf_consume(&a->pending, (size_t)n);
    } else if (errno != EINTR && errno != EAGAIN) { /* nobody looks any more */
        buf_clear(&a->pending);
        a->over = a->detached = true;
    }
}

/* ---- the loop ---- */

static int wait_and_move(struct attachment *a) {
    struct pollfd fds[] = {
        {.fd = a->over || a->pending.len >= PENDING_MAX ? -1 : a->fd, .events = POLLIN},
        {.fd = a->over || a->credit == 0 || a->typed.len > 0 ? -1 : a->in, .events = POLLIN},
        {.fd = a->pending.len > 0 ? STDOUT_FILENO : -1, .events = POLLOUT},
        {.fd = a->over ? -1 : a->signals, .events = POLLIN},
    };
    int n = poll(fds, ARRAY_LEN(fds), clock_poll_timeout(a->key_deadline));
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    if (fds[0].revents != 0)
        read_sandbox(a);
    if (fds[1].revents != 0)
        read_keys(a);
    if (fds[2].revents != 0)
        write_output(a);
    if (fds[3].revents != 0)
        read_signal(a);
    if (a->key_deadline != 0 && clock_expired(a->key_deadline)) {
        a->key_deadline = 0;
        detach_keys_release(&a->keys, &a->typed);
        send_typed(a);
    }
    return 0;
}

/* What ended by itself is shown to the end; who leaves does not wait for more. */
static int carry(struct attachment *a) {
    while (!a->over || (a->pending.len > 0 && !a->detached && a->signal == 0)) {
        int r = wait_and_move(a);
        if (r < 0)
            return error_sys(&a->v->err, -r, "waiting for the terminal");
        take_events(a);
    }
    return a->result;
}

/* ---- a daemon that restarts ---- */

/* Waits a moment; false if a signal for us came instead. */
static bool wait_a_moment(const struct attachment *a) {
    struct pollfd p = {.fd = a->signals, .events = POLLIN};
    return poll(&p, 1, RETRY_MS) == 0;
}

/* Without starting a daemon: whoever has ended it may have meant it. */
static int connect_again(struct attachment *a, const char *sandbox, struct cay_error *err) {
    struct session_verb *v = a->v;
    bool must_wait = false;
    int64_t deadline = clock_deadline(RESTART_MS);
    v->daemon.start = false;
    daemon_disconnect(&v->connection);
    for (;;) {
        int r = daemon_connect(&v->daemon, sandbox, &v->connection, err);
        if (r != -CAY_UNAVAILABLE || clock_expired(deadline))
            return r;
        if (!must_wait && !v->common->quiet)
            verb_note("the daemon has gone; waiting for it to come back");
        must_wait = true;
        if (!wait_a_moment(a))
            return r;
    }
}

/* All that is kept of it is shown again, on a clean screen. */
static void clear_screen(struct attachment *a) {
    static const char clear[] = "\x1b[H\x1b[2J";
    if (!isatty(STDOUT_FILENO))
        return;
    vt_put_reset(&a->vt, &a->pending);
    (void)buf_append(&a->pending, clear, sizeof clear - 1);
}

static int attach_again(struct attachment *a, const char *sandbox, const struct attach_options *o) {
    struct session_verb *v = a->v;
    struct cay_error err;
    struct wire_terminal_attach attach = {.read_only = o->read_only};
    int r = connect_again(a, sandbox, &err);
    if (r < 0)
        return r;
    attach_size(&attach.rows, &attach.cols);
    a->fd = v->call.fd = v->connection.fd;
    v->call.deadline_ms = clock_deadline(RESTART_MS);
    wire_reader_free(&a->reader);
    a->reader = WIRE_READER_INIT;
    r = wire_terminal_attach(&v->call, a->name, &attach, &err);
    if (r < 0)
        return r;
    if (!v->common->quiet)
        verb_note("attached to terminal '%s' again", a->name);
    clear_screen(a);
    buf_clear(&a->typed);
    a->credit = WIRE_TERMINAL_CREDIT;
    a->over = a->lost = false;
    return 0;
}

/* ---- the beginning and the end ---- */

static void release(struct attachment *a) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    if (a->vt.modes != 0 || !vt_is_between(&a->vt))
        vt_put_reset(&a->vt, &b);
    if (isatty(STDOUT_FILENO) && b.len > 0)
        (void)fd_write_all(STDOUT_FILENO, b.data, b.len); /* the terminal may be gone */
    terminal_restore(&a->terminal);
    wire_reader_free(&a->reader);
    buf_free(&a->typed);
    buf_free(&a->pending);
    fd_close(&a->signals);
}

static int begin(struct attachment *a, const struct attach_options *o) {
    struct wire_terminal_attach attach = {.read_only = o->read_only,
                                          .only_running = o->only_running};
    struct cay_error *err = &a->v->err;
    attach_size(&attach.rows, &attach.cols);
    int r = detach_keys_parse(o->detach_keys != NULL ? o->detach_keys : DETACH_KEYS_DEFAULT,
                              &a->keys, err);
    if (r == 0)
        r = command_catch_signals(&a->signals, err);
    if (r == 0)
        r = wire_terminal_attach(&a->v->call, a->name, &attach, err);
    return r;
}

static void report_end(const struct attachment *a) {
    if (a->v->common->quiet || a->result < 0)
        return;
    if (a->detached || a->signal != 0)
        (void)fprintf(stderr, "%scay: detached from terminal '%s'; it goes on\n",
                      isatty(STDERR_FILENO) ? "\n" : "", a->name);
}

/* A terminal that cannot be had again is gone for the reason that the connection ended with. */
static int stay(struct attachment *a, const char *sandbox, const struct attach_options *o) {
    int r;
    do {
        a->result = 0;
        r = carry(a);
    } while (r < 0 && a->lost && attach_again(a, sandbox, o) == 0);
    return r;
}

int attach_run(struct session_verb *v, const char *sandbox, const char *name,
               const struct attach_options *o, int *ret) {
    struct attachment a = {
        .v = v,
        .name = name,
        .fd = v->call.fd,
        .in = STDIN_FILENO,
        .signals = -1,
        .terminal = TERMINAL_NONE,
        .reader = WIRE_READER_INIT,
        .typed = BUF_INIT(2 * WIRE_DATA_MAX),
        .pending = BUF_INIT(PENDING_MAX + 2 * WIRE_DATA_MAX),
        .credit = WIRE_TERMINAL_CREDIT,
        .read_only = o->read_only,
    };
    int r = begin(&a, o);
    if (r == 0) {
        if (!v->common->quiet && a.keys.count > 0 && isatty(STDIN_FILENO))
            verb_note("attached to terminal '%s'; leave it with %s", name,
                      o->detach_keys != NULL ? o->detach_keys : DETACH_KEYS_DEFAULT);
        (void)terminal_raw(&a.terminal, STDIN_FILENO); /* a pipe is fine too */
        r = a.result = stay(&a, sandbox, o);
    }
    release(&a);
    if (r == 0)
        report_end(&a);
    *ret = r < 0 ? FAILED : a.signal != 0 ? 128 + a.signal : a.exit_code;
    return r;
}

/* ---- cay shell --name ---- */

static int create(const struct verb_common *common, const char *sandbox, const char *name,
                  const struct session_program *program, struct cay_error *err) {
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(common);
    struct session_beginning b = {0};
    struct wire_terminal_create create = {0};
    attach_size(&create.rows, &create.cols);
    int r = session_open(&v, sandbox);
    if (r == 0)
        r = session_begin(&v, program, &b);
    create.env = b.env;
    if (r == 0)
        r = wire_terminal_create(&v.call, name, &create, &v.err);
    session_begun(&v, &b);
    *err = v.err;
    return r;
}

static int delete (const struct verb_common *common, const char *sandbox, const char *name,
                   struct cay_error *err) {
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(common);
    int r = session_open(&v, sandbox);
    if (r == 0)
        r = wire_terminal_delete(&v.call, name, &v.err);
    *err = v.err;
    return r == -CAY_NOT_FOUND ? 0 : r;
}

/* Others may make it, and it may end, between one step and the next. */
int attach_shell(const struct verb_common *common, const char *sandbox, const char *name,
                 const struct session_program *program, const char *detach_keys) {
    enum { TRIES = 3 };
    const struct attach_options o = {.detach_keys = detach_keys, .only_running = true};
    int r = 0, code = FAILED;
    struct cay_error err = {0};
    for (int i = 0; i < TRIES; i++) {
        _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(common);
        r = session_open(&v, sandbox);
        if (r < 0)
            return session_fail(&v, FAILED);
        r = attach_run(&v, sandbox, name, &o, &code);
        err = v.err;
        if (r != -CAY_NOT_FOUND && r != -CAY_CONFLICT)
            break;
        if (r == -CAY_CONFLICT && delete (common, sandbox, name, &err) < 0)
            break;
        r = create(common, sandbox, name, program, &err);
        if (r < 0 && r != -CAY_CONFLICT)
            break;
    }
    const struct session_verb failed = {.common = common, .err = err};
    return r < 0 ? session_fail(&failed, FAILED) : code;
}
