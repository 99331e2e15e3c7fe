/* Callers wait for the answer with their tag; one thread reads all answers. A launcher that dies
 * fails whatever waits, and what is asked for until there is another one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "engine/link/connection.h"

enum { AGAIN_MS = 500 };

/* One who waits; lives on his stack. */
struct call {
    uint64_t tag;
    bool answered; /* else the launcher is gone */
    bool done;
    pthread_cond_t ready; /* done is set: with many callers, only this one is woken */
    struct launcher_answer *answer;
    struct call *next;
};

static void finish(struct call *c, bool answered) {
    c->answered = answered;
    c->done = true;
    (void)pthread_cond_signal(&c->ready);
}

/* ---- the reader ---- */

static void report_ended(const struct link *n, const struct launcher_answer *a) {
    struct engine_end end = {.oom_killed = a->oom_killed != 0,
                             .status = a->status,
                             .cause = a->cause < ENGINE_END_CAUSES ? a->cause : ENGINE_END_UNSEEN};
    memcpy(end.id, a->id, ID_SIZE);
    if (n->engine.ended != NULL)
        n->engine.ended(n->engine.user, &end);
}

static void report_disk(const struct link *n, const struct launcher_answer *a) {
    struct engine_disk disk = a->disk;
    disk.id[ID_SIZE - 1] = '\0';
    if (n->engine.disk != NULL)
        n->engine.disk(n->engine.user, &disk);
}

void link_once_started(struct once *o) {
    o->started = true;
    if (o->watcher.started != NULL)
        o->watcher.started(o->watcher.user, o->id, o->counter);
}

void link_once_ended(struct once *o) {
    o->ended = true;
    if (o->watcher.ended != NULL)
        o->watcher.ended(o->watcher.user, o->oom_killed, &o->err);
}

static void note_once(struct link *n, const struct launcher_answer *a, int *counter) {
    for (struct once *o = n->onces; o != NULL; o = o->next) {
        if (o->tag != a->tag || o->ended)
            continue;
        if (a->event == LAUNCHER_STARTED) {
            memcpy(o->id, a->id, sizeof o->id);
            o->counter = TAKE_FD(*counter);
            link_once_started(o);
            continue;
        }
        o->oom_killed = a->event == LAUNCHER_ENDED && a->oom_killed != 0;
        if (a->event == LAUNCHER_FAILED)
            o->err = a->err;
        link_once_ended(o);
    }
}

/* With the lock held. */
static void note_pong(struct link *n, const struct launcher_answer *a) {
    if (n->ping_tag == 0 || a->tag != n->ping_tag)
        return;
    n->ping_tag = 0;
    n->pinged.wait_us = clock_us() - n->ping_us;
    n->pinged.err = a->event == LAUNCHER_FAILED ? a->err : (struct cay_error){.code = CAY_OK};
}

static void hand_over(struct link *n, const struct launcher_answer *a, int *fd) {
    (void)pthread_mutex_lock(&n->lock);
    n->heard_at = clock_ms();
    note_pong(n, a);
    note_once(n, a, fd);
    for (struct call *c = n->calls; c != NULL; c = c->next)
        if (c->tag == a->tag && !c->done) {
            *c->answer = *a;
            finish(c, true);
        }
    if (n->onces != NULL)
        (void)pthread_cond_broadcast(&n->changed);
    (void)pthread_mutex_unlock(&n->lock);
}

static void fail_all(struct link *n) {
    (void)pthread_mutex_lock(&n->lock);
    n->gone = true;
    n->gone_at = clock_ms();
    n->ping_tag = 0;
    for (struct call *c = n->calls; c != NULL; c = c->next)
        if (!c->done)
            finish(c, false);
    for (struct once *o = n->onces; o != NULL; o = o->next) {
        if (o->ended)
            continue;
        (void)link_unavailable(n, &o->err); /* they end with their launcher */
        link_once_ended(o);
    }
    (void)pthread_cond_broadcast(&n->changed);
    (void)pthread_mutex_unlock(&n->lock);
}

