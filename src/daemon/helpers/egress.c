#include "daemon/helpers/egress.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/program.h"
#include "daemon/control.h"
#include "daemon/settings.h"
#include "egress/control.h"
#include "egress/places.h"

enum { START_MS = 5000, LIVED_MS = 30 * 1000, PAUSE_MIN_MS = 50, PAUSE_MAX_MS = 10 * 1000 };

/* ---- the supervisor ---- */

void egress_replace(const struct settings *s, int sock, pid_t *pid) {
    char program[PATH_MAX];
    struct cay_error err;
    if (*pid != 0)
        (void)kill(*pid, SIGKILL); /* the front has no use for it any more */
    *pid = 0;
    int r = program_find("cay-egress", program, sizeof program, &err);
    if (r == 0) {
        r = egress_spawn(program, sock, s->is_root ? role_id(&s->ids, ROLE_EGRESS) : 0, EGRESS_LOGS,
                         pid);
        if (r < 0)
            error_sys(&err, -r, "starting '%s'", program);
    }
    if (r < 0)
        log_event(LOG_LEVEL_ERROR, "the proxy of sandboxes does not start", "why", "%s",
                  err.message);
}

/* ---- the front ---- */

void egress_link_init(struct egress_link *l, int control, const struct egress_hears *hears,
                      void *user) {
    *l = (struct egress_link){.control = control, .sock = -1, .hears = hears, .user = user};
    (void)pthread_mutex_init(&l->lock, NULL);
}

struct watched {
    struct egress_link *link;
    int sock; /* a copy */
    int64_t born;
};

static void pause_ms(int64_t ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

/* How long to wait before the next one is started: one that does not live is no help. */
static int64_t next_pause(struct egress_link *l, int64_t born) {
    bool was_well = clock_ms() - born > LIVED_MS;
    l->pause_ms =
        was_well || l->pause_ms == 0 ? PAUSE_MIN_MS : MIN(2 * l->pause_ms, (int64_t)PAUSE_MAX_MS);
    return l->pause_ms;
}

/* False when the proxy has ended, or says what it should not: it reads what sandboxes send. */
static bool hear(const struct egress_link *l, int sock) {
    struct pollfd p = {.fd = sock, .events = POLLIN};
    struct egress_news n;
    if (poll(&p, 1, -1) < 0)
        return errno == EINTR;
    ssize_t got = recv(sock, &n, sizeof n, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    if (got != (ssize_t)sizeof n || memchr(n.owner, '\0', sizeof n.owner) == NULL ||
        (n.owner[0] != '\0' && !id_is_valid(n.owner)) || n.connections > PLACES_MAX)
        return false;
    l->hears->counted(l->user, n.owner, n.connections);
    return true;
}

/* Until the proxy ends. */
static void *watch(void *user) {
    struct watched *w = user;
    struct egress_link *l = w->link;
    while (hear(l, w->sock))
        ;
    (void)pthread_mutex_lock(&l->lock);
    fd_close(&l->sock);
    int64_t pause = next_pause(l, w->born);
    (void)pthread_mutex_unlock(&l->lock);
    log_event(LOG_LEVEL_WARN, "the proxy of sandboxes has ended", NULL, "%s", "");
    (void)close(w->sock);
    free(w);
    pause_ms(pause);
    l->hears->lost(l->user);
    return NULL;
}

static int start_watching(struct egress_link *l, int sock, struct cay_error *err) {
    pthread_t thread;
    struct watched *w = malloc(sizeof *w);
    if (w == NULL)
        return error_sys(err, ENOMEM, "watching the proxy");
    *w = (struct watched){.link = l, .sock = fcntl(sock, F_DUPFD_CLOEXEC, 0), .born = clock_ms()};
    int r = w->sock < 0 ? errno : pthread_create(&thread, NULL, watch, w);
    if (r == 0)
        return -pthread_detach(thread);
    fd_close(&w->sock);
    free(w);
    return error_sys(err, r, "watching the proxy");
}

/* Its first word says that it serves. */
static int await_start(int sock, struct cay_error *err) {
    char ready;
    struct pollfd p = {.fd = sock, .events = POLLIN};
    if (poll(&p, 1, START_MS) == 1 && recv(sock, &ready, 1, MSG_DONTWAIT) == 1)
        return 0;
    error_set(err, CAY_UNAVAILABLE, "the proxy of sandboxes does not start");
    return error_remedy(err, "the daemon's log says why");
}

static int start(struct egress_link *l, struct cay_error *err) {
    int pair[2];
    const struct control_message m = {.op = CONTROL_EGRESS};
    if (l->sock >= 0)
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the proxy's socket");
    _cleanup_(closep) int sock = pair[0];
    int r = control_send(l->control, &m, &pair[1], 1);
    (void)close(pair[1]);
    if (r < 0)
        return error_sys(err, -r, "asking for the proxy");
    r = await_start(sock, err);
    if (r == 0)
        r = start_watching(l, sock, err);
    if (r < 0)
        return r;
    (void)fd_set_nonblocking(sock, true); /* one that hangs must not hold us up */
    l->sock = TAKE_FD(sock);
    return 0;
}

int egress_link_set(struct egress_link *l, const struct egress_wish *wish, struct cay_error *err) {
    (void)pthread_mutex_lock(&l->lock);
    int r = start(l, err);
    if (r == 0)
        r = egress_send_set(l->sock, wish, err);
    (void)pthread_mutex_unlock(&l->lock);
    return r;
}

void egress_link_drop(struct egress_link *l, const char *id) {
    (void)pthread_mutex_lock(&l->lock);
    if (l->sock >= 0)
        (void)egress_send_drop(l->sock, id, NULL); /* gone: so is what it knew */
    (void)pthread_mutex_unlock(&l->lock);
}
