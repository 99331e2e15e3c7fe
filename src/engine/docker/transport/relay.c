#include "engine/docker/transport/relay.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "confine/idrange.h"
#include "engine/docker/spec.h"

#define RELAY_PATH DOCKER_WAY_INSIDE "/init"

enum { BACKLOG = 128, COME_MS = 20 * 1000, AGAIN_MS = 5 };

void relay_put_number(unsigned char *out, size_t size, uint64_t number) {
    for (size_t i = 0; i < size; i++)
        out[i] = (unsigned char)(number >> (8 * i));
}

uint64_t relay_get_number(const unsigned char *in, size_t size) {
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++)
        number |= (uint64_t)in[i] << (8 * i);
    return number;
}

/* Whether there is the mount for it. Nothing in an image can look like one. */
static bool has_way(void) {
    struct stat root, way;
    return lstat("/", &root) == 0 && lstat(DOCKER_WAY_INSIDE, &way) == 0 && S_ISDIR(way.st_mode) &&
           way.st_dev != root.st_dev && way.st_uid == IDRANGE_INIT_ID &&
           (way.st_mode & 07777) == S_IRWXU;
}

static struct sockaddr_un relay_address(socklen_t *ret_len) {
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = RELAY_PATH};
    *ret_len = sizeof name;
    if (has_way())
        return name;
    memset(name.sun_path, 0, sizeof name.sun_path);
    memcpy(name.sun_path + 1, RELAY_NAME, sizeof RELAY_NAME - 1);
    *ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof RELAY_NAME);
    return name;
}

/* In a folder that only cay-init's id may enter, whatever we are. */
static int bind_as_init(int sock, const struct sockaddr_un *name, socklen_t len) {
    uid_t self = geteuid();
    bool is_path = name->sun_path[0] != '\0';
    if (is_path && seteuid(IDRANGE_INIT_ID) < 0)
        return -errno;
    int r = bind(sock, (const struct sockaddr *)name, len) < 0 ? -errno : 0;
    if (is_path && seteuid(self) < 0)
        return -errno;
    return r;
}

int relay_listen(void) {
    socklen_t len;
    struct sockaddr_un name = relay_address(&len);
    _cleanup_(closep) int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return -errno;
    int r = bind_as_init(sock, &name, len);
    if (r < 0)
        return r;
    return listen(sock, BACKLOG) < 0 ? -errno : TAKE_FD(sock);
}

/* The first process of the container may not have come so far yet. */
static int connect_inside(void) {
    socklen_t len;
    struct sockaddr_un name = relay_address(&len);
    int64_t deadline = clock_ms() + COME_MS;
    _cleanup_(closep) int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return -errno;
    while (connect(sock, (const struct sockaddr *)&name, len) < 0) {
        if ((errno != ECONNREFUSED && errno != ENOENT && errno != EINTR) || clock_ms() > deadline)
            return -errno;
        (void)usleep(AGAIN_MS * 1000);
    }
    return TAKE_FD(sock);
}

/* ---- both directions ---- */

struct relay {
    int sock;
    unsigned char in[RELAY_DATA_MAX + RELAY_HEADER]; /* frames, from stdin */
    size_t in_at, in_end;
    size_t left; /* of the frame that is being passed on */
    bool in_over, in_finished;
    bool in_dropped; /* nobody takes it any more */
    char out[RELAY_DATA_MAX];
    size_t out_at, out_end;
    uint64_t out_total; /* written so far */
    bool out_over, out_reported;
    bool peer_gone; /* cay-init has closed the connection */
};

/* True if a frame begins at in_at whose header is there. */
static bool has_header(const struct relay *r) {
    return r->left == 0 && r->in_end - r->in_at >= RELAY_HEADER;
}

static size_t to_send(const struct relay *r) {
    size_t held = r->in_end - r->in_at;
    return r->left < held ? r->left : held;
}

/* 0, or -errno for what cannot go on. */
static int take_header(struct relay *r) {
    r->left = (size_t)relay_get_number(r->in + r->in_at, RELAY_HEADER);
    r->in_at += RELAY_HEADER;
    if (r->left > RELAY_DATA_MAX || r->in_finished)
        return -EPROTO;
    if (r->left == 0) {
        r->in_finished = true;
        (void)shutdown(r->sock, SHUT_WR);
    }
    return 0;
}

static int pass_in(struct relay *r) {
    for (;;) {
        while (has_header(r) && to_send(r) == 0) {
            int code = take_header(r);
            if (code < 0)
                return code;
        }
        if (to_send(r) == 0)
            return 0;
        ssize_t n = send(r->sock, r->in + r->in_at, to_send(r), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0) {
            r->in_at += (size_t)n;
            r->left -= (size_t)n;
        }
    }
}

