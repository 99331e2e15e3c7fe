/* The keeper of a terminal: one process, one loop, nothing that blocks. It reads the program's
 * output as fast as it comes, whoever looks. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "init/files/tree.h"
#include "init/terminal/terminal.h"

enum { OWN_FDS = 4 };

/* ---- the size, and who is in front ---- */

void terminal_set_size(struct terminal *t, unsigned rows, unsigned cols) {
    const struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    if (rows == 0 || cols == 0 || (rows == t->rows && cols == t->cols))
        return;
    t->rows = rows;
    t->cols = cols;
    if (t->program.in >= 0)
        (void)ioctl(t->program.in, TIOCSWINSZ, &size); /* the kernel sends SIGWINCH */
}

void terminal_follow_size(struct terminal *t) {
    const struct viewer *last = NULL;
    for (size_t i = 0; i < t->viewer_count; i++) {
        const struct viewer *v = t->viewers[i];
        if (v->attached && v->writes && v->rows > 0 && !v->gone &&
            (last == NULL || v->used > last->used))
            last = v;
    }
    if (last != NULL)
        terminal_set_size(t, last->rows, last->cols);
}

pid_t terminal_foreground(const struct terminal *t) {
    pid_t group = 0;
    if (t->program.in < 0 || ioctl(t->program.in, TIOCGPGRP, &group) < 0)
        return 0;
    return group;
}

bool terminal_is_busy(const struct terminal *t) {
    if (!t->running)
        return false;
    pid_t group = terminal_foreground(t);
    return !t->start->is_shell || (group != 0 && group != t->program.pid);
}

/* ---- the program ---- */

int terminal_start_program(struct terminal *t, struct cay_error *err) {
    int code;
    struct spawn_request program = t->start->program;
    program.rows = (unsigned short)t->rows;
    program.cols = (unsigned short)t->cols;
    int r = spawn_command(&program, &t->program, &code, err);
    if (r < 0)
        return r;
    (void)fd_set_nonblocking(t->program.in, true); /* one description: out is meant too */
    t->waits = false;
    t->running = true;
    t->active_ms = clock_ms();
    return 0;
}

/* One read: true if there was something. */
static bool read_program(struct terminal *t) {
    ssize_t n = read(t->program.out, t->data, WIRE_DATA_MAX);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        fd_close(&t->program.out); /* nobody has the other side open */
        return false;
    }
    scrollback_append(&t->past, t->data, (size_t)n);
    t->active_ms = clock_ms();
    return true;
}

/* In turns, so that one who types much does not keep others from it. */
static void write_program(struct terminal *t) {
    for (size_t i = 0; i < t->viewer_count && t->program.in >= 0; i++) {
        struct viewer *v = t->viewers[i];
        if (v->input.len == 0)
            continue;
        ssize_t n = write(t->program.in, v->input.data, MIN(v->input.len, (size_t)4096));
        if (n > 0)
            viewer_take_input(v, (size_t)n);
        else if (errno != EAGAIN && errno != EINTR)
            viewer_take_input(v, v->input.len);
    }
}

/* What it has printed is there to be read: the kernel hangs the terminal up when its owner ends. */
static void end_program(struct terminal *t, int status) {
    enum { READS_MAX = 64 };
    for (int i = 0; i < READS_MAX && t->program.out >= 0 && read_program(t); i++)
        ;
    spawned_close(&t->program);
    t->running = false;
    t->active_ms = clock_ms();
    t->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    t->exit_code = t->signal != 0 ? 128 + t->signal : WEXITSTATUS(status);
}

static void reap(struct terminal *t) {
    struct signalfd_siginfo info;
    while (read(t->signals, &info, sizeof info) > 0)
        ;
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == t->program.pid && t->running)
            end_program(t, status);
}

/* ---- the loop ---- */

struct poll_set {
    struct pollfd fds[OWN_FDS + TERMINAL_CONNECTIONS];
    nfds_t count;
};

static int add(struct poll_set *s, int fd, short events) {
    s->fds[s->count] = (struct pollfd){.fd = fd, .events = events};
    return (int)s->count++;
}

static bool has_input(const struct terminal *t) {
    for (size_t i = 0; i < t->viewer_count; i++)
        if (t->viewers[i]->input.len > 0)
            return true;
    return false;
}

