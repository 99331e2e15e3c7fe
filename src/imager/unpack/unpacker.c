#include "imager/unpack/unpacker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "confine/syscalls.h"
#include "imager/unpack/internal.h"

/* What an order consists of: descriptors, and nothing to be read. */
enum { ORDER_IN, ORDER_ROOT, ORDER_REPORT, ORDER_FDS };

enum { SERVED_FD = 3 };

/* ---- the process ---- */

static void tell(void *user, uint64_t bytes_in) {
    struct unpack_report r = {.kind = UNPACK_PROGRESS, .result.blob_size = bytes_in};
    (void)fd_write_all(*(const int *)user, &r, sizeof r);
}

static void serve_one(int fds[static ORDER_FDS]) {
    struct unpack_report r = {.kind = UNPACK_DONE};
    if (unpack_layer(fds[ORDER_IN], fds[ORDER_ROOT], NULL, tell, &fds[ORDER_REPORT], &r.result,
                     &r.err) < 0)
        r.kind = UNPACK_FAILED;
    fd_close(&fds[ORDER_IN]);
    fd_close(&fds[ORDER_ROOT]); /* before it is told: the overlay there is taken down next */
    (void)fd_write_all(fds[ORDER_REPORT], &r, sizeof r);
    fd_close(&fds[ORDER_REPORT]);
}

/* A lock or a pipe that its maker closes must not stay open here. */
static int prepare(int sock, pid_t parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return -errno;
    if (getppid() != parent) /* it died before we could ask to be told */
        return -ESRCH;
    if (sock != SERVED_FD && dup3(sock, SERVED_FD, O_CLOEXEC) < 0)
        return -errno;
    return close_range(SERVED_FD + 1, ~0U, 0) < 0 ? -errno : 0;
}

_noreturn_ static void serve(int sock, pid_t parent) {
    int fds[ORDER_FDS];
    size_t count;
    char order;
    if (prepare(sock, parent) < 0)
        _exit(1);
    while (fd_receive(SERVED_FD, &order, sizeof order, fds, ORDER_FDS, &count) > 0 &&
           count == ORDER_FDS)
        serve_one(fds);
    _exit(0);
}

/* ---- its maker ---- */

int unpacker_start(struct unpacker *ret, struct cay_error *err) {
    int pair[2];
    *ret = UNPACKER_NONE;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "unpacking layers: socket");
    pid_t self = getpid(), pid = fork();
    if (pid == 0)
        serve(pair[1], self);
    int saved = errno;
    (void)close(pair[1]);
    *ret = (struct unpacker){.pid = pid, .sock = pair[0]};
    if (pid > 0)
        return 0;
    fd_close(&ret->sock);
    return error_sys(err, saved, "unpacking layers: fork");
}

static int follow(int report, unpack_progress progress, void *user, struct unpack_result *ret,
                  struct cay_error *err) {
    struct unpack_report r;
    while (!unpack_take_report(report, &r))
        if (progress != NULL)
            progress(user, r.result.blob_size);
    if (r.kind == UNPACK_DONE) {
        *ret = r.result;
        return 0;
    }
    if (err != NULL)
        *err = r.err;
    return -(int)r.err.code;
}

int unpacker_run(const struct unpacker *u, int in, int root, unpack_progress progress, void *user,
                 struct unpack_result *ret, struct cay_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, "unpacking a layer: pipe");
    _cleanup_(closep) int report = ends[0];
    const int fds[ORDER_FDS] = {[ORDER_IN] = in, [ORDER_ROOT] = root, [ORDER_REPORT] = ends[1]};
    int r = fd_send(u->sock, "", 1, fds, ORDER_FDS);
    (void)close(ends[1]);
    if (r < 0) {
        error_set(err, CAY_INTERNAL, "unpacking a layer: its process is gone");
        return error_remedy(err, "try again; see the kernel log if memory was short");
    }
    return follow(report, progress, user, ret, err);
}

void unpacker_stop(struct unpacker *u) {
    fd_close(&u->sock);
    while (u->pid > 0 && waitpid(u->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    u->pid = -1;
}
