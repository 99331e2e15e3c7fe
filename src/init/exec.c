/* WIRE_OP_EXEC: runs a command and carries its streams until it ends or a limit strikes. The
 * operation ends when the command's own process ends; what it left in the background goes on
 * living, as the user meant it, unless a limit struck: then the whole tree dies. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "init/files/tree.h"
#include "init/op.h"
#include "init/session/changes.h"
#include "init/session/exit_record.h"
#include "init/session/overflow.h"
#include "init/spawn.h"
#include "init/user.h"

enum {
    TERM_GRACE_MS = 250,
    KILL_MS = 3000,
    ANNOUNCE_MS = 5,
    GATHER_MS = 3,
    REPORT_MAX = 64 * 1024 * 1024,
    HANG_UP_MS = 20,
    ROOM = 1024, /* for what is short most often: the first use of malloc takes longer */
    TAIL_MAX = ROOM / 2,
};

struct exec {
    struct op_conn *conn;
    struct spawned cmd;
    int signals; /* SIGCHLD */
    bool tty;
    char input_room[ROOM], tail_room[ROOM];
    struct buf input; /* received, not yet taken by the command */
    bool input_ended;
    uint64_t credit; /* taken by the command, not yet reported to the host */
    bool host_ready; /* the connection takes more output without blocking */
    bool host_gone;
    bool is_asked; /* a command that reports waits for what the host has to say */
    uint64_t output;
    uint64_t output_max;
    uint64_t reported_max; /* of the output; all of more is in a file. 0: all is told */
    size_t head;           /* bytes of exec_head that are used */
    bool spills;
    struct spill spill;
    int64_t wall_deadline;
    int64_t quiet_ms;
    int64_t quiet_deadline;
    int64_t gather_until; /* output stays where it is */
    bool exited;
    int status;
    enum wire_reason reason;
    int64_t started_us;
    bool announced; /* WIRE_STARTED was sent */
    uint64_t reported;
    struct last_word last_word;
    bool lives_on;   /* its last word was heeded */
    struct buf tail; /* frames that go with the answer, so that the host wakes up once */
    struct changes changes;
};

/* The beginning of an output that may turn out to be long: most are not worth a file. */
OP_ROOM char exec_head[WIRE_DATA_MAX];

static void exec_close(struct exec *x) {
    spill_close(&x->spill);
    spawned_close(&x->cmd);
    fd_close(&x->signals);
    buf_free(&x->input);
    buf_free(&x->tail);
    changes_free(&x->changes);
}

/* ---- from the host ---- */

static void signal_command(struct exec *x, uint64_t number) {
    if (number > 0 && number < NSIG && !x->exited)
        (void)kill(-x->cmd.pid, (int)number); /* the group may have ended meanwhile */
}

static void resize_window(const struct exec *x, const struct wire_message *m) {
    struct winsize size = {.ws_row = (unsigned short)m->number[WIRE_TAG_ROWS],
                           .ws_col = (unsigned short)m->number[WIRE_TAG_COLS]};
    if (x->tty && x->cmd.out >= 0)
        (void)ioctl(x->cmd.out, TIOCSWINSZ, &size); /* a closed terminal has no size to change */
}

/* Of a terminal nothing is left then: its session gets the signal of a closed line. */
static void close_output(struct exec *x, enum wire_type type) {
    fd_close(type == WIRE_STDOUT_END ? &x->cmd.out : &x->cmd.err);
    if (x->tty)
        fd_close(&x->cmd.in);
}

/* A program that reports has its last word, and most are short: what such a one prints is carried
 * together with that word. To be woken for each line would take the processor from the program. */
static void begin_to_gather(struct exec *x) {
    if (x->cmd.report >= 0)
        x->gather_until = clock_deadline(GATHER_MS);
}

static void set_limits(struct exec *x, const struct wire_message *m) {
    x->output_max = m->number[WIRE_TAG_OUTPUT_MAX];
    x->wall_deadline = clock_deadline((int64_t)m->number[WIRE_TAG_TIMEOUT_MS]);
    x->quiet_ms = (int64_t)m->number[WIRE_TAG_QUIET_MS];
    x->quiet_deadline = clock_deadline(x->quiet_ms);
}

