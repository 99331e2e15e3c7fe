#include "box.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "wire/client_exec.h"

const struct sandbox_spec box_spec = {
    .memory_bytes = UINT64_C(512) << 20, .cpu_quota_us = 100000, .pids = 256, .tier = TIER_FULL};

static int send_command(int fd, const char *const *argv, struct cay_error *err) {
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    struct exec_request request = {.argv = argv, .env = env, .cwd = "/", .timeout_ms = 300000};
    return exec_send(fd, &request, err);
}

static int receive_status(int fd, struct cay_error *err) {
    enum { CAPTURED = 65536 };
    struct exec_streams s = {
        .in = -1,
        .out = {-1, -1},
        .captured = {BUF_INIT(CAPTURED), BUF_INIT(CAPTURED)},
        .signals = -1,
    };
    struct exec_outcome outcome;
    int r = exec_carry(fd, &s, 0, &outcome, err);
    buf_free(&s.captured[0]);
    buf_free(&s.captured[1]);
    if (r < 0)
        return r;
    return outcome.exit_code == 0
               ? 0
               : error_set(err, CAY_INTERNAL, "the command ended with %d", outcome.exit_code);
}

/* The next answer about this sandbox. */
static int next_answer(const struct launcher_client *c, uint64_t tag, struct launcher_answer *a,
                       struct cay_error *err) {
    do {
        int r = launcher_client_next(c, a, err);
        if (r < 0)
            return r;
    } while (a->tag != tag);
    if (a->event != LAUNCHER_FAILED)
        return 0;
    *err = a->err;
    return -(int)err->code;
}

int box_run(const struct launcher_client *c, uint64_t tag, const char *const *argv, int64_t *ret_us,
            struct cay_error *err) {
    int64_t begin = clock_us();
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making a connection");
    _cleanup_(closep) int fd = pair[0];
    int r = send_command(fd, argv, err);
    if (r == 0)
        r = launcher_client_send(c, tag, &box_spec, pair[1], -1, err);
    (void)close(pair[1]);
    if (r == 0)
        r = receive_status(fd, err);
    *ret_us = clock_us() - begin;
    struct launcher_answer a;
    if (r < 0)
        (void)next_answer(c, tag, &a, err); /* the launcher knows better why */
    return r;
}

int box_wait_ended(const struct launcher_client *c, uint64_t tag, struct cay_error *err) {
    struct launcher_answer a;
    int r;
    do
        r = next_answer(c, tag, &a, err);
    while (r == 0 && a.event != LAUNCHER_ENDED);
    return r;
}

static int make_address(const char *path, struct sockaddr_un *ret, struct cay_error *err) {
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (str_copy(ret->sun_path, sizeof ret->sun_path, path) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "'%s' is too long for a socket", path);
    return 0;
}

int box_start_listening(const struct launcher_client *c, uint64_t tag, const char *path,
                        pid_t *ret_pid, struct cay_error *err) {
    struct sockaddr_un address;
    int r = make_address(path, &address, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 16) < 0)
        return error_errno(err, "listening at '%s'", path);
    struct launcher_answer a;
    r = launcher_client_send(c, tag, &box_spec, -1, fd, err);
    if (r == 0)
        r = next_answer(c, tag, &a, err);
    if (r == 0)
        *ret_pid = a.pid;
    return r;
}

int box_exec(const char *path, const char *const *argv, int64_t *ret_us, struct cay_error *err) {
    struct sockaddr_un address;
    int r = make_address(path, &address, err);
    if (r < 0)
        return r;
    int64_t begin = clock_us();
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return error_errno(err, "connecting to '%s'", path);
    r = send_command(fd, argv, err);
    if (r == 0)
        r = receive_status(fd, err);
    *ret_us = clock_us() - begin;
    return r;
}
