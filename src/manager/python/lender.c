#include "manager/python/lender.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/engine.h"
#include "manager/python/interpreters.h"
#include "manager/python/lender_stock.h"
#include "version.h"

enum {
    BACKLOG = 512,
    GUESTS_MAX = 512,
    REQUEST_MS = 5000, /* for a client to say what it wants */
};

/* A client, from its connection to the end of its sandbox. The lender's thread owns it; a thread of
 * the engine sends what it hears to fd, and sets has_ended. */
struct guest {
    struct lender *lender;
    int fd;
    int64_t until;         /* when its request must be there; 0: it is */
    bool is_lent;          /* there is a sandbox, of this tag */
    bool has_left;         /* the client, which is not listened to any more */
    atomic_bool has_ended; /* the sandbox */
    uint64_t tag;
    struct prepared_answer started; /* what is said once it runs, with these; -1: none, or sent */
    int connection, frozen;
};

struct lender {
    struct lender_options options;
    pthread_t thread;
    int listener;
    struct stat name; /* of the socket's file */
    int wake[2];
    atomic_bool is_closing, is_cut; /* the second: what still runs is ended */
    struct guest *guests[GUESTS_MAX];
    size_t count;
    struct stock stock;
    atomic_ullong commands, programs, refused;
    atomic_size_t running;
};

static void wake_up(struct lender *l) {
    ssize_t ignored = write(l->wake[1], "", 1); /* full: it wakes anyway */
    (void)ignored;
}

/* ---- answers; a client that does not take them is gone ---- */

static void report(int fd, const struct prepared_answer *a, const int *fds, size_t count) {
    (void)fd_send(fd, a, sizeof *a, fds, count);
}

static void report_started(void *user, const char *id, int counter) {
    struct guest *g = user;
    const int all[PREPARED_FDS_MAX] = {g->connection, g->frozen, counter};
    int fds[PREPARED_FDS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < PREPARED_FDS_MAX; i++)
        if (all[i] >= 0)
            fds[count++] = all[i];
    memcpy(g->started.id, id, sizeof g->started.id);
    g->started.has_connection = g->connection >= 0;
    g->started.has_counter = counter >= 0;
    report(g->fd, &g->started, fds, count);
    /* The client's now: a sandbox ends when its last connection does. */
    fd_close(&g->connection);
    fd_close(&g->frozen);
}

static void report_ended(void *user, bool oom_killed, const struct cay_error *err) {
    struct guest *g = user;
    struct prepared_answer a = {.event = PREPARED_ENDED, .oom_killed = oom_killed, .err = *err};
    if (g->started.id[0] == '\0') /* it never began */
        a.event = PREPARED_REFUSED;
    report(g->fd, &a, NULL, 0);
    atomic_store(&g->has_ended, true);
    wake_up(g->lender);
}

/* ---- requests ---- */

static int refuse(struct cay_error *err, const char *why) {
    return error_set(err, CAY_UNSUPPORTED, "%s", why);
}

static int check(const struct lender *l, const struct prepared_request *req, ssize_t len,
                 size_t fds, struct cay_error *err) {
    if (len < PREPARED_VERSION_SIZE || memchr(req->version, '\0', sizeof req->version) == NULL ||
        !str_equal(req->version, CAY_VERSION))
        return refuse(err, "the daemon is of another version");
    if (len != (ssize_t)sizeof *req || fds != 1 ||
        memchr(req->fingerprint, '\0', sizeof req->fingerprint) == NULL ||
        memchr(req->work_dir, '\0', sizeof req->work_dir) == NULL)
        return refuse(err, "the request makes no sense");
    const struct prepared_place *here = &l->options.place, *there = &req->place;
    if (here->mount_ns != there->mount_ns || here->root_dev != there->root_dev ||
        here->root_ino != there->root_ino)
        return refuse(err, "the daemon sees another file tree");
    if (here->umask != there->umask)
        return refuse(err, "the daemon has another umask");
    if (memcmp(here->cpus, there->cpus, sizeof here->cpus) != 0)
        return refuse(err, "the daemon may use other processors");
    return atomic_load(&l->is_closing) ? refuse(err, "the daemon is stopping") : 0;
}

/* One of the stock, or one that is started for it. */
static int lend(struct guest *g, const struct prepared_request *req, int connection,
                struct cay_error *err) {
    struct lender *l = g->lender;
    struct stock_item item;
    if (!stock_take(&l->stock, &req->spec, req->fingerprint, &item))
        return stock_start(l->options.engine, &req->spec, req->fingerprint, connection, &g->tag,
                           err);
    g->connection = item.fd;
    g->tag = item.tag;
    return 0;
}

