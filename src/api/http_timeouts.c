/* How long clients may take, and which are dropped when there are too many. A connection is a
 * thread, so one who sends or reads a byte now and then must not keep it: whoever is waited for has
 * a deadline. The library's own timeout starts again with every byte, and is not used. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/http/recv.h"
#include "api/http_internal.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "manager/access/budget.h"
#include "manager/record/key.h"

enum {
    BODY_RATE_MIN = 8 * 1024, /* bytes in a second */
    ANSWER_RATE_MIN = 32 * 1024,
    READER_FACTOR = 5,                      /* a download may be held for a while */
    CROWD = HTTP_CONNECTIONS_MAX / 4 * 3,   /* from so many connections on … */
    CROWD_MS = 5 * 1000,                    /* … a head has no more than this */
    KEYLESS_MAX = HTTP_CONNECTIONS_MAX / 2, /* of one address */
    LOOK_MS = 500,
    STACK_SIZE = 256 * 1024,
};

struct http_peer {
    struct http_crowd *crowd;
    int sock;
    _Atomic int64_t deadline_ms; /* 0: none */
    _Atomic int64_t head_ms;     /* since when a head is waited for; 0: it is not */
    unsigned char from[16]; /* its address; of IPv6 the network, since a host may have all of it */
    struct framing framing; /* of the connection's thread */
    int64_t began_ms;
    char charged[OWNER_SIZE]; /* the key that pays for it, if is_charged; its thread's */
    bool is_charged;
    /* of the crowd's lock: */
    char owner[sizeof((struct key *)NULL)->name]; /* who asked last; "": nobody with a key yet */
    bool is_dropped;                              /* shut down, to make room */
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

/* ---- which connection is dropped ---- */

/* What is dropped first: a connection without a key that sends no head, then any other without a
 * key, then one with a key that is idle. 0: it stays. */
static int rank_of(struct http_peer *p, bool is_tcp) {
    bool is_waiting = atomic_load(&p->head_ms) != 0;
    if (p->is_dropped)
        return 0;
    if (p->owner[0] != '\0')
        return is_waiting ? 1 : 0;
    return is_waiting ? 3 : is_tcp ? 2 : 0; /* on the unix socket nobody needs a key */
}

static bool is_from(const struct http_peer *p, const unsigned char *from) {
    return from == NULL || memcmp(p->from, from, sizeof p->from) == 0;
}

/* The oldest of those that are dropped first, or NULL. */
static struct http_peer *pick(const struct http_crowd *crowd, const struct http_peer *newcomer,
                              const unsigned char *from) {
    struct http_peer *worst = NULL;
    int worst_rank = from != NULL ? 1 : 0; /* for its own address's sake nobody with a key goes */
    for (struct http_peer *p = crowd->first; p != NULL; p = p->next) {
        int rank = p == newcomer || !is_from(p, from) ? 0 : rank_of(p, crowd->is_tcp);
        if (rank < worst_rank || rank == 0 ||
            (rank == worst_rank && (worst == NULL || p->began_ms > worst->began_ms)))
            continue;
        worst = p;
        worst_rank = rank;
    }
    return worst;
}

static size_t count_keyless(const struct http_crowd *crowd, const unsigned char *from) {
    size_t count = 0;
    for (const struct http_peer *p = crowd->first; p != NULL; p = p->next)
        count += !p->is_dropped && p->owner[0] == '\0' && is_from(p, from);
    return count;
}

/* With the crowd's lock held. A newcomer is never refused in favour of one who only waits. */
static void make_room(struct http_crowd *crowd, const struct http_peer *newcomer) {
    struct http_peer *p = NULL;
    size_t count = crowd->count - crowd->dropped;
    if (crowd->is_tcp && count > KEYLESS_MAX && count_keyless(crowd, newcomer->from) > KEYLESS_MAX)
        p = pick(crowd, newcomer, newcomer->from);
    else if (count > HTTP_CONNECTIONS_MAX)
        p = pick(crowd, newcomer, NULL);
    if (p == NULL)
        return;
    (void)shutdown(p->sock, SHUT_RDWR); /* its thread sees an end */
    p->is_dropped = true;
    crowd->dropped++;
}

/* ---- who is there ---- */

static void put_address(struct MHD_Connection *connection, unsigned char out[static 16]) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *a = info == NULL ? NULL : info->client_addr;
    if (a != NULL && a->sa_family == AF_INET)
        memcpy(out, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
    if (a == NULL || a->sa_family != AF_INET6)
        return;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(v6))
        memcpy(out, v6->s6_addr + 12, 4);
    else
        memcpy(out, v6->s6_addr, 8);
}

