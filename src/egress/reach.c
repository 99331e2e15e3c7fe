#include "egress/reach.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

enum { CONNECT_MS = 10 * 1000, ADDRESSES_MAX = 16 };

/* ---- what is refused ---- */

static int forbid_name(const struct network *n, const char *host, unsigned port,
                       struct cay_error *err) {
    if (network_has_name_elsewhere(n, host)) {
        error_set(err, CAY_FORBIDDEN, "%s is on this sandbox's network list, port %u is not", host,
                  port);
        return error_remedy(err, "list it as %s:%u", host, port);
    }
    error_set(err, CAY_FORBIDDEN, "%s is not on this sandbox's network list", host);
    return error_remedy(err, "make the sandbox with it: --network allow=%s", host);
}

/* What a name resolves to on the host is not for the sandbox to learn. */
static int forbid_address(const char *host, enum network_verdict verdict, struct cay_error *err) {
    if (verdict == NETWORK_UNLISTED) {
        error_set(err, CAY_FORBIDDEN, "%s is not on this sandbox's network list", host);
        return error_remedy(err, "list the name, or a range that has its address");
    }
    if (verdict == NETWORK_PRIVATE) {
        error_set(err, CAY_FORBIDDEN, "%s has a private address", host);
        return error_remedy(err, "list a private range that has it");
    }
    error_set(err, CAY_FORBIDDEN,
              "%s is the host itself, link-local, metadata or multicast, which no sandbox reaches",
              host);
    return error_remedy(err, "use a service elsewhere");
}

/* ---- addresses ---- */

/* The kernel answers from an address of its own with that very address. */
static bool is_own(const struct sockaddr *address, socklen_t len) {
    struct sockaddr_in6 from = {0};
    socklen_t from_len = sizeof from;
    _cleanup_(closep) int fd = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;
    if (connect(fd, address, len) < 0)
        return false; /* nor can it be reached */
    if (getsockname(fd, (struct sockaddr *)&from, &from_len) < 0)
        return true;
    if (address->sa_family == AF_INET)
        return ((const struct sockaddr_in *)&from)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)address)->sin_addr.s_addr;
    return IN6_ARE_ADDR_EQUAL(&from.sin6_addr, &((const struct sockaddr_in6 *)address)->sin6_addr);
}

static int look_up(const char *host, unsigned port, struct addrinfo **ret, struct cay_error *err) {
    char service[8];
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    (void)snprintf(service, sizeof service, "%u", port);
    int r = getaddrinfo(host, service, &hints, ret);
    if (r == 0)
        return 0;
    error_set(err, CAY_UNAVAILABLE, "the name %s was not found (%s)", host, gai_strerror(r));
    return error_remedy(err, "check the name, and the name server of the host");
}

/* ---- connecting ---- */

static int wait_connected(int fd, int64_t deadline) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int r, sys = 0;
    socklen_t len = sizeof sys;
    do
        r = poll(&p, 1, clock_poll_timeout(deadline));
    while (r < 0 && errno == EINTR);
    if (r == 0)
        return -ETIMEDOUT;
    if (r < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &len) < 0)
        return -errno;
    return -sys;
}

static int connect_before(const struct sockaddr *address, socklen_t len, int64_t deadline) {
    const int on = 1;
    _cleanup_(closep) int fd =
        socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int r = connect(fd, address, len) < 0 ? -errno : 0;
    if (r == -EINPROGRESS)
        r = wait_connected(fd, deadline);
    if (r == 0)
        r = fd_set_nonblocking(fd, false);
    if (r < 0)
        return r;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* only an improvement */
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on); /* so that the dead are found */
    return TAKE_FD(fd);
}

static int fail_connect(const char *host, unsigned port, int sys, struct cay_error *err) {
    if (sys == ETIMEDOUT) {
        error_set(err, CAY_TIMEOUT, "%s:%u does not answer", host, port);
        return error_remedy(err, "try again later");
    }
    error_sys(err, sys, "connecting to %s:%u", host, port);
    if (err != NULL)
        err->code = CAY_UNAVAILABLE;
    return error_remedy(err, "check that the service runs, and the network of the host");
}

static enum network_verdict judge(const struct network *n, const struct addrinfo *a, bool by_name) {
    enum network_verdict v = network_judge(n, a->ai_addr, by_name);
    return v == NETWORK_OPEN && is_own(a->ai_addr, a->ai_addrlen) ? NETWORK_CLOSED : v;
}

/* To the first that is open and answers; the others are as if they were not there. */
static int connect_any(const struct network *n, const char *host, unsigned port,
                       const struct addrinfo *list, bool by_name, struct cay_error *err) {
    int64_t deadline = clock_deadline(CONNECT_MS);
    enum network_verdict first = judge(n, list, by_name);
    int fd = -EACCES;
    unsigned tried = 0;
    for (const struct addrinfo *a = list; fd < 0 && a != NULL && tried < ADDRESSES_MAX;
         a = a->ai_next, tried++)
        if (judge(n, a, by_name) == NETWORK_OPEN)
            fd = connect_before(a->ai_addr, a->ai_addrlen, deadline);
    if (fd >= 0)
        return fd;
    if (fd != -EACCES || first == NETWORK_OPEN)
        return fail_connect(host, port, -fd, err);
    return forbid_address(host, first, err);
}

int reach_connect(const struct network *n, const char *host, unsigned port, struct cay_error *err) {
    struct addrinfo *list = NULL;
    struct in6_addr any;
    bool is_address = inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1;
    /* An address has no name; only "*" is about it too. */
    bool by_name = network_has_name(n, is_address ? "" : host, port);
    if (!is_address && !by_name && !network_has_ranges(n))
        return forbid_name(n, host, port, err);
    int r = look_up(host, port, &list, err);
    if (r < 0)
        return r;
    r = connect_any(n, host, port, list, by_name, err);
    freeaddrinfo(list);
    return r;
}
