#include "engine/native/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cay/errors.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "confine/idrange.h"
#include "confine/ipcns.h"
#include "confine/lean.h"
#include "confine/netns.h"
#include "confine/syscalls.h"
#include "confine/userns.h"
#include "engine/init_memfd.h"
#include "engine/native/cgroup/cgroup.h"
#include "engine/native/internal.h"

enum { CLEAN_UP_MS = 30000 };

enum op { OP_MAKE = 1, OP_WATCH, OP_FORGET, OP_QUIT };

struct request {
    enum op op;
    enum helper_thing thing;
    uid_t base;
    char id[ID_SIZE];
};

struct answer {
    int result;
    struct cay_error err;
};

/* ---- in the helper ---- */

struct watched {
    char (*id)[ID_SIZE];
    size_t count, room;
};

static int make_dev(struct cay_error *err) {
    int dev = rootfs_make_dev();
    return dev < 0 ? error_sys(err, -dev, "making /dev") : dev;
}

static void make(int sock, const struct request *r, const char *staging) {
    struct cay_error err;
    struct id_map map = {0, r->base, IDRANGE_SIZE};
    _cleanup_(closep) int second = -1;
    _cleanup_(closep) int fd = -1;
    switch (r->thing) {
    case HELPER_USERNS:
        fd = userns_create(&map, &map, &err);
        break;
    case HELPER_NETNS:
        fd = netns_create(&second, &err);
        break;
    case HELPER_IPCNS:
        fd = ipcns_create(&second, &err);
        break;
    case HELPER_LEAN:
        fd = lean_create(staging, &err);
        break;
    case HELPER_DEV:
        fd = make_dev(&err);
        break;
    case HELPER_INIT:
        fd = init_memfd_create(&err);
        break;
    }
    struct answer a = {.result = MIN(fd, 0)};
    if (fd < 0)
        a.err = err;
    int fds[] = {fd, second};
    size_t count = fd < 0 ? 0 : second < 0 ? 1 : 2;
    (void)fd_send(sock, &a, sizeof a, fds, count); /* it hung up: seen next */
}

static void watch(struct watched *w, const char *id) {
    if (w->count == w->room) {
        size_t room = w->room == 0 ? 16 : w->room * 2;
        void *more = realloc(w->id, room * sizeof w->id[0]);
        if (more == NULL)
            return; /* then it is not cleaned up: better than ending here and cleaning nothing */
        w->id = more;
        w->room = room;
    }
    memcpy(w->id[w->count++], id, ID_SIZE);
}

static void forget(struct watched *w, const char *id) {
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->id[i], id) == 0) {
            memcpy(w->id[i], w->id[--w->count], ID_SIZE);
            return;
        }
}

static void clean_up(const struct watched *w) {
    struct cgroup_host cgroups;
    if (w->count == 0 || cgroup_probe(&cgroups, NULL) < 0)
        return;
    for (size_t i = 0; i < w->count; i++) /* nobody is left to tell of a failure */
        (void)cgroup_remove(&cgroups, w->id[i], clock_ms() + CLEAN_UP_MS, NULL);
}

/* Signals of the terminal are for the command, and for cay; this must live through them. Whatever
 * else is open would keep somebody waiting for its end. */
static void detach(int sock, int keep) {
    sigset_t all;
    (void)setsid();
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)prctl(PR_SET_NAME, "cay-helper", 0, 0, 0);
    int last = MAX(sock, keep);
    for (int fd = 0; fd < last; fd++)
        if (fd != sock && fd != keep)
            (void)close(fd);
    (void)close_range((unsigned)last + 1, ~0U, 0);
}

static _noreturn_ void serve(int sock, int keep, const char *staging) {
    struct watched w = {0};
    struct request r;
    detach(sock, keep);
    for (;;) {
        ssize_t n = recv(sock, &r, sizeof r, 0);
        if (n < 0 && (errno == EINTR || errno == ECONNRESET))
            continue; /* a maker that died with our answers unread: its last requests still count */
        if (n != (ssize_t)sizeof r)
            break;
        if (r.op == OP_QUIT)
            _exit(0);
        if (r.op == OP_MAKE)
            make(sock, &r, staging);
        else if (r.op == OP_WATCH)
            watch(&w, r.id);
        else
            forget(&w, r.id);
    }
    clean_up(&w);
    _exit(1);
}

/* ---- in the maker ---- */

/* The kernel likes to keep a new process where its parent is, and the parent is busy there. The
 * helper waits for nothing that we do, so it goes to another processor at once, if there is one. */
static void send_away(pid_t pid) {
    cpu_set_t others;
    int here = sched_getcpu();
    if (here < 0 || sched_getaffinity(0, sizeof others, &others) < 0)
        return;
    CPU_CLR((size_t)here, &others);
    if (CPU_COUNT(&others) > 0)
        (void)sched_setaffinity(pid, sizeof others, &others); /* slower, otherwise */
}

int helper_start(int keep, const char *staging, struct helper *ret, struct cay_error *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the helper's socket");
    pid_t pid = fork();
    if (pid == 0)
        serve(pair[1], keep, staging);
    (void)close(pair[1]);
    if (pid < 0) {
        (void)close(pair[0]);
        return error_errno(err, "starting the helper process");
    }
    send_away(pid);
    *ret = (struct helper){.pid = pid, .sock = pair[0]};
    return 0;
}

static int ask(const struct helper *h, const struct request *r) {
    return fd_send(h->sock, r, sizeof *r, NULL, 0);
}

static int ask_about(const struct helper *h, enum op op, const char *id) {
    struct request r = {.op = op};
    memcpy(r.id, id, ID_SIZE);
    return ask(h, &r);
}

int helper_ask(const struct helper *h, enum helper_thing thing, uid_t base, struct cay_error *err) {
    int r = ask(h, &(struct request){.op = OP_MAKE, .thing = thing, .base = base});
    return r < 0 ? error_sys(err, -r, "asking the helper process") : 0;
}

static int take(const struct helper *h, int *fds, size_t count, struct cay_error *err) {
    struct answer a;
    size_t got = 0;
    ssize_t n = fd_receive(h->sock, &a, sizeof a, fds, count, &got);
    if (n != (ssize_t)sizeof a)
        return error_set(err, CAY_UNAVAILABLE, "the helper process has ended");
    if (a.result == 0 && got == count)
        return 0;
    for (size_t i = 0; i < got; i++)
        fd_close(&fds[i]);
    *err = a.err;
    return a.result < 0 ? a.result : error_set(err, CAY_INTERNAL, "the helper sent %zu files", got);
}

int helper_take(const struct helper *h, struct cay_error *err) {
    int fd;
    int r = take(h, &fd, 1, err);
    return r < 0 ? r : fd;
}

int helper_take_pair(const struct helper *h, int *ret_second, struct cay_error *err) {
    int fds[2];
    int r = take(h, fds, 2, err);
    if (r < 0)
        return r;
    *ret_second = fds[1];
    return fds[0];
}

int helper_watch(const struct helper *h, const char *id, struct cay_error *err) {
    int r = ask_about(h, OP_WATCH, id);
    return r < 0 ? error_sys(err, -r, "telling the helper what to clean up") : 0;
}

void helper_forget(const struct helper *h, const char *id) {
    (void)ask_about(h, OP_FORGET, id); /* if it is gone it cleans up nothing */
}

void helper_stop(struct helper *h) {
    if (h->pid == 0)
        return;
    (void)ask(h, &(struct request){.op = OP_QUIT}); /* if it is gone there is nothing to tell */
    fd_close(&h->sock);
    while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *h = HELPER_NONE;
}
