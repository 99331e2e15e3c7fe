#include "client/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"

/* Its standard input is the control socket. A group of its own keeps the signals of the terminal
 * from it: it ends with us, after what has to be ended elsewhere. */
static int spawn(int control, pid_t *ret, struct cay_error *err) {
    static char name[] = "cay-remote";
    char program[PATH_MAX], *argv[] = {name, NULL};
    int r = program_find(name, program, sizeof program, err);
    if (r < 0)
        return r;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    (void)sigemptyset(&none);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    r = posix_spawn_file_actions_adddup2(&actions, control, STDIN_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (r == 0)
        r = posix_spawnattr_setsigmask(&attributes, &none);
    if (r == 0)
        r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    if (r == 0)
        r = posix_spawn(ret, program, &actions, &attributes, argv, environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return r == 0 ? 0 : error_sys(err, r, "starting %s", program);
}

static int gone(struct cay_error *err) {
    error_set(err, CAY_UNAVAILABLE, "cay-remote has ended");
    return error_remedy(err, "try again");
}

static int ask_kind(struct remote *remote, const struct remote_order *order,
                    struct cay_error *err) {
    struct remote_reply reply = {0};
    size_t count = 0;
    if (fd_send(remote->control, order, sizeof *order, NULL, 0) < 0 ||
        fd_receive(remote->control, &reply, sizeof reply, NULL, 0, &count) != (ssize_t)sizeof reply)
        return gone(err);
    if (reply.kind == REMOTE_NONE) {
        *err = reply.err;
        return -(int)err->code;
    }
    remote->kind = reply.kind;
    (void)snprintf(remote->version, sizeof remote->version, "%s", reply.version);
    return 0;
}

int remote_open(const struct remote_order *order, struct remote *ret, struct cay_error *err) {
    int pair[2];
    *ret = (struct remote){.control = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making a socket");
    ret->control = pair[0];
    int r = spawn(pair[1], &ret->pid, err);
    (void)close(pair[1]);
    if (r < 0) {
        fd_close(&ret->control);
        return r;
    }
    r = ask_kind(ret, order, err);
    if (r < 0)
        remote_close(ret);
    return r;
}

int remote_dial(const struct remote *r, struct cay_error *err) {
    static const char word = 'c';
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making a socket");
    _cleanup_(closep) int ours = pair[0];
    _cleanup_(closep) int theirs = pair[1];
    return fd_send(r->control, &word, sizeof word, &theirs, 1) < 0 ? gone(err) : TAKE_FD(ours);
}

void remote_close(struct remote *r) {
    if (r->pid <= 0)
        return;
    fd_close(&r->control);
    while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    *r = (struct remote){.control = -1};
}