static void watch(struct guest *g) {
    struct engine *e = g->lender->options.engine;
    const struct engine_watcher watcher = {report_started, report_ended, g};
    g->is_lent = true;
    atomic_fetch_add(&g->lender->running, 1);
    e->ops->once_watch(e, g->tag, &watcher);
}

/* One where an interpreter waits, or one like any other with an interpreter to be woken there. */
static int lend_python(struct guest *g, const struct prepared_request *req, int connection,
                       struct cay_error *err) {
    struct interpreters_loan loan;
    const struct interpreters_wish wish = {.spec = &req->spec,
                                           .may_wait = req->may_wait != 0,
                                           .work_dir = req->work_dir,
                                           .preload = req->preload};
    int r = interpreters_lend(g->lender->options.interpreters, &wish, &loan, err);
    if (r < 0)
        return r;
    g->started.python = loan.waits ? PREPARED_WAITING : PREPARED_FROZEN;
    if (!loan.waits) {
        g->frozen = loan.fd;
        return lend(g, req, connection, err);
    }
    g->connection = loan.fd;
    g->tag = loan.tag;
    return 0;
}

static int serve_request(struct guest *g, const struct prepared_request *req, ssize_t len,
                         int connection, struct cay_error *err) {
    struct lender *l = g->lender;
    int r = check(l, req, len, connection >= 0 ? 1 : 0, err);
    if (r < 0)
        return r;
    g->started.event = PREPARED_STARTED;
    bool is_python = req->what == PREPARED_PYTHON;
    r = is_python ? lend_python(g, req, connection, err) : lend(g, req, connection, err);
    if (r < 0)
        return r;
    atomic_fetch_add(is_python ? &l->programs : &l->commands, 1);
    watch(g);
    return 0;
}

/* 0 if the request has not come yet; 1 if the guest stays; negative if it is done with. */
static int take_request(struct guest *g) {
    struct prepared_request req;
    struct prepared_answer a = {.event = PREPARED_REFUSED};
    _cleanup_(closep) int connection = -1;
    size_t count = 0;
    memset(&req, 0, sizeof req); /* a short one gets nothing of the stack */
    ssize_t len = fd_receive(g->fd, &req, sizeof req, &connection, 1, &count);
    if (len == -EAGAIN)
        return 0;
    if (len <= 0)
        return -EPIPE;
    g->until = 0;
    if (serve_request(g, &req, len, connection, &a.err) == 0)
        return 1;
    atomic_fetch_add(&g->lender->refused, 1);
    report(g->fd, &a, NULL, 0);
    return -ECANCELED;
}

/* ---- clients ---- */

static void free_guest(struct lender *l, struct guest *g) {
    struct engine *e = l->options.engine;
    struct cay_error ignored;
    if (g->is_lent) {
        (void)e->ops->once_end(e, g->tag, NULL, &ignored); /* nothing is heard of it afterwards */
        atomic_fetch_sub(&l->running, 1);
    }
    fd_close(&g->connection);
    fd_close(&g->frozen);
    fd_close(&g->fd);
    free(g);
}

static bool is_allowed(const struct lender *l, int fd) {
    struct ucred peer;
    socklen_t len = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == 0 || peer.uid == l->options.owner);
}

static void tend_guest(struct guest *g, short events) {
    struct engine *e = g->lender->options.engine;
    if (g->until != 0) {
        int r = take_request(g);
        if (r < 0 || (r == 0 && clock_expired(g->until)))
            atomic_store(&g->has_ended, true);
        return;
    }
    if (events == 0 || g->has_left)
        return;
    g->has_left = true; /* nothing else is said by a client: it has hung up, or wants an end */
    if (!atomic_load(&g->has_ended))
        e->ops->once_kill(e, g->tag);
}

static void take_clients(struct lender *l) {
    while (l->count < GUESTS_MAX) {
        _cleanup_(closep) int fd = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return; /* nobody, or no descriptors: who comes later is asked then */
        struct guest *g = is_allowed(l, fd) ? calloc(1, sizeof *g) : NULL;
        if (g == NULL)
            continue;
        *g = (struct guest){.lender = l, .fd = TAKE_FD(fd), .connection = -1, .frozen = -1};
        g->until = clock_deadline(REQUEST_MS);
        l->guests[l->count++] = g;
        tend_guest(g, POLLIN); /* mostly it is there already */
    }
}

static void remove_ended(struct lender *l) {
    for (size_t i = 0; i < l->count;) {
        if (!atomic_load(&l->guests[i]->has_ended)) {
            i++;
            continue;
        }
        free_guest(l, l->guests[i]);
        l->guests[i] = l->guests[--l->count];
    }
}

/* ---- the thread ---- */