static int take_frame(struct exec *x, const struct wire_frame *f) {
    struct wire_message m;
    x->is_asked = true;
    switch (f->type) {
    case WIRE_INPUT:
        return x->input_ended ? -EPROTO : buf_append(&x->input, f->data, f->len);
    case WIRE_INPUT_END:
        x->input_ended = true;
        return 0;
    case WIRE_STDOUT_END:
    case WIRE_STDERR_END:
        close_output(x, f->type);
        return 0;
    case WIRE_SIGNAL:
        if (wire_parse(f->data, f->len, &m) < 0)
            return -EPROTO;
        signal_command(x, m.number[WIRE_TAG_SIGNAL]);
        return 0;
    case WIRE_WINDOW:
        if (wire_parse(f->data, f->len, &m) < 0)
            return -EPROTO;
        resize_window(x, &m);
        return 0;
    case WIRE_LIMITS:
        if (wire_parse(f->data, f->len, &m) < 0)
            return -EPROTO;
        set_limits(x, &m);
        begin_to_gather(x);
        changes_begin(&x->changes);
        x->started_us = clock_us(); /* it has waited until now */
        return 0;
    default:
        return -EPROTO;
    }
}

static int take_frames(struct exec *x) {
    struct wire_frame f;
    int r;
    while ((r = wire_reader_next(x->conn->reader, &f)) > 0) {
        r = take_frame(x, &f);
        if (r < 0)
            return r;
    }
    return r;
}

/* ---- to the command ---- */

/* A terminal has no end of file; it is typed. */
static void end_input(struct exec *x) {
    static const char end_of_transmission = 4;
    if (x->tty)
        (void)!write(x->cmd.in, &end_of_transmission, 1);
    fd_close(&x->cmd.in);
}

static void write_command(struct exec *x) {
    if (x->input.len > 0) {
        ssize_t n = write(x->cmd.in, x->input.data, x->input.len);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        size_t taken = n < 0 ? x->input.len : (size_t)n; /* it reads no more: drop the rest */
        if (n < 0)
            fd_close(&x->cmd.in);
        buf_consume(&x->input, taken);
        x->credit += taken;
    }
    if (x->input.len == 0 && x->input_ended && x->cmd.in >= 0)
        end_input(x);
}

static void read_host(struct exec *x) {
    int n = wire_reader_fill(x->conn->reader, x->conn->fd);
    if (n <= 0 || take_frames(x) < 0)
        x->host_gone = true;
    else if (x->cmd.in >= 0 && (x->input.len > 0 || x->input_ended))
        write_command(x);
}

static void send_credit(struct exec *x) {
    if (x->credit < WIRE_INPUT_CREDIT / 4 || x->host_gone)
        return;
    _cleanup_(buf_free) struct buf b = BUF_INIT(64);
    wire_put_number(&b, WIRE_TAG_COUNT, x->credit);
    if (wire_send(x->conn->fd, WIRE_CREDIT, &b) < 0)
        x->host_gone = true;
    x->credit = 0;
}

/* ---- from the command ---- */

/* Whether what there is to tell is told together with what comes next: the answer, or all that
 * is printed for a host which does not listen before it has asked. */
static bool is_held(const struct exec *x) {
    return x->exited || !x->is_asked;
}

/* Told with the first thing that there is to tell, or soon: a frame of its own would wake the host
 * at the moment when the command needs the processor. */
static void announce(struct exec *x) {
    if (x->announced || x->host_gone)
        return;
    char room[64];
    _cleanup_(buf_free) struct buf b = BUF_OVER(room, sizeof room);
    wire_put_number(&b, WIRE_TAG_PID, (uint64_t)x->cmd.pid);
    x->announced = true;
    if (is_held(x))
        wire_put_frame(&x->tail, WIRE_STARTED, b.data, b.len);
    else if (wire_send(x->conn->fd, WIRE_STARTED, &b) < 0)
        x->host_gone = true;
}

static void update_host_ready(struct exec *x) {
    struct pollfd p = {.fd = x->conn->fd, .events = POLLOUT};
    x->host_ready = poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) != 0;
}

static void send_tail(struct exec *x) {
    if (!x->host_gone && x->tail.len > 0 && wire_send_frames(x->conn->fd, &x->tail) < 0)
        x->host_gone = true;
    buf_clear(&x->tail);
}

/* What lies in op_data; later, if it is little. */
static void forward(struct exec *x, enum wire_type type, size_t len) {
    announce(x);
    if (is_held(x) && x->tail.len + len < TAIL_MAX) {
        wire_put_frame(&x->tail, type, op_data, len);
        return;
    }
    send_tail(x);
    if (!x->host_gone && wire_send_data(x->conn->fd, type, op_data, len) < 0)
        x->host_gone = true;
    update_host_ready(x);
}

