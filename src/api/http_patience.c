/* How long clients may take. A connection is a thread, so one who sends or reads a byte now and
 * then must not keep it: whoever is waited for has a deadline. The library's own timeout begins
 * anew with every byte, and is not used. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/http_internal.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "manager/key.h"

enum {
    BODY_RATE_MIN = 8 * 1024, /* bytes in a second */
    ANSWER_RATE_MIN = 32 * 1024,
    READER_FACTOR = 5,                    /* a download may be held for a while */
    CROWD = HTTP_CONNECTIONS_MAX / 4 * 3, /* from so many connections on … */
    CROWD_MS = 5 * 1000,                  /* … a head has no more than this */
    LOOK_MS = 500,
    STACK_SIZE = 256 * 1024,
};

struct http_peer {
    struct http_crowd *crowd;
    int sock;
    _Atomic int64_t deadline_ms; /* 0: none */
    _Atomic int64_t head_ms;     /* since when a head is waited for; 0: it is not */
    char owner[sizeof((struct key *)NULL)->name]; /* who asked last; of the crowd's lock */
    struct http_peer *previous, *next;
};

static struct http_peer *peer_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info == NULL ? NULL : info->socket_context;
}

/* ---- what is waited for ---- */

static void await(struct http_peer *p, int64_t deadline_ms, int64_t head_ms) {
    if (p == NULL)
        return; /* there was no memory for it */
    atomic_store(&p->head_ms, head_ms);
    atomic_store(&p->deadline_ms, deadline_ms);
}

static int64_t patience_of(const struct http_peer *p) {
    return p == NULL ? 0 : atomic_load(&p->crowd->http->patience_ms);
}

static int64_t time_for(uint64_t bytes, uint64_t rate) {
    return (int64_t)(MIN(bytes / rate, (uint64_t)INT32_MAX) * 1000);
}

static void await_head(struct http_peer *p) {
    int64_t now = clock_ms();
    await(p, now + patience_of(p), now);
}

void http_await_head(struct MHD_Connection *connection) {
    await_head(peer_of(connection));
}

void http_await_body(const struct http_request *q) {
    struct http_peer *p = peer_of(q->connection);
    int64_t patience = patience_of(p);
    int64_t by_rate = q->body_ms + patience + time_for(q->body_bytes, BODY_RATE_MIN);
    await(p, MIN(by_rate, clock_ms() + patience), 0);
}

void http_await_reader(struct MHD_Connection *connection, uint64_t bytes) {
    struct http_peer *p = peer_of(connection);
    await(p, clock_ms() + READER_FACTOR * patience_of(p) + time_for(bytes, ANSWER_RATE_MIN), 0);
}

void http_await_nothing(struct MHD_Connection *connection) {
    await(peer_of(connection), 0, 0);
}

/* ---- who is there ---- */

static void add_peer(struct http_crowd *crowd, struct http_peer *p) {
    (void)pthread_mutex_lock(&crowd->lock);
    p->next = crowd->first;
    if (p->next != NULL)
        p->next->previous = p;
    crowd->first = p;
    if (crowd->count++ == 0)
        (void)pthread_cond_signal(&crowd->more);
    (void)pthread_mutex_unlock(&crowd->lock);
}

static void remove_peer(struct http_crowd *crowd, struct http_peer *p) {
    (void)pthread_mutex_lock(&crowd->lock);
    if (p->previous != NULL)
        p->previous->next = p->next;
    else
        crowd->first = p->next;
    if (p->next != NULL)
        p->next->previous = p->previous;
    crowd->count--;
    (void)pthread_mutex_unlock(&crowd->lock);
}

/* The end is told before the library closes the descriptor, so no other is ever shut down. */
void http_patience_notify(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code) {
    struct http_port *port = cls;
    struct http_peer *p = *context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (p != NULL)
            remove_peer(&port->crowd, p);
        free(p);
        *context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    p = info == NULL ? NULL : calloc(1, sizeof *p);
    if (p == NULL)
        return;
    p->crowd = &port->crowd;
    p->sock = info->connect_fd;
    await_head(p);
    add_peer(&port->crowd, p);
    *context = p;
}

