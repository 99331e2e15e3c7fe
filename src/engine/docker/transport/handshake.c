#include "engine/docker/transport/handshake.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"

/* By the descriptor of the folder, since its name may be longer than a socket's may be. */
static int bind_in(int sock, int folder) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    (void)snprintf(name.sun_path, sizeof name.sun_path, "/proc/self/fd/%d/" DOCKER_DOOR_NAME,
                   folder);
    if (bind(sock, (const struct sockaddr *)&name, sizeof name) < 0)
        return -errno;
    /* Root inside may be another id outside. Nobody else passes the folder above. */
    if (fchmodat(folder, DOCKER_DOOR_NAME, 0666, 0) < 0 || listen(sock, 1) < 0)
        return -errno;
    return 0;
}

int docker_door_open(int folder, struct cay_error *err) {
    if (unlinkat(folder, DOCKER_DOOR_NAME, 0) < 0 && errno != ENOENT)
        return error_errno(err, "removing an old way into the container");
    _cleanup_(closep) int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return error_errno(err, "making the way into the container");
    int r = bind_in(sock, folder);
    return r < 0 ? error_sys(err, -r, "making the way into the container") : TAKE_FD(sock);
}

void docker_door_close(int folder, int *door) {
    fd_close(door);
    (void)unlinkat(folder, DOCKER_DOOR_NAME, 0); /* the next start tries again */
}

static int wait_for(int fd, int64_t deadline, struct cay_error *err) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n;
    do
        n = poll(&p, 1, clock_poll_timeout(deadline));
    while (n < 0 && errno == EINTR);
    if (n > 0)
        return 0;
    error_set(err, CAY_TIMEOUT, "the container was started, but its first process did not come");
    return error_remedy(err, "look what 'docker logs' and the log of dockerd say");
}

int docker_report_error(struct docker_report *report, struct cay_error *err) {
    report->step[sizeof report->step - 1] = '\0';
    error_sys(err, report->sys, "in the container, %s", report->step);
    error_sanitize(err);
    return -(int)err->code;
}

/* The end of the connection is the good news: cay-init runs, and has closed it. */
static int await_report(int sock, int64_t deadline, struct cay_error *err) {
    struct docker_report report;
    int r = wait_for(sock, deadline, err);
    if (r < 0)
        return r;
    ssize_t n = recv(sock, &report, sizeof report, 0);
    if (n == 0)
        return 0;
    if (n != (ssize_t)sizeof report)
        return error_set(err, CAY_INTERNAL, "the first process of the container made no sense");
    return docker_report_error(&report, err);
}

int docker_door_serve(int door, const struct docker_orders *orders, int init, int listener,
                      int timeout_ms, struct cay_error *err) {
    int64_t deadline = clock_ms() + timeout_ms;
    int fds[] = {init, listener};
    int r = wait_for(door, deadline, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int sock = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    if (sock < 0)
        return error_errno(err, "letting the container's first process in");
    r = fd_send(sock, orders, sizeof *orders, fds, ARRAY_LEN(fds));
    return r < 0 ? error_sys(err, -r, "giving orders to the container's first process")
                 : await_report(sock, deadline, err);
}
