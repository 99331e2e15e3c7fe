/* cay-init: PID 1 of every sandbox.
 *
 * The host starts it from a sealed memfd with two descriptors: 3, a listening unix socket that only
 * the host can reach, and 4, a connection that is open already. Either may be missing. Each
 * connection is one operation and is served by a process forked for it; PID 1 itself only accepts,
 * forks and reaps, so nothing that a sandbox does to one operation touches another. Without a
 * listener the first connection is all there is: PID 1 serves it by itself, and when it ends, the
 * kernel ends whatever else runs in the sandbox.
 *
 * A sandbox that was made before anybody asked for it gets a sequenced-packet socket as 4, and
 * waits there for the one message that brings the two descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "init/op.h"
#include "init/serve.h"
#include "init/spawn.h"
#include "init/stack.h"
#include "init/user.h"
#include "wire/wire.h"

enum { LISTENER_FD = 3, CONNECTION_FD = 4 };
enum { CONNECTION_COMES = 1, LISTENER_COMES = 2 }; /* bits of the message, in this order */

struct init {
    int listener;
    bool is_reachable; /* the listener, for what runs inside */
    int signals;
    int news[2]; /* a pipe: whoever serves a request tells what is new by it; none before the first
                  */
    unsigned proxy_port;
    bool done;
};

/* The descriptor if the host gave it, closed in every program that runs inside. */
static int inherited(int fd) {
    return fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -1 : fd;
}

static bool is_waiting_place(int fd) {
    int type = 0;
    socklen_t len = sizeof type;
    return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
           type == SOCK_SEQPACKET;
}

/* Waits for the descriptors; false if the host has no use for this sandbox after all. */
static bool wait_for_descriptors(int *connection, int *listener) {
    char what;
    int fds[2];
    size_t count = 0, at = 0;
    ssize_t n = fd_receive(*connection, &what, 1, fds, ARRAY_LEN(fds), &count);
    fd_close(connection);
    if (n != 1 || count != (size_t)__builtin_popcount((unsigned char)what))
        return false;
    if ((what & CONNECTION_COMES) != 0)
        *connection = fds[at++];
    if ((what & LISTENER_COMES) != 0)
        *listener = fds[at];
    return true;
}

static int block_signals(void) {
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigaddset(&set, SIGTERM);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void refuse(int connection, int sys) {
    struct cay_error err = {0};
    (void)spawn_fail(sys, &err);
    (void)wire_send_error(connection, &err); /* short enough not to block on a fresh connection */
}

static struct {
    int connection, tell;
    unsigned proxy_port;
} served;

static int serve(void) {
    return serve_connection(served.connection, served.tell, served.proxy_port);
}

static _noreturn_ void serve_and_exit(int connection, int tell, unsigned proxy_port) {
    served.connection = connection;
    served.tell = tell;
    served.proxy_port = proxy_port;
    stack_run_deep(serve);
}

/* Forks the process that serves one connection; PID 1 keeps nothing of it. */
static void serve_in_child(struct init *init, int connection) {
    bool can_report = init->news[0] >= 0 || pipe2(init->news, O_CLOEXEC) == 0;
    pid_t pid = can_report ? spawn_fork() : -1;
    if (pid == 0) {
        fd_close(&init->listener);
        fd_close(&init->signals);
        fd_close(&init->news[0]);
        serve_and_exit(connection, init->news[1], init->proxy_port);
    }
    if (pid < 0)
        refuse(connection, errno);
    (void)close(connection);
}

static void reap(void) {
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static void handle_signals(struct init *init) {
    struct signalfd_siginfo info;
    while (read(init->signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo == SIGTERM && info.ssi_pid == 0) /* 0: sent from outside */
            init->done = true;
    reap();
}

/* An abstract name can be reached by all in the sandbox. Where no descriptor could be passed it is
 * such a name, and the host's process has an id that nobody else inside can get: ours, where the
 * kernel lets cay-init have one of its own. */
static bool has_abstract_name(int listener) {
    struct sockaddr_un name;
    socklen_t len = sizeof name;
    return getsockname(listener, (struct sockaddr *)&name, &len) == 0 &&
           len > offsetof(struct sockaddr_un, sun_path) && name.sun_path[0] == '\0';
}

static bool is_host(int connection) {
    struct ucred peer;
    socklen_t len = sizeof peer;
    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == INIT_ID;
}

static void accept_connection(struct init *init) {
    int fd = accept4(init->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0 && init->is_reachable && !is_host(fd))
        (void)close(fd);
    else if (fd >= 0)
        serve_in_child(init, fd);
}

static void take_news(struct init *init) {
    struct init_news news;
    if (read(init->news[0], &news, sizeof news) != (ssize_t)sizeof news)
        return;
    init->done = news.ends;
    if (news.proxy_port != 0)
        init->proxy_port = news.proxy_port;
}

/* News come before connections: who waited for an answer is served by what it was about. */
static void loop(struct init *init) {
    while (!init->done) {
        struct pollfd fds[] = {
            {.fd = init->signals, .events = POLLIN},
            {.fd = init->news[0], .events = POLLIN},
            {.fd = init->listener, .events = POLLIN},
        };
        if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
            return;
        if (fds[0].revents != 0)
            handle_signals(init);
        if (fds[1].revents != 0)
            take_news(init);
        if (fds[2].revents != 0 && !init->done)
            accept_connection(init);
    }
}

static int run(void) {
    struct init init = {.listener = inherited(LISTENER_FD), .news = {-1, -1}};
    int connection = inherited(CONNECTION_FD);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "cay-init", 0, 0, 0);
    if (is_waiting_place(connection) && !wait_for_descriptors(&connection, &init.listener))
        return 1;
    if (init.listener < 0 && connection < 0)
        return 1;
    if (init.listener < 0)
        serve_and_exit(connection, -1, 0);
    init.is_reachable = has_abstract_name(init.listener);
    init.signals = block_signals();
    if (init.signals < 0)
        return 1;
    if (connection >= 0)
        serve_in_child(&init, connection);
    loop(&init);
    return 0;
}

int main(void) {
    stack_run(run);
}