/* Of output that may be more than is told. That a file is full shows in its size. */
static void keep_output(struct exec *x, const char *data, size_t len) {
    if (x->reported_max == 0)
        return;
    if (!x->spills && len <= sizeof exec_head - x->head) {
        memcpy(exec_head + x->head, data, len);
        x->head += len;
        return;
    }
    if (!x->spills) {
        x->spills = true;
        spill_open(&x->spill, x->conn->user);
        (void)spill_write(&x->spill, exec_head, x->head);
    }
    (void)spill_write(&x->spill, data, len);
}

static void report_output(struct exec *x, enum wire_type type, size_t len) {
    uint64_t before = x->output;
    x->output += len;
    keep_output(x, op_data, len);
    if (x->reported_max > 0)
        len = (size_t)MIN((uint64_t)len, x->reported_max - MIN(x->reported_max, before));
    if (len > 0)
        forward(x, type, len);
}

/* Forwards what one read gives; closes the stream at its end. True if there was something. */
static bool forward_output(struct exec *x, int *fd, enum wire_type type) {
    ssize_t n = read(*fd, op_data, sizeof op_data);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) { /* EIO is the end of a terminal whose last user is gone */
        fd_close(fd);
        return false;
    }
    size_t len = (size_t)n;
    if (x->output_max > 0 && x->output + len >= x->output_max) {
        len = (size_t)(x->output_max - x->output);
        x->reason = WIRE_REASON_OUTPUT;
    }
    x->quiet_deadline = clock_deadline(x->quiet_ms);
    report_output(x, type, len);
    return true;
}

/* Believed where the sandbox ends with this operation, and with it whatever goes on in spite of its
 * word. Elsewhere the next command may need what this one still holds: a port, a lock. */
static void heed_last_word(struct exec *x, const char *data, size_t len) {
    int code = x->conn->tell < 0 && !x->exited ? last_word_find(&x->last_word, data, len) : -1;
    if (code < 0)
        return;
    x->exited = x->lives_on = true;
    x->status = code << 8; /* as waitpid(2) has it */
}

/* A report is no output: no limit of the command's counts it, and it is no sign of life. */
static bool forward_report(struct exec *x) {
    ssize_t n = read(x->cmd.report, op_data, sizeof op_data);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    x->reported += n > 0 ? (uint64_t)n : 0;
    if (n <= 0 || x->reported > REPORT_MAX) {
        fd_close(&x->cmd.report);
        return false;
    }
    heed_last_word(x, op_data, (size_t)n);
    forward(x, WIRE_REPORT, (size_t)n);
    return true;
}

/* What the command wrote before it ended is in the pipes now; a background process that holds them
 * open is not waited for. */
static void drain(struct exec *x) {
    while (x->cmd.out >= 0 && x->reason != WIRE_REASON_OUTPUT &&
           forward_output(x, &x->cmd.out, WIRE_STDOUT))
        ;
    while (x->cmd.err >= 0 && x->reason != WIRE_REASON_OUTPUT &&
           forward_output(x, &x->cmd.err, WIRE_STDERR))
        ;
    while (x->cmd.report >= 0 && forward_report(x))
        ;
}

/* ---- the end ---- */

static void reap(struct exec *x) {
    struct signalfd_siginfo info;
    while (read(x->signals, &info, sizeof info) > 0)
        ;
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != x->cmd.pid)
            continue;
        x->exited = true;
        x->status = status;
    }
}

static enum wire_reason limit_struck(const struct exec *x) {
    if (x->reason != WIRE_REASON_EXIT)
        return x->reason;
    if (clock_expired(x->wall_deadline))
        return WIRE_REASON_TIMEOUT;
    if (clock_expired(x->quiet_deadline))
        return WIRE_REASON_QUIET;
    return WIRE_REASON_EXIT;
}

static bool is_gathering(struct exec *x) {
    if (clock_expired(x->gather_until)) {
        x->gather_until = 0;
        changes_settle(x->conn, &x->changes); /* there is time */
    }
    return x->gather_until != 0;
}

