#include "egress/serve.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/relay.h"
#include "egress/control.h"
#include "egress/places.h"
#include "egress/talk.h"

enum {
    BOXES_MAX = 4096,
    IDLE_MS = 15 * 60 * 1000, /* a connection without a byte in either direction ends then */
    NEWS_MS = 1000,
    STACK_SIZE = 256 * 1024,
    PACKET_MAX = sizeof(struct egress_message) + 1,
};

/* A sandbox. */
struct box {
    char id[ID_SIZE], owner[ID_SIZE];
    uint32_t owner_max;
    struct network network;
    int door;     /* where the listener comes from; -1: it came */
    int listener; /* in the sandbox; -1: none yet */
};

/* A connection under way, in a thread of its own. */
struct talk {
    struct egress *egress;
    struct talk *next;
    char id[ID_SIZE], owner[ID_SIZE];
    struct network network; /* as it was when it came */
    int client, upstream;
    bool is_cut;
};

struct egress {
    int control;
    struct box *boxes; /* touched by the main thread only */
    size_t count;
    pthread_mutex_t lock; /* of what follows */
    struct talk *talks;
    size_t talk_count;
    struct egress_news told[PLACES_MAX]; /* the main thread's: what was said of whom, if not 0 */
    size_t reported_count;
};

/* ---- connections ---- */

static void report(const struct talk *t, const struct talk_outcome *o) {
    char target[NETWORK_NAME_SIZE + 8];
    bool open = t->upstream >= 0;
    if (o->host[0] == '\0')
        return;
    (void)snprintf(target, sizeof target, "%s:%u", o->host, o->port);
    const struct log_field fields[] = {
        {"sandbox", t->id}, {"target", target}, {"why", open ? "it is on the list" : o->why}};
    log_line(open ? LOG_LEVEL_INFO : LOG_LEVEL_WARN,
             open ? "a sandbox connects" : "a sandbox does not connect", fields, ARRAY_LEN(fields));
}

static void forget(struct talk *t) {
    struct egress *e = t->egress;
    (void)pthread_mutex_lock(&e->lock);
    struct talk **at = &e->talks;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    e->talk_count--;
    /* under the lock, so that nobody cuts what has another meaning by then */
    fd_close(&t->client);
    fd_close(&t->upstream);
    (void)pthread_mutex_unlock(&e->lock);
    free(t);
}

static void *run_talk(void *user) {
    struct talk *t = user;
    struct talk_outcome outcome;
    struct cay_error err;
    int64_t ignored;
    int upstream;
    talk_begin(t->client, &t->network, &upstream, &outcome, &err);
    (void)pthread_mutex_lock(&t->egress->lock);
    t->upstream = upstream;
    bool go_on = upstream >= 0 && !t->is_cut;
    (void)pthread_mutex_unlock(&t->egress->lock);
    report(t, &outcome);
    if (go_on)
        (void)relay_run_idle(t->client, upstream, IDLE_MS, &ignored); /* an end like any other */
    forget(t);
    return NULL;
}

static int start_thread(struct talk *t) {
    pthread_attr_t attributes;
    pthread_t thread;
    int r = pthread_attr_init(&attributes);
    if (r != 0)
        return r;
    r = pthread_attr_setstacksize(&attributes, STACK_SIZE);
    if (r == 0)
        r = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (r == 0)
        r = pthread_create(&thread, &attributes, run_talk, t);
    (void)pthread_attr_destroy(&attributes);
    return r;
}

/* If there is room for one more it is counted. */
static int take_place(struct egress *e, const struct box *b, struct talk *t,
                      struct cay_error *err) {
    struct places p = {.owner_max = b->owner_max, .owner_id = b->owner};
    (void)pthread_mutex_lock(&e->lock);
    p.all = e->talk_count;
    for (const struct talk *i = e->talks; i != NULL; i = i->next) {
        p.box += memcmp(i->id, b->id, sizeof b->id) == 0;
        p.owner += memcmp(i->owner, b->owner, sizeof b->owner) == 0;
    }
    int r = places_check(&p, err);
    if (r == 0) {
        t->next = e->talks;
        e->talks = t;
        e->talk_count++;
    }
    (void)pthread_mutex_unlock(&e->lock);
    return r;
}