static void read_in(struct relay *r) {
    if (r->in_dropped)
        r->in_at = r->in_end = r->left = 0;
    memmove(r->in, r->in + r->in_at, r->in_end - r->in_at);
    r->in_end -= r->in_at;
    r->in_at = 0;
    ssize_t n = read(STDIN_FILENO, r->in + r->in_end, sizeof r->in - r->in_end);
    if (n > 0)
        r->in_end += (size_t)n;
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        r->in_over = true;
}

static void read_out(struct relay *r) {
    ssize_t n = recv(r->sock, r->out, sizeof r->out, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    r->out_at = 0;
    r->out_end = n > 0 ? (size_t)n : 0;
    r->out_over = n <= 0;
}

static int report_total(struct relay *r) {
    unsigned char total[RELAY_TOTAL];
    r->out_reported = true;
    relay_put_number(total, sizeof total, r->out_total);
    return fd_write_all(STDERR_FILENO, total, sizeof total);
}

static int pass_out(struct relay *r) {
    while (r->out_at < r->out_end) {
        ssize_t n = write(STDOUT_FILENO, r->out + r->out_at, r->out_end - r->out_at);
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0) {
            r->out_at += (size_t)n;
            r->out_total += (uint64_t)n;
        }
    }
    return r->out_over && !r->out_reported ? report_total(r) : 0;
}

/* Of a connection that is gone nothing more is expected: it would wake us for ever. */
static void watch(const struct relay *r, struct pollfd p[static 3]) {
    bool sends = to_send(r) > 0 && !r->in_dropped, writes = r->out_at < r->out_end;
    short events = (short)((sends ? POLLOUT : 0) | (!writes && !r->out_over ? POLLIN : 0));
    p[0] = (struct pollfd){.fd = r->in_over || sends ? -1 : STDIN_FILENO, .events = POLLIN};
    p[1] = (struct pollfd){.fd = writes ? STDOUT_FILENO : -1, .events = POLLOUT};
    p[2] = (struct pollfd){.fd = r->peer_gone && events == 0 ? -1 : r->sock, .events = events};
}

static bool is_over(const struct relay *r) {
    bool in_done = r->in_over && (to_send(r) == 0 || r->in_dropped);
    bool out_done = r->out_over && r->out_at == r->out_end;
    return in_done || (out_done && r->peer_gone);
}

/* After a connection that takes no more has failed, it may still have something to say. */
static int pass(struct relay *r) {
    int code = r->in_dropped ? 0 : pass_in(r);
    if (code == -EPIPE || code == -ECONNRESET) {
        r->in_dropped = true;
        code = 0;
    }
    return code < 0 ? code : pass_out(r);
}

/* Whether poll says that the peer of a socket is gone: gVisor's does not. */
static bool kernel_tells_of_ends(void) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return true;
    (void)close(pair[1]);
    struct pollfd p = {.fd = pair[0]};
    bool tells = poll(&p, 1, 0) > 0 && (p.revents & POLLHUP) != 0;
    (void)close(pair[0]);
    return tells;
}

static int loop(struct relay *r) {
    struct pollfd p[3];
    int code = 0;
    bool tells = kernel_tells_of_ends();
    while (code == 0 && !is_over(r)) {
        watch(r, p);
        if (poll(p, ARRAY_LEN(p), -1) < 0) {
            code = errno == EINTR ? 0 : -errno;
            continue;
        }
        r->peer_gone = r->peer_gone || (p[2].revents & (POLLHUP | POLLERR)) != 0;
        if (p[0].revents != 0)
            read_in(r);
        if (p[2].revents != 0 && r->out_at == r->out_end && !r->out_over)
            read_out(r);
        r->peer_gone =
            r->peer_gone || (r->out_over && !tells); /* it might only have nothing to say */
        code = pass(r);
    }
    return code;
}

int relay_between(int sock) {
    static struct relay r;
    r.sock = sock;
    for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO; fd++)
        if (fd_set_nonblocking(fd, true) < 0)
            return 1;
    return loop(&r) < 0 ? 1 : 0;
}

int relay_run(void) {
    static const char ready = RELAY_READY;
    struct pollfd first = {.fd = STDIN_FILENO, .events = POLLIN};
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "cay-init", 0, 0, 0); /* it is no command of the sandbox */
    if (fd_write_all(STDOUT_FILENO, &ready, 1) < 0)
        return 1;
    while (poll(&first, 1, -1) < 0 && errno == EINTR)
        ;
    if ((first.revents & POLLIN) == 0) /* it was not needed */
        return 0;
    int sock = connect_inside();
    return sock < 0 ? 1 : relay_between(sock);
}