/* One round of waiting and moving bytes, at most until the deadline. */
static void step(struct exec *x, int64_t deadline) {
    bool report = x->host_ready || x->host_gone;
    bool gathers = is_gathering(x);
    bool output = report && !gathers;
    if (x->is_asked && !gathers)
        send_tail(x);
    struct pollfd fds[] = {
        {.fd = x->signals, .events = POLLIN},
        {.fd = x->host_gone ? -1 : x->conn->fd, .events = report ? POLLIN : POLLIN | POLLOUT},
        {.fd = output ? x->cmd.out : -1, .events = POLLIN},
        {.fd = output ? x->cmd.err : -1, .events = POLLIN},
        {.fd = x->input.len > 0 || x->input_ended ? x->cmd.in : -1, .events = POLLOUT},
        {.fd = report ? x->cmd.report : -1, .events = POLLIN},
    };
    int timeout = clock_poll_timeout(clock_earlier(deadline, x->gather_until));
    if (!x->announced && (timeout < 0 || timeout > ANNOUNCE_MS))
        timeout = ANNOUNCE_MS;
    int ready = poll(fds, ARRAY_LEN(fds), timeout);
    if (ready == 0)
        announce(x);
    if (ready < 0)
        return;
    if ((fds[1].revents & POLLOUT) != 0)
        x->host_ready = true;
    if ((fds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
        read_host(x);
    if (fds[2].revents != 0)
        (void)forward_output(x, &x->cmd.out, WIRE_STDOUT);
    if (fds[3].revents != 0 && x->cmd.err >= 0)
        (void)forward_output(x, &x->cmd.err, WIRE_STDERR);
    if (fds[4].revents != 0 && x->cmd.in >= 0)
        write_command(x);
    if (fds[5].revents != 0)
        (void)forward_report(x);
    send_credit(x);
    if (fds[0].revents != 0)
        reap(x);
}

/* Asks first, so that the program can flush; then makes sure. */
static unsigned end_tree(struct exec *x) {
    signal_command(x, SIGTERM);
    struct clock_patience grace = clock_patience_of(TERM_GRACE_MS);
    enum wire_reason reason = x->reason;
    while (!x->exited && !clock_patience_ends(&grace) && reason != WIRE_REASON_OUTPUT)
        step(x, clock_ms() + MIN(grace.left_ms, (int64_t)CLOCK_LOOK_MS));
    x->reason = reason;
    return tree_kill(x->cmd.pid, KILL_MS);
}

static void put_file(const struct exec *x, struct buf *b) {
    wire_put_number(b, WIRE_TAG_SPILL, x->output);
    wire_put_number(b, WIRE_TAG_SIZE, x->spill.size);
    if (x->spill.path[0] != '\0')
        wire_put_string(b, WIRE_TAG_PATH, x->spill.path);
}

static int answer(struct exec *x, unsigned left) {
    char room[512];
    _cleanup_(buf_free) struct buf b = BUF_OVER(room, sizeof room);
    bool limit = x->reason != WIRE_REASON_EXIT;
    int number = WIFSIGNALED(x->status) ? WTERMSIG(x->status) : 0;
    if (!limit && number != 0)
        x->reason = WIRE_REASON_SIGNAL;
    uint64_t code = number != 0 ? 128U + (unsigned)number : (unsigned)WEXITSTATUS(x->status);
    wire_put_number(&b, WIRE_TAG_EXIT, limit ? 124 : code);
    wire_put_number(&b, WIRE_TAG_REASON, x->reason);
    wire_put_number(&b, WIRE_TAG_SIGNAL, (uint64_t)number);
    wire_put_number(&b, WIRE_TAG_TRUNCATED, x->reason == WIRE_REASON_OUTPUT);
    wire_put_number(&b, WIRE_TAG_COUNT, left);
    wire_put_number(&b, WIRE_TAG_ELAPSED_US, (uint64_t)(clock_us() - x->started_us));
    if (x->changes.folder[0] != '\0')
        wire_put_number(&b, WIRE_TAG_WATCH, !x->changes.truncated);
    if (x->reported_max > 0 && x->output > x->reported_max)
        put_file(x, &b);
    announce(x);
    wire_put_frame(&x->tail, WIRE_DONE, b.data, b.len);
    x->tail.failed |= b.failed;
    return wire_send_frames(x->conn->fd, &x->tail);
}

/* Ending a sandbox is work, and the host may need the processor to read the answer and to pass it
 * on: who is woken by a hang-up takes no processor from anybody. */
static void await_hang_up(const struct exec *x) {
    const struct sched_param none = {0};
    (void)syscall(SYS_sched_setscheduler, 0, SCHED_BATCH, &none); /* else it is in the way */
    struct pollfd p = {.fd = x->conn->fd, .events = POLLRDHUP};
    (void)poll(&p, 1, HANG_UP_MS);
}

static int run(struct exec *x, struct cay_error *err) {
    if (take_frames(x) < 0) /* what came together with the request */
        return error_set(err, CAY_INVALID_ARGUMENT, "malformed frame after the request");
    while (!x->exited && !x->host_gone && limit_struck(x) == WIRE_REASON_EXIT)
        step(x, clock_earlier(x->wall_deadline, x->quiet_deadline));
    unsigned left = 0;
    if (!x->exited) {
        x->reason = limit_struck(x);
        left = end_tree(x);
    }
    drain(x);
    if (x->reason == WIRE_REASON_OUTPUT && x->exited && left == 0)
        left = tree_kill(0, KILL_MS);
    if (x->host_gone || x->output <= x->reported_max)
        spill_drop(&x->spill, x->conn->user); /* nobody needs it, or hears where it is */
    if (x->host_gone)
        return 0;
    changes_send(x->conn, &x->changes);
    int r = answer(x, left);
    if (r == 0 && x->lives_on)
        await_hang_up(x);
    return r < 0 ? error_sys(err, -r, "answering") : 0;
}

/* ---- the beginning ---- */

static int prepare(struct exec *x, struct cay_error *err) {
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)signal(SIGPIPE, SIG_IGN); /* a command that reads no more is not our end */
    if (tree_adopt_orphans() < 0 || sigprocmask(SIG_SETMASK, &set, NULL) < 0)
        return error_errno(err, "preparing to watch the command");
    x->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (x->signals < 0)
        return error_errno(err, "preparing to watch the command");
    return 0;
}

/* A command that cannot start is an answer like any other: with a shell's exit code. */
static int send_failure(int fd, const struct cay_error *failure, int code) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_DATA_MAX);
    wire_put_error(&b, failure);
    wire_put_number(&b, WIRE_TAG_EXIT, (uint64_t)code);
    return wire_send(fd, WIRE_ERROR, &b);
}

