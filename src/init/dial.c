/* Connecting to a service inside the sandbox. After the answer the connection is the raw stream. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/str.h"
#include "init/files/files.h"

enum { RELAY_SIZE = WIRE_DATA_MAX };

/* One direction of the relay. */
struct flow {
    int from;
    int to;
    char *data;
    size_t start, end; /* bytes read and not yet written */
    bool eof;          /* `from` has ended */
    bool done;         /* nothing more will be written */
};

static bool flow_holds(const struct flow *f) {
    return f->start < f->end;
}

/* Reads if there is room; an error counts as the end. */
static void flow_fill(struct flow *f) {
    if (f->eof || f->done || flow_holds(f))
        return;
    ssize_t n = recv(f->from, f->data, RELAY_SIZE, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    f->start = 0;
    f->end = n > 0 ? (size_t)n : 0;
    f->eof = n <= 0;
}

/* Writes what is held; passes the end on when everything is written. */
static void flow_drain(struct flow *f) {
    while (!f->done && flow_holds(f)) {
        ssize_t n = send(f->to, f->data + f->start, f->end - f->start, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            f->done = true;
        else
            f->start += (size_t)n;
    }
    if (f->eof && !f->done) {
        (void)shutdown(f->to, SHUT_WR); /* the other end may be gone, which is the end too */
        f->done = true;
    }
}

/* What poll should watch on the descriptor that `in` reads and `out` writes. */
static short interest(const struct flow *in, const struct flow *out) {
    bool reads = !in->eof && !in->done && !flow_holds(in);
    bool writes = !out->done && flow_holds(out);
    return (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
}

/* Relays until both directions have ended. A peer that is gone altogether ends what is written to
 * it at once: nobody will read that. */
static void relay(struct flow *a, struct flow *b) {
    bool gone[2] = {false, false};
    struct flow *in[2] = {a, b}, *out[2] = {b, a};
    while (!a->done || !b->done) {
        struct pollfd fds[2];
        for (int i = 0; i < 2; i++) {
            short events = interest(in[i], out[i]);
            bool ignore = gone[i] && events == 0; /* its hang-up would wake poll for ever */
            fds[i] = (struct pollfd){.fd = ignore ? -1 : in[i]->from, .events = events};
        }
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return;
        for (int i = 0; i < 2; i++) {
            if ((fds[i].revents & (POLLHUP | POLLERR)) != 0)
                gone[i] = out[i]->done = true;
            flow_fill(in[i]);
            flow_drain(in[i]);
            flow_drain(out[i]);
        }
    }
}

static int connect_to(const struct sockaddr *address, socklen_t len) {
    _cleanup_(closep) int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int r;
    do
        r = connect(fd, address, len);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : TAKE_FD(fd);
}

/* The relay must not add to the latency of terminals and screens. */
static int undelayed(int fd) {
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* only an improvement */
    return fd;
}

static int connect_port(uint16_t port, struct cay_error *err) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = connect_to((const struct sockaddr *)&v4, sizeof v4);
    if (fd >= 0)
        return undelayed(fd);
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    v6.sin6_addr = in6addr_loopback;
    int fd6 = connect_to((const struct sockaddr *)&v6, sizeof v6);
    if (fd6 >= 0)
        return undelayed(fd6);
    error_sys(err, -fd, "connecting to port %u in the sandbox", (unsigned)port);
    return error_remedy(err, "start the service first, listening on 127.0.0.1 or 0.0.0.0");
}

static int connect_path(const struct op_conn *c, const struct wire_message *request,
                        struct cay_error *err) {
    char path[PATH_MAX];
    int r = files_path(c, request, WIRE_TAG_PATH, path, err);
    if (r < 0)
        return r;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (str_copy(address.sun_path, sizeof address.sun_path, path) < 0)
        return files_error(err, ENAMETOOLONG, "connecting to", path);
    int fd = connect_to((const struct sockaddr *)&address, sizeof address);
    return fd < 0 ? files_error(err, -fd, "connecting to", path) : fd;
}

static int connect_service(const struct op_conn *c, const struct wire_message *request,
                           struct cay_error *err) {
    if (!request->present[WIRE_TAG_PORT])
        return connect_path(c, request, err);
    uint64_t port = request->number[WIRE_TAG_PORT];
    if (port == 0 || port > UINT16_MAX) {
        error_set(err, CAY_INVALID_ARGUMENT, "%llu is not a port", (unsigned long long)port);
        return error_remedy(err, "use a number from 1 to 65535");
    }
    return connect_port((uint16_t)port, err);
}

/* What the host sent right behind its request is the beginning of the stream. A reader takes at
 * most WIRE_DATA_MAX bytes at once, so no more than that can have come too early. */
static size_t take_early(const struct wire_reader *reader, char data[static RELAY_SIZE]) {
    size_t len = MIN(reader->in.len - reader->used, (size_t)RELAY_SIZE);
    if (len > 0)
        memcpy(data, reader->in.data + reader->used, len);
    return len;
}

int op_dial(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    _cleanup_(closep) int service = connect_service(c, request, err);
    if (service < 0)
        return service;
    _cleanup_(freep) char *data = malloc((size_t)2 * RELAY_SIZE);
    if (data == NULL)
        return error_sys(err, ENOMEM, "relaying");
    int r = files_send(c, WIRE_DONE, NULL, err);
    if (r < 0)
        return r;
    struct flow to_service = {.from = c->fd, .to = service, .data = data};
    to_service.end = take_early(c->reader, data);
    struct flow to_host = {.from = service, .to = c->fd, .data = data + RELAY_SIZE};
    relay(&to_service, &to_host);
    return 0;
}