/* ---- how many of them are whose ---- */

size_t http_count_peers(struct http_port *port) {
    if (port->daemon == NULL)
        return 0;
    (void)pthread_mutex_lock(&port->crowd.lock);
    size_t count = port->crowd.count;
    (void)pthread_mutex_unlock(&port->crowd.lock);
    return count;
}

static size_t count_of(const struct http_crowd *crowd, const char *owner) {
    size_t count = 0;
    for (const struct http_peer *p = crowd->first; p != NULL; p = p->next)
        count += str_equal(p->owner, owner);
    return count;
}

/* As many as are free, so that whoever comes next finds as many again. */
static bool has_too_many(const struct http_crowd *crowd, const char *owner) {
    size_t left = MIN(crowd->count, (size_t)HTTP_CONNECTIONS_MAX);
    left = HTTP_CONNECTIONS_MAX - left;
    return crowd->count > left && count_of(crowd, owner) > left;
}

int http_claim(struct MHD_Connection *connection, const struct key *caller, struct cay_error *err) {
    struct http_peer *p = peer_of(connection);
    if (p == NULL)
        return 0;
    const char *owner = caller->id[0] != '\0' ? caller->id : caller->name;
    (void)pthread_mutex_lock(&p->crowd->lock);
    (void)snprintf(p->owner, sizeof p->owner, "%s", owner); /* ids and names fit */
    bool refused = has_too_many(p->crowd, owner);
    (void)pthread_mutex_unlock(&p->crowd->lock);
    if (!refused)
        return 0;
    error_set(err, CAY_LIMIT_REACHED, "this key has too many of the daemon's %d connections open",
              HTTP_CONNECTIONS_MAX);
    err->sys = EAGAIN; /* call_fail() adds Retry-After */
    return error_remedy(err, "close connections that are not used, and try again");
}

/* ---- the thread ---- */

static bool is_late(struct http_peer *p, int64_t now, bool is_crowded) {
    int64_t head = atomic_load(&p->head_ms), deadline = atomic_load(&p->deadline_ms);
    return (deadline != 0 && now > deadline) || (is_crowded && head != 0 && now > head + CROWD_MS);
}

static void look(struct http_crowd *crowd) {
    int64_t now = clock_ms();
    bool is_crowded = crowd->count > CROWD;
    size_t ended = 0;
    for (struct http_peer *p = crowd->first; p != NULL; p = p->next) {
        if (!is_late(p, now, is_crowded))
            continue;
        (void)shutdown(p->sock, SHUT_RDWR); /* its thread sees an end */
        await(p, 0, 0);
        ended++;
    }
    if (ended > 0)
        log_event(LOG_LEVEL_DEBUG, "clients took too long", "connections", "%zu", ended);
}

static void *look_after(void *arg) {
    struct http_crowd *crowd = arg;
    (void)pthread_mutex_lock(&crowd->lock);
    for (;;) {
        while (crowd->count == 0)
            (void)pthread_cond_wait(&crowd->more, &crowd->lock);
        (void)pthread_mutex_unlock(&crowd->lock);
        (void)usleep(LOOK_MS * 1000);
        (void)pthread_mutex_lock(&crowd->lock);
        look(crowd);
    }
    return NULL;
}

int http_patience_start(struct http_port *port, struct cay_error *err) {
    struct http_crowd *crowd = &port->crowd;
    pthread_attr_t attr;
    pthread_t thread;
    *crowd = (struct http_crowd){
        .http = port->http, .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, STACK_SIZE);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int r = pthread_create(&thread, &attr, look_after, crowd);
    (void)pthread_attr_destroy(&attr);
    return r == 0 ? 0 : error_sys(err, r, "starting a thread");
}