static void serve_viewers(struct terminal *t, const struct poll_set *s) {
    for (size_t i = 0; i < t->viewer_count; i++) {
        struct viewer *v = t->viewers[i];
        short events = s->fds[v->slot].revents;
        if ((events & (POLLIN | POLLHUP | POLLERR)) != 0)
            viewer_read(t, v);
        if ((events & POLLOUT) != 0 && v->out.len > 0)
            viewer_send(v);
    }
}

static void drop_viewers(struct terminal *t) {
    size_t kept = 0;
    bool left = false;
    for (size_t i = 0; i < t->viewer_count; i++) {
        struct viewer *v = t->viewers[i];
        bool ended = v->gone || (v->answered && v->out.len == 0);
        left |= ended && v->attached;
        if (ended)
            viewer_free(v);
        else
            t->viewers[kept++] = v;
    }
    t->viewer_count = kept;
    if (left) {
        t->active_ms = clock_ms();
        terminal_follow_size(t);
    }
}

/* New connections come last: they change the list that the set was made of. */
static void step(struct terminal *t) {
    struct poll_set s = {.count = 0};
    (void)add(&s, t->signals, POLLIN);
    (void)add(&s, t->start->at.listener, POLLIN);
    (void)add(&s, t->program.out, POLLIN);
    (void)add(&s, has_input(t) ? t->program.in : -1, POLLOUT);
    for (size_t i = 0; i < t->viewer_count; i++) {
        struct viewer *v = t->viewers[i];
        viewer_fill(t, v);
        v->slot = add(&s, v->fd, v->out.len > 0 ? POLLIN | POLLOUT : POLLIN);
    }
    if (poll(s.fds, s.count, -1) < 0)
        return;
    if (s.fds[2].revents != 0)
        (void)read_program(t);
    if (s.fds[3].revents != 0)
        write_program(t);
    serve_viewers(t, &s);
    if (s.fds[0].revents != 0)
        reap(t);
    drop_viewers(t);
    if (s.fds[1].revents != 0)
        viewer_accept(t);
}

/* ---- the beginning and the end ---- */

static int watch_children(struct terminal *t) {
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)setsid(); /* no signal for a group is meant for the keeper */
    if (tree_adopt_orphans() < 0 || sigprocmask(SIG_SETMASK, &set, NULL) < 0)
        return -errno;
    t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return t->signals < 0 ? -errno : 0;
}

static int prepare(struct terminal *t, struct cay_error *err) {
    t->data = malloc(WIRE_DATA_MAX);
    int r = t->data == NULL ? -ENOMEM : scrollback_init(&t->past, SCROLLBACK_KEPT);
    if (r == 0)
        r = watch_children(t);
    if (r < 0)
        return error_sys(err, -r, "preparing to keep a terminal");
    t->waits = true;
    t->rows = t->start->program.rows;
    t->cols = t->start->program.cols;
    t->wall_ms = clock_wall_ms();
    t->active_ms = clock_ms();
    return t->start->is_lazy ? 0 : terminal_start_program(t, err);
}

static void end_terminal(struct terminal *t) {
    pid_t group = t->running ? t->program.pid : 0;
    (void)tree_kill(group, TERMINAL_KILL_MS); /* the kernel holds what is left */
    place_remove(&t->start->at);
    for (size_t i = 0; i < t->viewer_count; i++)
        if (t->viewers[i]->op == WIRE_OP_TERMINAL_DELETE)
            (void)wire_send(t->viewers[i]->fd, WIRE_DONE, NULL); /* gone or not, it is deleted */
}

int terminal_run(const struct terminal_start *start, int connection) {
    struct cay_error err = {0};
    struct terminal t = {.start = start, .signals = -1, .program = {0, -1, -1, -1}};
    if (prepare(&t, &err) < 0) {
        end_terminal(&t); /* who hears of it finds the name free */
        (void)wire_send_error(connection, &err);
        return 1;
    }
    (void)wire_send(connection, WIRE_DONE, NULL); /* who hung up has a terminal all the same */
    fd_close(&connection);
    while (!t.deleted)
        step(&t);
    end_terminal(&t);
    return 0;
}