static void add_peer(struct http_crowd *crowd, struct http_peer *p) {
    (void)pthread_mutex_lock(&crowd->lock);
    p->next = crowd->first;
    if (p->next != NULL)
        p->next->previous = p;
    crowd->first = p;
    if (crowd->count++ == 0)
        (void)pthread_cond_signal(&crowd->more);
    make_room(crowd, p);
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
    crowd->dropped -= p->is_dropped;
    (void)pthread_mutex_unlock(&crowd->lock);
}

/* Idle connections outlive the manager: it may be used only by who is counted before the end. */
static void discharge(struct http_peer *p) {
    struct http *h = p->crowd->http;
    if (!p->is_charged)
        return;
    p->is_charged = false;
    (void)atomic_fetch_add(&h->under_way, 1);
    if (!atomic_load(&h->is_draining))
        manager_budget_give(h->options.manager, p->charged, BUDGET_CONNECTIONS);
    (void)atomic_fetch_sub(&h->under_way, 1);
}

/* The end is told before the library closes the descriptor, so no other is ever shut down. */
void http_patience_notify(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code) {
    struct http_port *port = cls;
    struct http_peer *p = *context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (p != NULL) {
            http_recv_forget(p->sock);
            discharge(p);
            remove_peer(&port->crowd, p);
        }
        free(p);
        *context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    p = info == NULL ? NULL : calloc(1, sizeof *p);
    bool is_tls = port->is_tcp && port->http->options.tls->cert != NULL;
    if (p == NULL || !http_recv_check(info->connect_fd, &p->framing, is_tls)) {
        if (info != NULL)
            (void)shutdown(info->connect_fd, SHUT_RDWR); /* nothing is read unchecked */
        free(p);
        return;
    }
    p->crowd = &port->crowd;
    p->sock = info->connect_fd;
    p->began_ms = clock_ms();
    put_address(connection, p->from);
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

/* "": who needs no key, such as a probe. */
static const char *owner_of(const struct key *caller) {
    if (caller->id[0] != '\0')
        return caller->id;
    return key_sees_all(caller) ? caller->name : "";
}

/* A connection is charged to the key that it is first used with, and again if that changes. */
static int charge(struct http_peer *p, const struct key *caller, struct cay_error *err) {
    if (p->is_charged && str_equal(p->charged, caller->id))
        return 0;
    discharge(p);
    int r =
        manager_budget_take(p->crowd->http->options.manager, caller->id, BUDGET_CONNECTIONS, err);
    p->is_charged = r == 0;
    memcpy(p->charged, caller->id, sizeof p->charged);
    return r;
}

int http_claim(struct MHD_Connection *connection, const struct key *caller, struct cay_error *err) {
    struct http_peer *p = peer_of(connection);
    if (p == NULL)
        return 0;
    const char *owner = owner_of(caller);
    (void)pthread_mutex_lock(&p->crowd->lock);
    (void)snprintf(p->owner, sizeof p->owner, "%s", owner); /* ids and names fit */
    (void)pthread_mutex_unlock(&p->crowd->lock);
    return p->crowd->is_tcp && owner[0] != '\0' ? charge(p, caller, err) : 0;
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
        http_end_expired(crowd->http);
        (void)pthread_mutex_lock(&crowd->lock);
        look(crowd);
    }
    return NULL;
}

int http_patience_start(struct http_port *port, struct cay_error *err) {
    struct http_crowd *crowd = &port->crowd;
    pthread_attr_t attr;
    pthread_t thread;
    *crowd = (struct http_crowd){.http = port->http,
                                 .is_tcp = port->is_tcp,
                                 .lock = PTHREAD_MUTEX_INITIALIZER,
                                 .more = PTHREAD_COND_INITIALIZER};
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, STACK_SIZE);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int r = pthread_create(&thread, &attr, look_after, crowd);
    (void)pthread_attr_destroy(&attr);
    return r == 0 ? 0 : error_sys(err, r, "starting a thread");
}