int op_exec(struct op_conn *c, const struct wire_message *m, struct cay_error *err) {
    _cleanup_(exec_close) struct exec x = {
        .conn = c,
        .cmd = {0, -1, -1, -1, -1},
        .signals = -1,
        .spill = SPILL_INIT,
        .reported_max = m->number[WIRE_TAG_SPILL],
        .host_ready = true,
        .tty = m->number[WIRE_TAG_TTY] != 0,
        .is_asked = m->number[WIRE_TAG_REPORT] == 0,
    };
    x.input = BUF_OVER(x.input_room, WIRE_INPUT_CREDIT + WIRE_DATA_MAX);
    x.tail = BUF_OVER(x.tail_room, 2 * sizeof x.tail_room);
    int r = m->present[WIRE_TAG_PROXY] ? listen_for_proxy(c, m->number[WIRE_TAG_PROXY], err) : 0;
    if (r < 0)
        return r;
    _cleanup_(op_strings_free) struct op_strings argv = {0}, env = {0};
    if (op_arguments(m, &argv) < 0 || op_environment(c, m, &env) < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory for the command's arguments");
    if (argv.v[0] == NULL)
        return error_set(err, CAY_INVALID_ARGUMENT, "no command given");
    bool given = m->number[WIRE_TAG_PROGRAM] != 0;
    if (given && c->came[0] < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "a program that did not come along");
    r = prepare(&x, err);
    if (r < 0)
        return r;
    struct spawn_request req = {
        .argv = argv.v,
        .program = given ? c->came[0] : 0,
        .env = env.v,
        .user = c->user,
        .tty = x.tty,
        .cwd = m->string[WIRE_TAG_CWD] != NULL ? m->string[WIRE_TAG_CWD] : "/",
        .want_stdin = m->number[WIRE_TAG_STDIN] != 0,
        .want_report = m->number[WIRE_TAG_REPORT] != 0,
        .merge = m->number[WIRE_TAG_MERGE] != 0,
        .rows = (unsigned short)m->number[WIRE_TAG_ROWS],
        .cols = (unsigned short)m->number[WIRE_TAG_COLS],
    };
    int code;
    struct cay_error failure = {0};
    if (m->number[WIRE_TAG_WATCH] != 0)
        changes_remember(c, req.cwd, &x.changes);
    x.started_us = clock_us(); /* before: the processor may be the command's for all its life */
    if (spawn_command(&req, &x.cmd, &code, &failure) < 0)
        return send_failure(c->fd, &failure, code) < 0
                   ? error_set(err, CAY_UNAVAILABLE, "host gone")
                   : 0;
    set_limits(&x, m);
    begin_to_gather(&x);
    for (int *fd = (int[]){x.cmd.in, x.cmd.out, x.cmd.err, x.cmd.report, -2}; *fd != -2; fd++)
        if (*fd >= 0)
            (void)fd_set_nonblocking(*fd, true);
    return run(&x, err);
}