static void accept_talk(struct egress *e, struct box *b) {
    int client = accept4(b->listener, NULL, NULL, SOCK_CLOEXEC);
    struct talk *t = client < 0 ? NULL : malloc(sizeof *t);
    if (t == NULL) {
        fd_close(&client);
        return;
    }
    *t = (struct talk){.egress = e, .network = b->network, .client = client, .upstream = -1};
    memcpy(t->id, b->id, sizeof t->id);
    memcpy(t->owner, b->owner, sizeof t->owner);
    struct cay_error err;
    if (take_place(e, b, t, &err) < 0) {
        talk_refuse(client, &err);
        fd_close(&client);
        free(t);
    } else if (start_thread(t) != 0) {
        error_set(&err, CAY_LIMIT_REACHED, "the proxy can start no thread for this connection");
        (void)error_remedy(&err, "try again later");
        talk_refuse(client, &err);
        forget(t);
    }
}

/* Their threads find the end, and close them. */
static void cut(struct egress *e, const char *id) {
    (void)pthread_mutex_lock(&e->lock);
    for (struct talk *t = e->talks; t != NULL; t = t->next) {
        if (memcmp(t->id, id, ID_SIZE) != 0)
            continue;
        t->is_cut = true;
        (void)shutdown(t->client, SHUT_RDWR);
        if (t->upstream >= 0)
            (void)shutdown(t->upstream, SHUT_RDWR);
    }
    (void)pthread_mutex_unlock(&e->lock);
}

/* ---- sandboxes ---- */

static int option(int fd, int name) {
    int value = -1;
    socklen_t len = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &len) < 0 ? -1 : value;
}

/* It comes from a sandbox, which may send anything. */
static bool is_listener(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && option(fd, SO_DOMAIN) == AF_INET &&
           option(fd, SO_TYPE) == SOCK_STREAM && option(fd, SO_PROTOCOL) == IPPROTO_TCP &&
           option(fd, SO_ACCEPTCONN) == 1;
}

static void take_listener(struct box *b) {
    char ignored;
    size_t count = 0;
    int fd = -1;
    ssize_t n = fd_receive(b->door, &ignored, 1, &fd, 1, &count);
    fd_close(&b->door);
    if (n != 1 || count != 1 || !is_listener(fd) || fd_set_nonblocking(fd, true) < 0) {
        if (count > 0)
            fd_close(&fd);
        log_event(LOG_LEVEL_WARN, "a sandbox gave no socket to listen on", "sandbox", "%s", b->id);
        return;
    }
    fd_close(&b->listener);
    b->listener = fd;
}

static struct box *find(struct egress *e, const char *id) {
    for (size_t i = 0; i < e->count; i++)
        if (memcmp(e->boxes[i].id, id, ID_SIZE) == 0)
            return &e->boxes[i];
    return NULL;
}

static struct box *add(struct egress *e, const char *id) {
    if (e->count == BOXES_MAX)
        return NULL;
    struct box *more = realloc(e->boxes, (e->count + 1) * sizeof *more);
    if (more == NULL)
        return NULL;
    e->boxes = more;
    struct box *b = &more[e->count++];
    *b = (struct box){.door = -1, .listener = -1};
    memcpy(b->id, id, ID_SIZE);
    return b;
}

static void drop(struct egress *e, const char *id) {
    struct box *b = find(e, id);
    if (b == NULL)
        return;
    fd_close(&b->door);
    fd_close(&b->listener);
    *b = e->boxes[--e->count];
    cut(e, id);
}

/* What was open by the old list may not be by the new one: everything begins anew. */
static void set(struct egress *e, const struct egress_message *m, int *door) {
    struct network network;
    struct cay_error err;
    struct box *b = find(e, m->id);
    if (network_parse(m->network, &network, &err) < 0) {
        drop(e, m->id);
        return;
    }
    if (b == NULL)
        b = add(e, m->id);
    if (b == NULL)
        return;
    b->network = network;
    b->owner_max = m->owner_max;
    memcpy(b->owner, m->owner, sizeof b->owner);
    if (*door >= 0) {
        fd_close(&b->door);
        b->door = TAKE_FD(*door);
    }
    cut(e, m->id);
}

/* ---- how many connections owners have ---- */

static uint32_t count_owner(const struct egress *e, const char *owner) {
    uint32_t count = 0;
    for (const struct talk *t = e->talks; t != NULL; t = t->next)
        count += memcmp(t->owner, owner, sizeof t->owner) == 0;
    return count;
}