static int wait_for_news(const struct lender *l, struct pollfd *p) {
    int64_t until = atomic_load(&l->is_closing) ? 0 : stock_due(&l->stock);
    bool has_room = l->count < GUESTS_MAX && !atomic_load(&l->is_closing);
    p[0] = (struct pollfd){.fd = l->wake[0], .events = POLLIN};
    p[1] = (struct pollfd){.fd = has_room ? l->listener : -1, .events = POLLIN};
    for (size_t i = 0; i < l->count; i++) {
        const struct guest *g = l->guests[i];
        p[2 + i] = (struct pollfd){.fd = g->has_left ? -1 : g->fd, .events = POLLIN | POLLRDHUP};
        until = clock_earlier(until, g->until);
    }
    return poll(p, 2 + l->count, clock_poll_timeout(until));
}

static void *serve(void *arg) {
    struct lender *l = arg;
    struct pollfd p[2 + GUESTS_MAX];
    char ignored[64];
    while (!atomic_load(&l->is_cut) && !(atomic_load(&l->is_closing) && l->count == 0)) {
        size_t before = l->count;
        if (wait_for_news(l, p) < 0)
            continue;
        while (p[0].revents != 0 && read(l->wake[0], ignored, sizeof ignored) > 0)
            ;
        for (size_t i = 0; i < before; i++)
            tend_guest(l->guests[i], p[2 + i].revents);
        if (p[1].revents != 0)
            take_clients(l);
        remove_ended(l);
        if (!atomic_load(&l->is_closing))
            stock_fill(&l->stock);
    }
    stock_empty(&l->stock);
    while (l->count > 0)
        free_guest(l, l->guests[--l->count]);
    return NULL;
}

/* ---- life ---- */

static int open_listener(struct cay_error *err) {
    const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = PREPARED_SOCKET};
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_errno(err, "making a socket");
    if (unlink(PREPARED_SOCKET) < 0 && errno != ENOENT)
        return error_errno(err, "replacing '" PREPARED_SOCKET "'");
    /* before the bind, whose file gets this mode: never for a moment open to others */
    if (fchmod(fd, 0600) < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, BACKLOG) < 0)
        return error_errno(err, "listening on '" PREPARED_SOCKET "'");
    return TAKE_FD(fd);
}

static void free_lender(struct lender *l) {
    fd_close(&l->listener);
    fd_close(&l->wake[0]);
    fd_close(&l->wake[1]);
    free(l);
}

int lender_open(const struct lender_options *options, struct lender **ret, struct cay_error *err) {
    struct lender *l = calloc(1, sizeof *l);
    if (l == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    l->options = *options;
    l->stock.engine = options->engine;
    l->wake[0] = l->wake[1] = -1;
    l->listener = open_listener(err);
    int r = MIN(l->listener, 0);
    if (r == 0 && stat(PREPARED_SOCKET, &l->name) < 0)
        r = error_errno(err, "looking at '" PREPARED_SOCKET "'");
    if (r == 0 && pipe2(l->wake, O_CLOEXEC | O_NONBLOCK) < 0)
        r = error_errno(err, "making a pipe");
    if (r == 0) {
        int sys = pthread_create(&l->thread, NULL, serve, l);
        r = sys != 0 ? error_sys(err, sys, "starting the thread of prepared sandboxes") : 0;
    }
    if (r < 0) {
        free_lender(l);
        return r;
    }
    *ret = l;
    return 0;
}

/* The name may be a successor's by now. */
static void remove_name(const struct lender *l) {
    struct stat st;
    if (stat(PREPARED_SOCKET, &st) == 0 && st.st_dev == l->name.st_dev &&
        st.st_ino == l->name.st_ino)
        (void)unlink(PREPARED_SOCKET);
}

void lender_stop(struct lender *l) {
    if (l == NULL)
        return;
    remove_name(l); /* who comes now makes a sandbox of its own */
    atomic_store(&l->is_closing, true);
    wake_up(l);
}

void lender_close(struct lender *l, int64_t wait_ms) {
    if (l == NULL)
        return;
    int64_t deadline = clock_ms() + wait_ms;
    while (atomic_load(&l->running) > 0 && !clock_expired(deadline))
        (void)poll(NULL, 0, 20);
    atomic_store(&l->is_cut, true);
    wake_up(l);
    (void)pthread_join(l->thread, NULL);
    free_lender(l);
}

void lender_total(struct lender *l, struct lender_totals *ret) {
    *ret = (struct lender_totals){.commands = atomic_load(&l->commands),
                                  .programs = atomic_load(&l->programs),
                                  .refused = atomic_load(&l->refused),
                                  .running = atomic_load(&l->running)};
}
