#include "api/http/tls_pump.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/auto.h"
#include "base/clock.h"

enum { RECORD_MAX = 16 * 1024, GOODBYE_MS = 1000 };

/* Bytes on their way. */
struct piece {
    size_t at, len;
    bool ended; /* no more come */
    char data[RECORD_MAX];
};

struct pump {
    gnutls_session_t session;
    int tcp, plain;
    struct piece in, out; /* as the client sees them: in is what he hears */
    bool is_reported;     /* plain knows that the client has ended */
};

/* ---- the client's side ---- */

static int receive(struct pump *p) {
    struct piece *from = &p->out;
    ssize_t n = gnutls_record_recv(p->session, from->data, sizeof from->data);
    if (n < 0)
        return gnutls_error_is_fatal((int)n) ? -ECONNRESET : 0;
    from->ended = n == 0;
    from->at = 0;
    from->len = (size_t)n;
    return 0;
}

/* Until the next call the bytes must stay where they are: the library may have begun with them. */
static int encrypt(struct pump *p) {
    struct piece *to = &p->in;
    ssize_t n = gnutls_record_send(p->session, to->data + to->at, to->len);
    if (n < 0)
        return gnutls_error_is_fatal((int)n) ? -ECONNRESET : 0;
    to->at += (size_t)n;
    to->len -= (size_t)n;
    return 0;
}

/* ---- the other side ---- */

static int is_later(void) {
    return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static int fill(struct pump *p) {
    struct piece *to = &p->in;
    ssize_t n = recv(p->plain, to->data, sizeof to->data, MSG_DONTWAIT);
    if (n < 0 && errno != ECONNRESET)
        return is_later();
    to->ended = n <= 0;
    to->at = 0;
    to->len = n > 0 ? (size_t)n : 0;
    return 0;
}

/* One who takes nothing more may have more to say. */
static int drain(struct pump *p) {
    struct piece *from = &p->out;
    ssize_t n = send(p->plain, from->data + from->at, from->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EPIPE && errno != ECONNRESET)
        return is_later();
    from->ended |= n < 0;
    from->at += n < 0 ? 0 : (size_t)n;
    from->len = n < 0 ? 0 : from->len - (size_t)n;
    return 0;
}

static void report_end(struct pump *p) {
    if (!p->out.ended || p->out.len > 0 || p->is_reported)
        return;
    (void)shutdown(p->plain, SHUT_WR); /* gone already is fine */
    p->is_reported = true;
}

/* ---- both ---- */

/* Nothing is asked of a side that has nothing to do: its end would be told again and again. */
static struct pollfd want(int fd, bool reads, bool writes) {
    short events = (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
    return (struct pollfd){.fd = events != 0 ? fd : -1, .events = events};
}

static int step(struct pump *p) {
    bool hears = p->out.len == 0 && !p->out.ended, reads = p->in.len == 0 && !p->in.ended;
    bool is_waiting = hears && gnutls_record_check_pending(p->session) > 0;
    struct pollfd fds[] = {want(p->tcp, hears, p->in.len > 0),
                           want(p->plain, reads, p->out.len > 0)};
    if (poll(fds, 2, is_waiting ? 0 : -1) < 0)
        return is_later();
    int r = 0;
    if (hears && (is_waiting || fds[0].revents != 0))
        r = receive(p);
    if (r == 0 && p->in.len > 0 && fds[0].revents != 0)
        r = encrypt(p);
    if (r == 0 && reads && fds[1].revents != 0)
        r = fill(p);
    if (r == 0 && p->out.len > 0)
        r = drain(p);
    report_end(p);
    return r;
}

/* A connection that is closed with unread bytes is reset, and the last words may be lost: so a
 * client that still talks is heard out for a moment. */
static void say_goodbye(const struct pump *p) {
    int64_t deadline = clock_deadline(GOODBYE_MS);
    char ignored[RECORD_MAX];
    ssize_t n = 1;
    (void)gnutls_bye(p->session, GNUTLS_SHUT_WR); /* he may be gone, or full */
    while (n > 0 && !clock_expired(deadline)) {
        struct pollfd fd = {.fd = p->tcp, .events = POLLIN};
        if (poll(&fd, 1, clock_poll_timeout(deadline)) > 0)
            n = recv(p->tcp, ignored, sizeof ignored, MSG_DONTWAIT);
    }
}

int tls_pump(void *session, int tcp, int plain) {
    struct pump p = {.session = session, .tcp = tcp, .plain = plain};
    int r = 0;
    while (r == 0 && (!p.in.ended || p.in.len > 0))
        r = step(&p);
    (void)shutdown(plain, SHUT_RDWR); /* nobody is there any more */
    if (r == 0 && !p.out.ended)
        say_goodbye(&p);
    return r;
}
