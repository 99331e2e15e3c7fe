#include "base/relay.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"

enum { CHUNK = 64 * 1024 };

/* One direction. */
struct flow {
    int from, to;
    size_t start, len; /* what is in data */
    bool ended;        /* no more comes */
    bool passed_on;    /* and the other side knows */
    char *data;
    size_t size;
    int64_t first_us; /* when its first byte came; 0: none did */
    const struct relay_watch *watch;
};

/* Who leaves with unread bytes resets the connection; for us that is an end like any other. */
static int fill(struct flow *f) {
    ssize_t n = recv(f->from, f->data, f->size, MSG_DONTWAIT);
    if (n < 0 && errno == ECONNRESET)
        n = 0;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    f->ended = n == 0;
    f->start = 0;
    f->len = (size_t)n;
    if (n > 0 && f->first_us == 0)
        f->first_us = clock_us();
    if (n > 0 && f->watch != NULL)
        f->watch->see(f->watch->user, f->data, f->len);
    return 0;
}

/* A side that takes nothing more may have said its last words: those still go the other way. */
static int give_up(struct flow *f) {
    f->len = 0;
    f->ended = f->passed_on = true;
    return 0;
}

static int drain(struct flow *f) {
    ssize_t n = send(f->to, f->data + f->start, f->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
        return give_up(f);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    f->start += (size_t)n;
    f->len -= (size_t)n;
    return 0;
}

static int step(struct flow *f, short from_events, short to_events) {
    int r = 0;
    if (f->len == 0 && !f->ended && (from_events & (POLLIN | POLLHUP | POLLERR)) != 0)
        r = fill(f);
    if (r == 0 && f->len > 0 && ((to_events & (POLLOUT | POLLHUP | POLLERR)) != 0 || f->start == 0))
        r = drain(f);
    if (r == 0 && f->ended && f->len == 0 && !f->passed_on) {
        (void)shutdown(f->to, SHUT_WR); /* gone already: the other direction finds out */
        f->passed_on = true;
    }
    return r;
}

/* A side that hung up takes nothing more and would be reported for ever. */
static bool is_gone(const struct pollfd *p, const struct flow *from_it) {
    return (p->revents & (POLLERR | POLLHUP)) != 0 && from_it->ended && from_it->len == 0;
}

/* What to wait for at the side that `from_it` comes from. While its bytes wait for the other side,
 * even its end does not matter; asking would be answered at once, again and again. */
static struct pollfd wanted(const struct flow *from_it, const struct flow *to_it) {
    bool can_read = from_it->len == 0 && !from_it->ended, must_write = to_it->len > 0;
    return (struct pollfd){
        .fd = from_it->len > 0 && !must_write ? -1 : from_it->from,
        .events = (short)((can_read ? POLLIN : 0) | (must_write ? POLLOUT : 0)),
    };
}

static int run(struct flow *ab, struct flow *ba, int64_t idle_ms) {
    while (!ab->passed_on || !ba->passed_on) {
        struct pollfd p[2] = {wanted(ab, ba), wanted(ba, ab)};
        int n = poll(p, ARRAY_LEN(p), idle_ms > 0 ? (int)idle_ms : -1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? -ETIMEDOUT : -errno;
        int r = step(ab, p[0].revents, p[1].revents);
        if (r == 0)
            r = step(ba, p[1].revents, p[0].revents);
        if (r < 0)
            return r;
        if ((is_gone(&p[0], ab) && !ba->passed_on) || (is_gone(&p[1], ba) && !ab->passed_on))
            return 0;
    }
    return 0;
}

static int flow_init(struct flow *f, int from, int to, size_t size) {
    *f = (struct flow){.from = from, .to = to, .data = malloc(size), .size = size};
    return f->data == NULL ? -ENOMEM : 0;
}

static int relay(int a, int b, const char *early, size_t early_len, const struct relay_watch *watch,
                 int64_t idle_ms, int64_t *ret_first_us) {
    struct flow ab = {0}, ba = {0};
    int r = flow_init(&ab, a, b, MAX((size_t)CHUNK, early_len));
    if (r == 0)
        r = flow_init(&ba, b, a, CHUNK);
    if (r == 0)
        r = fd_set_nonblocking(a, true);
    if (r == 0)
        r = fd_set_nonblocking(b, true);
    if (r == 0) {
        if (early_len > 0)
            memcpy(ab.data, early, early_len);
        ab.len = early_len;
        ba.watch = watch;
        r = run(&ab, &ba, idle_ms);
    }
    *ret_first_us = ba.first_us;
    free(ab.data);
    free(ba.data);
    return r;
}

int relay_run(int a, int b, const char *early, size_t early_len, const struct relay_watch *watch,
              int64_t *ret_first_us) {
    return relay(a, b, early, early_len, watch, 0, ret_first_us);
}

int relay_run_idle(int a, int b, int64_t idle_ms, int64_t *ret_first_us) {
    return relay(a, b, NULL, 0, NULL, idle_ms, ret_first_us);
}
