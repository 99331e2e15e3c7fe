#include "engine/docker/transport/pump.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "engine/docker/internal.h"
#include "engine/docker/transport/relay.h"
#include "engine/docker/transport/stream.h"
#include "wire/wire.h"

enum { LOOK_MS = 1000, LINGER_MS = 2000 };

struct pump {
    struct pump *next;
    bool has_ended; /* the container; read and written atomically */
    struct docker_engine *d;
    char id[ID_SIZE];
    int conn;
    struct docker_stream *stream;
    unsigned char up[RELAY_HEADER + RELAY_DATA_MAX]; /* a frame, to the container */
    size_t up_at, up_end;
    bool up_over;
    char down[RELAY_DATA_MAX]; /* from it */
    size_t down_at, down_end;
    uint64_t down_total; /* passed on so far */
    bool down_over;
    unsigned char total[RELAY_TOTAL]; /* how much there will have been */
    size_t total_len;
    bool is_drained; /* the stream has nothing for us but what poll will announce */
    bool gone;       /* the client */
};

/* Those that run: a stream of a container whose runtime died may never end by itself. */
static pthread_mutex_t pumps_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pump *pumps;

static void pump_add(struct pump *p) {
    (void)pthread_mutex_lock(&pumps_lock);
    p->next = pumps;
    pumps = p;
    (void)pthread_mutex_unlock(&pumps_lock);
}

static void pump_take(struct pump *p) {
    (void)pthread_mutex_lock(&pumps_lock);
    struct pump **at = &pumps;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    (void)pthread_mutex_unlock(&pumps_lock);
}

void docker_pump_end(const char *id) {
    (void)pthread_mutex_lock(&pumps_lock);
    for (struct pump *p = pumps; p != NULL; p = p->next)
        if (memcmp(p->id, id, ID_SIZE) == 0)
            __atomic_store_n(&p->has_ended, true, __ATOMIC_RELAXED);
    (void)pthread_mutex_unlock(&pumps_lock);
}

static void pump_free(struct pump *p) {
    docker_stream_close(p->stream);
    fd_close(&p->conn);
    free(p);
}

/* ---- to the container ---- */

static void read_up(struct pump *p) {
    if (p->up_at < p->up_end || p->up_over)
        return;
    ssize_t n = recv(p->conn, p->up + RELAY_HEADER, RELAY_DATA_MAX, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    p->up_over = n <= 0;
    size_t len = n > 0 ? (size_t)n : 0; /* a frame of 0 says that there is no more */
    relay_put_number(p->up, RELAY_HEADER, len);
    p->up_at = 0;
    p->up_end = RELAY_HEADER + len;
}

static int send_up(struct pump *p) {
    while (p->up_at < p->up_end) {
        ssize_t n = docker_stream_send(p->stream, p->up + p->up_at, p->up_end - p->up_at);
        if (n == -EAGAIN)
            return 0;
        if (n < 0)
            return (int)n;
        p->up_at += (size_t)n;
    }
    return 0;
}

/* ---- from it ---- */

/* The message says how much there is, and may come before all of it has. */
static void read_total(struct pump *p, size_t len) {
    size_t n = MIN(len, sizeof p->total - p->total_len);
    memcpy(p->total + p->total_len, p->down, n);
    p->total_len += n;
}

static void finish_down(struct pump *p) {
    if (p->total_len == sizeof p->total && p->down_at == p->down_end &&
        relay_get_number(p->total, sizeof p->total) == p->down_total)
        (void)shutdown(p->conn, SHUT_WR); /* cay-init has said all */
}

static void read_down(struct pump *p) {
    while (p->down_at == p->down_end && !p->down_over) {
        enum demux_stream which = DEMUX_STDOUT;
        p->down_at = p->down_end = 0;
        ssize_t n = docker_stream_receive(p->stream, &which, p->down, sizeof p->down);
        p->is_drained = n == -EAGAIN;
        if (n == -EAGAIN)
            return;
        p->down_over = n <= 0 || which == DEMUX_FAILURE;
        if (n > 0 && which == DEMUX_STDOUT)
            p->down_end = (size_t)n;
        else if (n > 0 && which == DEMUX_STDERR)
            read_total(p, (size_t)n);
        finish_down(p);
    }
}

static void send_down(struct pump *p) {
    while (p->down_at < p->down_end) {
        ssize_t n = send(p->conn, p->down + p->down_at, p->down_end - p->down_at,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0 && errno != EINTR)
            p->down_at = p->down_end = 0; /* nobody reads it */
        else if (n > 0) {
            p->down_at += (size_t)n;
            p->down_total += (uint64_t)n;
        }
    }
    finish_down(p);
}

/* ---- both ---- */

static bool is_over(const struct pump *p) {
    bool down_done = p->down_over && p->down_at == p->down_end;
    return down_done || (p->gone && p->up_over && p->up_at == p->up_end);
}

static void watch(const struct pump *p, struct pollfd f[static 2]) {
    bool up = p->up_at < p->up_end, down = p->down_at < p->down_end;
    short conn = (short)((!up && !p->up_over ? POLLIN : 0) | (down ? POLLOUT : 0));
    short stream = (short)((up ? POLLOUT : 0) | (!down && !p->down_over ? POLLIN : 0));
    f[0] = (struct pollfd){.fd = p->gone && conn == 0 ? -1 : p->conn, .events = conn};
    f[1] = (struct pollfd){.fd = docker_stream_fd(p->stream), .events = stream};
}

static void loop(struct pump *p) {
    struct pollfd f[2];
    int64_t end_at = 0; /* what is on its way still comes */
    while (!is_over(p)) {
        bool waits = p->is_drained || p->down_at < p->down_end;
        watch(p, f);
        if (poll(f, ARRAY_LEN(f), waits ? LOOK_MS : 0) < 0 && errno != EINTR)
            return;
        if (end_at == 0 && __atomic_load_n(&p->has_ended, __ATOMIC_RELAXED))
            end_at = clock_ms() + LINGER_MS;
        if (end_at != 0 && clock_ms() > end_at)
            return;
        p->gone = p->gone || (f[0].revents & (POLLHUP | POLLERR)) != 0;
        read_up(p);
        if (send_up(p) < 0)
            return;
        read_down(p);
        send_down(p);
    }
}

static void *run(void *arg) {
    struct pump *p = arg;
    struct cay_error err = {0};
    if (p->stream == NULL && docker_far_open(p->d, p->id, &p->stream, &err) < 0)
        (void)wire_send_error(p->conn, &err); /* a fresh connection takes it at once */
    else
        loop(p);
    pump_take(p);
    pump_free(p);
    return NULL;
}

static int start_thread(struct pump *p) {
    pthread_attr_t detached;
    pthread_t thread;
    if (pthread_attr_init(&detached) != 0)
        return -ENOMEM;
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    int r = pthread_create(&thread, &detached, run, p);
    (void)pthread_attr_destroy(&detached);
    return -r;
}

void docker_pump_start(struct docker_engine *d, const char *id, int conn,
                       struct docker_stream *stream) {
    struct pump *p = calloc(1, sizeof *p);
    if (p == NULL) {
        docker_stream_close(stream);
        (void)close(conn);
        return;
    }
    p->d = d;
    p->conn = conn;
    p->stream = stream;
    memcpy(p->id, id, ID_SIZE);
    pump_add(p);
    if (start_thread(p) < 0) {
        pump_take(p);
        pump_free(p);
    }
}
