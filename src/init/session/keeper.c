/* The keeper's loop. */
#include "init/session/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "init/files/tree.h"
#include "init/user.h"

enum { OWN_FDS = 4, POLL_MAX = OWN_FDS + (1 + KEEPER_STREAMS) * KEEPER_COMMANDS + KEEPER_CLIENTS };

/* ---- deaths ---- */

static void shell_died(struct keeper *k, int status) {
    struct command *c = command_running(k);
    shell_read(k); /* it may have reported before */
    shell_close(k);
    if (c == NULL || !c->running || command_again(k, c))
        return;
    c->fatal = true;
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    command_end(k, c, number != 0 ? 128 + number : WEXITSTATUS(status), number);
}

static void reap(struct keeper *k) {
    struct signalfd_siginfo info;
    while (read(k->signals, &info, sizeof info) > 0)
        ;
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == k->shell.pid)
            shell_died(k, status);
}

/* ---- the loop ---- */

struct poll_set {
    struct pollfd fds[POLL_MAX];
    nfds_t count;
};

/* Its place in the set; -1 if there is nothing to wait for. */
static int add(struct poll_set *s, int fd, short events) {
    if (fd < 0 || s->count == POLL_MAX)
        return -1;
    s->fds[s->count] = (struct pollfd){.fd = fd, .events = events};
    return (int)s->count++;
}

static bool is_ready(const struct poll_set *s, int at) {
    return at >= 0 && s->fds[at].revents != 0;
}

static void add_all(struct keeper *k, struct poll_set *s, int own[static OWN_FDS]) {
    own[0] = add(s, k->signals, POLLIN);
    own[1] = add(s, k->start->at.listener, POLLIN);
    own[2] = add(s, k->shell.out, POLLIN);
    own[3] = add(s, k->shell.err, POLLIN);
    for (size_t i = 0; i < k->command_count; i++) {
        struct command *c = k->commands[i];
        bool feed = c->opened && (c->input.len > 0 || c->input_ended);
        c->at[0] = add(s, feed ? c->in : -1, POLLOUT);
        for (int stream = 0; stream < KEEPER_STREAMS; stream++)
            c->at[1 + stream] = add(s, c->out[stream], POLLIN);
    }
    for (size_t i = 0; i < k->client_count; i++) {
        struct client *cl = k->clients[i];
        client_fill(k, cl);
        cl->at = add(s, cl->fd, cl->out.len > 0 ? POLLIN | POLLOUT : POLLIN);
    }
}

static void serve_commands(struct keeper *k, const struct poll_set *s) {
    for (size_t i = 0; i < k->command_count; i++) {
        struct command *c = k->commands[i];
        for (int stream = 0; stream < KEEPER_STREAMS; stream++)
            if (is_ready(s, c->at[1 + stream]) && c->out[stream] >= 0)
                command_read(k, c, stream);
        if (is_ready(s, c->at[0]) && c->in >= 0)
            client_give_credit(k, c, command_feed(c));
    }
}

static void serve_clients(struct keeper *k, const struct poll_set *s) {
    for (size_t i = 0; i < k->client_count; i++) {
        struct client *cl = k->clients[i];
        short events = cl->at >= 0 ? s->fds[cl->at].revents : 0;
        if ((events & (POLLIN | POLLHUP | POLLERR)) != 0)
            client_read(k, cl);
        if ((events & POLLOUT) != 0 && cl->out.len > 0)
            client_send(cl);
    }
}

static void drop_clients(struct keeper *k) {
    size_t kept = 0;
    for (size_t i = 0; i < k->client_count; i++) {
        struct client *cl = k->clients[i];
        if (cl->gone || (cl->answered && cl->out.len == 0))
            client_free(cl);
        else
            k->clients[kept++] = cl;
    }
    k->client_count = kept;
}

/* New connections come last: they change the lists that the set was made of. */
static void step(struct keeper *k) {
    struct poll_set s = {.count = 0};
    int own[OWN_FDS];
    struct command *running = command_running(k);
    add_all(k, &s, own);
    int timeout = clock_poll_timeout(running != NULL ? command_deadline(running) : 0);
    if (poll(s.fds, s.count, timeout) < 0)
        return;
    serve_commands(k, &s);
    if (is_ready(&s, own[2]) && k->shell.out >= 0)
        shell_read(k);
    if (is_ready(&s, own[3]) && k->shell.err >= 0)
        shell_discard_errors(k);
    serve_clients(k, &s);
    if (is_ready(&s, own[0]))
        reap(k);
    drop_clients(k);
    if (is_ready(&s, own[1]))
        client_accept(k);
    running = command_running(k);
    if (running != NULL)
        command_check_limits(k, running);
}

/* ---- the beginning and the end ---- */

static int prepare(struct keeper *k, struct cay_error *err) {
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)setsid(); /* no signal for a group is meant for the keeper */
    k->made_ms = clock_wall_ms();
    k->data = malloc(WIRE_DATA_MAX);
    if (k->data == NULL)
        return error_sys(err, ENOMEM, "keeping a session");
    if (tree_adopt_orphans() < 0 || sigprocmask(SIG_SETMASK, &set, NULL) < 0)
        return error_errno(err, "preparing to keep a session");
    k->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (k->signals < 0)
        return error_errno(err, "preparing to keep a session");
    if (str_copy(k->cwd, sizeof k->cwd, k->start->cwd) < 0)
        return error_sys(err, ENAMETOOLONG, "the folder of the session");
    bool awake = k->start->program > 0 && shell_wake(k);
    if (k->start->program > 0)
        (void)close(k->start->program); /* its memory is held by who runs it only */
    return awake ? 0 : shell_start(k, err);
}

/* With a program: whether that is what runs, else how it ended. */
static int answer(const struct keeper *k, int connection) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(64);
    if (k->start->program <= 0)
        return wire_send(connection, WIRE_DONE, NULL);
    wire_put_number(&b, WIRE_TAG_PROGRAM, k->is_woken);
    wire_put_number(&b, WIRE_TAG_EXIT, (uint64_t)k->woken_exit);
    return wire_send(connection, WIRE_DONE, &b);
}

static void end_session(struct keeper *k) {
    (void)tree_kill(k->shell.pid, KEEPER_KILL_MS); /* the kernel holds what is left */
    place_remove_folder(k->start->io_place, k->start->io_prefix, k->start->at.name, k->start->user);
    place_remove(&k->start->at);
    for (size_t i = 0; i < k->client_count; i++)
        if (k->clients[i]->op == WIRE_OP_SESSION_DELETE)
            (void)wire_send(k->clients[i]->fd, WIRE_DONE, NULL); /* gone or not, it is deleted */
}

int keeper_run(const struct session_start *start, int connection) {
    struct cay_error err = {0};
    struct keeper k = {
        .start = start, .signals = -1, .shell = {0, -1, -1, -1}, .report = BUF_INIT(WIRE_DATA_MAX)};
    if (prepare(&k, &err) < 0) {
        end_session(&k); /* who hears of it finds the name free */
        (void)wire_send_error(connection, &err);
        return 1;
    }
    (void)answer(&k, connection); /* who hung up has a session all the same */
    fd_close(&connection);
    while (!k.deleted)
        step(&k);
    end_session(&k);
    return 0;
}