/* What a launcher says is believed no further than it must be. */
static bool receive(const struct link *n, struct launcher_answer *a, int *ret_fd) {
    ssize_t got;
    size_t count;
    do
        got = fd_receive(n->sock, a, sizeof *a, ret_fd, 1, &count);
    while (got == -EINTR);
    if (count == 0)
        *ret_fd = -1;
    if (got != (ssize_t)sizeof *a)
        return false;
    a->id[ID_SIZE - 1] = '\0';
    if (a->event == LAUNCHER_FAILED)
        error_sanitize(&a->err);
    if (a->event == LAUNCHER_HAS_LIST && a->list.count > LAUNCHER_PAGE)
        return false;
    return true;
}

static void *read_answers(void *arg) {
    struct link *n = arg;
    struct launcher_answer a;
    int fd = -1;
    while (receive(n, &a, &fd)) {
        if (a.event == LAUNCHER_KEPT_ENDED)
            report_ended(n, &a);
        else if (a.event == LAUNCHER_DISK)
            report_disk(n, &a);
        else
            hand_over(n, &a, &fd);
        fd_close(&fd);
    }
    fd_close(&fd);
    fail_all(n);
    return NULL;
}

/* ---- the connection ---- */

struct launcher_request *link_new_request(enum launcher_op op, const struct sandbox_spec *spec,
                                          struct cay_error *err) {
    struct launcher_request *r = calloc(1, launcher_request_size(spec->mount_count));
    if (r == NULL) {
        error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    r->op = op;
    r->spec = *spec;
    r->spec.mounts = NULL; /* means nothing elsewhere */
    r->spec.mount_count = 0;
    return r;
}

void link_disconnect(struct link *n) {
    if (n->sock >= 0)
        (void)shutdown(n->sock, SHUT_RDWR);
    if (n->reading)
        (void)pthread_join(n->reader, NULL);
    n->reading = false;
    fd_close(&n->sock);
}

/* A launcher takes over what lives with the first request about it, and tells of what has died
 * meanwhile. Nobody waits for the answer to this one. */
static void greet(const struct link *n) {
    struct cay_error err;
    _cleanup_(freep) struct launcher_request *r =
        link_new_request(LAUNCHER_LIST, &(struct sandbox_spec){0}, &err);
    if (r != NULL)
        (void)fd_send(n->sock, r, launcher_request_size(0), NULL, 0); /* gone: the reader sees it */
}

int link_connect(struct link *n, int sock, struct cay_error *err) {
    n->sock = sock;
    n->reading = pthread_create(&n->reader, NULL, read_answers, n) == 0;
    if (n->reading) {
        greet(n);
        return 0;
    }
    fail_all(n);
    fd_close(&n->sock);
    return error_set(err, CAY_RESOURCE_EXHAUSTED, "no thread for the launcher's answers");
}

int link_replace(struct link *n, int sock, struct cay_error *err) {
    link_disconnect(n);
    (void)pthread_mutex_lock(&n->lock);
    n->gone = false;
    (void)pthread_mutex_unlock(&n->lock);
    return link_connect(n, sock, err);
}

static bool is_gone(struct link *n) {
    (void)pthread_mutex_lock(&n->lock);
    bool gone = n->gone;
    (void)pthread_mutex_unlock(&n->lock);
    return gone;
}

/* With n->sending held. */
static void start_again(struct link *n) {
    struct cay_error err;
    int sock = n->source.connect(n->source.user, &err);
    n->tried_at = clock_ms();
    if (sock >= 0)
        (void)link_replace(n, sock, &err);
}

/* One that is started when it is needed is, but not again and again if it does not live. */
static void have_launcher(struct link *n) {
    if (n->source.connect == NULL || !is_gone(n))
        return;
    (void)pthread_mutex_lock(&n->sending);
    if (is_gone(n) && (n->tried_at == 0 || clock_ms() - n->tried_at > AGAIN_MS))
        start_again(n);
    (void)pthread_mutex_unlock(&n->sending);
}

/* ---- callers ---- */

int link_unavailable(const struct link *n, struct cay_error *err) {
    if (n->source.connect != NULL) {
        error_set(err, CAY_UNAVAILABLE, "the engine has ended");
        return error_remedy(err, "try again in a moment; the daemon's log says why it has");
    }
    error_set(err, CAY_UNAVAILABLE, "the launcher has ended");
    return error_remedy(err, "the daemon starts a new one: try again in a moment");
}

static int begin(struct link *n, struct call *c) {
    have_launcher(n);
    (void)pthread_mutex_lock(&n->lock);
    bool gone = n->gone;
    if (!gone) {
        if (n->calls == NULL)
            n->asked_at = clock_ms();
        c->tag = ++n->last_tag;
        c->next = n->calls;
        n->calls = c;
    }
    (void)pthread_mutex_unlock(&n->lock);
    return gone ? -EPIPE : 0;
}

static void end(struct link *n, const struct call *c) {
    (void)pthread_mutex_lock(&n->lock);
    struct call **at = &n->calls;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    (void)pthread_mutex_unlock(&n->lock);
}

static void wait_for(struct link *n, struct call *c) {
    (void)pthread_mutex_lock(&n->lock);
    while (!c->done)
        (void)pthread_cond_wait(&c->ready, &n->lock);
    (void)pthread_mutex_unlock(&n->lock);
}

int link_send(struct link *n, const struct launcher_request *r, size_t mounts, int fd) {
    (void)pthread_mutex_lock(&n->sending);
    int sent = fd_send(n->sock, r, launcher_request_size(mounts), &fd, fd >= 0 ? 1 : 0);
    (void)pthread_mutex_unlock(&n->sending);
    return sent;
}

int link_ask(struct link *n, struct launcher_request *r, size_t mounts, int fd,
             struct launcher_answer *answer, struct cay_error *err) {
    struct call call = {.answer = answer, .ready = PTHREAD_COND_INITIALIZER};
    if (begin(n, &call) < 0)
        return link_unavailable(n, err);
    r->tag = call.tag;
    r->fds = fd >= 0 ? LAUNCHER_LISTENER : 0;
    int sent = link_send(n, r, mounts, fd);
    if (sent == 0)
        wait_for(n, &call);
    end(n, &call);
    (void)pthread_cond_destroy(&call.ready);
    if (sent < 0 || !call.answered)
        return link_unavailable(n, err);
    if (answer->event != LAUNCHER_FAILED)
        return 0;
    *err = answer->err;
    return -(int)err->code;
}

/* ---- pings ---- */

/* A list of what follows the last possible id: nothing, at no cost. An engine that has to ask
 * somebody else for it, as a container engine, shows whether that one answers. */
static void fill_ping(struct sandbox_spec *spec) {
    memset(spec->id, 'f', ID_SIZE - 1);
    spec->id[ID_SIZE - 1] = '\0';
}

static bool begin_ping(struct link *n, uint64_t *ret_tag) {
    (void)pthread_mutex_lock(&n->lock);
    bool begins = !n->gone && n->ping_tag == 0;
    if (begins) {
        *ret_tag = n->ping_tag = ++n->last_tag;
        n->ping_us = clock_us();
    }
    (void)pthread_mutex_unlock(&n->lock);
    return begins;
}

/* With n->sending held. */
static void send_ping(struct link *n) {
    struct cay_error err;
    struct sandbox_spec spec = {0};
    fill_ping(&spec);
    _cleanup_(freep) struct launcher_request *r = link_new_request(LAUNCHER_LIST, &spec, &err);
    if (r == NULL || !begin_ping(n, &r->tag))
        return;
    if (send(n->sock, r, launcher_request_size(0), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        return;
    (void)pthread_mutex_lock(&n->lock);
    n->ping_tag = 0; /* full of requests, which show as much, or gone */
    (void)pthread_mutex_unlock(&n->lock);
}

void link_ping(struct link *n) {
    if (pthread_mutex_trylock(&n->sending) != 0)
        return; /* somebody waits there for room: his request shows as much */
    send_ping(n);
    (void)pthread_mutex_unlock(&n->sending);
}

void link_health(struct link *n, struct engine_health *ret) {
    (void)pthread_mutex_lock(&n->lock);
    *ret = n->pinged;
    int64_t since = n->calls != NULL ? n->asked_at : 0;
    for (const struct call *c = n->calls; c != NULL; c = c->next)
        ret->waiting += !c->done;
    if (n->ping_tag != 0) {
        ret->wait_us = MAX(ret->wait_us, clock_us() - n->ping_us);
        since = clock_earlier(since, n->ping_us / 1000);
    }
    ret->silent_ms = since == 0 ? 0 : MAX(clock_ms() - MAX(since, n->heard_at), (int64_t)0);
    (void)pthread_mutex_unlock(&n->lock);
}
