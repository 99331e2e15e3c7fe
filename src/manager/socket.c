#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "manager/internal.h"

enum { BACKLOG = 128, PAUSE_MIN_MS = 1, PAUSE_MAX_MS = 50 };

/* Relative to the work folder: 108 bytes are few for an absolute path. */
static int socket_address(const char *id, struct sockaddr_un *ret, struct cay_error *err) {
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    int r = str_format(ret->sun_path, sizeof ret->sun_path, "run/%s.sock", id);
    return r < 0 ? error_sys(err, -r, "naming the socket of sandbox %s", id) : 0;
}

int socket_listen(const char *id, struct cay_error *err) {
    struct sockaddr_un address;
    int r = socket_address(id, &address, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_errno(err, "making a socket");
    if (unlink(address.sun_path) < 0 && errno != ENOENT)
        return error_errno(err, "replacing '%s'", address.sun_path);
    /* before the bind, whose file gets this mode: never for a moment open to others */
    if (fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, BACKLOG) < 0)
        return error_errno(err, "listening on '%s'", address.sun_path);
    return TAKE_FD(fd);
}

static void pause_ms(int64_t ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

/* EAGAIN is a full backlog: many come at once, or it is slow to accept. */
static int connect_before(int fd, const struct sockaddr_un *address, int64_t deadline) {
    int64_t pause = PAUSE_MIN_MS;
    while (connect(fd, (const struct sockaddr *)address, sizeof *address) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
        if (clock_expired(deadline))
            return -ETIMEDOUT;
        pause_ms(pause);
        pause = MIN(2 * pause, (int64_t)PAUSE_MAX_MS);
    }
    return 0;
}

int socket_connect(const char *id, int64_t timeout_ms, struct cay_error *err) {
    struct sockaddr_un address;
    int r = socket_address(id, &address, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_errno(err, "making a socket");
    r = connect_before(fd, &address, clock_deadline(timeout_ms));
    if (r == 0)
        r = fd_set_nonblocking(fd, false);
    if (r == -ETIMEDOUT)
        return error_set(err, CAY_TIMEOUT, "sandbox %s accepts no connection within %lld s", id,
                         (long long)timeout_ms / 1000);
    if (r == -ECONNREFUSED || r == -ENOENT) {
        error_set(err, CAY_UNAVAILABLE, "nobody answers in sandbox %s: it has just ended", id);
        return error_remedy(err,
                            "nothing was done, so it is safe to try again; see its state with: "
                            "cay info %s",
                            id);
    }
    return r < 0 ? error_sys(err, -r, "connecting to sandbox %s", id) : TAKE_FD(fd);
}

void socket_remove(const char *id) {
    struct sockaddr_un address;
    if (socket_address(id, &address, NULL) == 0)
        (void)unlink(address.sun_path);
}