static bool is_reported(const struct egress *e, const char *owner) {
    size_t i = 0;
    while (i < e->reported_count && memcmp(e->told[i].owner, owner, ID_SIZE) != 0)
        i++;
    return i < e->reported_count;
}

/* Nobody reads: said again in a second, by what is noted then. */
static bool say(const struct egress *e, const struct egress_news *n) {
    return send(e->control, n, sizeof *n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof *n;
}

/* What has changed since it was last said. */
static void report_news(struct egress *e) {
    (void)pthread_mutex_lock(&e->lock);
    for (const struct talk *t = e->talks; t != NULL; t = t->next)
        if (!is_reported(e, t->owner) && e->reported_count < PLACES_MAX)
            memcpy(e->told[e->reported_count++].owner, t->owner, sizeof t->owner);
    for (size_t i = 0; i < e->reported_count; i++) {
        struct egress_news now = e->told[i];
        now.connections = count_owner(e, now.owner);
        if (now.connections == e->told[i].connections || !say(e, &now))
            continue;
        e->told[i] = now;
        if (now.connections == 0) {
            e->told[i--] = e->told[--e->reported_count];
            e->told[e->reported_count] = (struct egress_news){0};
        }
    }
    (void)pthread_mutex_unlock(&e->lock);
}

/* ---- the loop ---- */

/* False when it is time to end. */
static bool take_message(struct egress *e) {
    union {
        struct egress_message message;
        char bytes[PACKET_MAX];
    } in;
    size_t count = 0;
    _cleanup_(closep) int door = -1;
    ssize_t n = fd_receive(e->control, &in, sizeof in, &door, 1, &count);
    if (n == -EINTR)
        return true;
    if (n != (ssize_t)sizeof in.message)
        return false;
    struct egress_message *m = &in.message;
    m->id[ID_SIZE - 1] = m->owner[ID_SIZE - 1] = '\0';
    m->network[NETWORK_TEXT_SIZE - 1] = '\0';
    if (!id_is_valid(m->id))
        return false;
    if (m->op == EGRESS_SET)
        set(e, m, &door);
    else if (m->op == EGRESS_DROP)
        drop(e, m->id);
    return true;
}

static void tend(struct egress *e, const struct pollfd *p, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct box *b = &e->boxes[i];
        if (p[i].revents == 0)
            continue;
        if (p[i].fd == b->door)
            take_listener(b);
        else
            accept_talk(e, b);
    }
}

static void watch(const struct egress *e, struct pollfd *p) {
    p[0] = (struct pollfd){.fd = e->control, .events = POLLIN};
    for (size_t i = 0; i < e->count; i++) {
        const struct box *b = &e->boxes[i];
        p[i + 1] = (struct pollfd){.fd = b->door >= 0 ? b->door : b->listener, .events = POLLIN};
    }
}

/* While nobody is connected, and that was said, there is nothing to say. */
static int next_news_ms(struct egress *e, int64_t news_at) {
    (void)pthread_mutex_lock(&e->lock);
    bool is_quiet = e->talk_count == 0 && e->reported_count == 0;
    (void)pthread_mutex_unlock(&e->lock);
    return is_quiet ? -1 : (int)MAX(news_at - clock_ms(), 0);
}

int egress_serve(int control, struct cay_error *err) {
    _cleanup_(freep) struct pollfd *p = calloc(BOXES_MAX + 1, sizeof *p);
    struct egress *e = calloc(1, sizeof *e); /* for ever: threads have it until the process ends */
    if (p == NULL || e == NULL || pthread_mutex_init(&e->lock, NULL) != 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    e->control = control;
    int64_t news_at = 0;
    (void)fd_send(control, "", 1, NULL, 0); /* it serves; gone: the loop finds out */
    for (;;) {
        size_t count = e->count;
        watch(e, p);
        if (poll(p, count + 1, next_news_ms(e, news_at)) < 0) {
            if (errno == EINTR)
                continue;
            return error_errno(err, "waiting for connections");
        }
        tend(e, p + 1, count); /* before a message changes which is which */
        if (p[0].revents != 0 && !take_message(e))
            return 0;
        if (clock_ms() >= news_at) {
            report_news(e);
            news_at = clock_ms() + NEWS_MS;
        }
    }
}
