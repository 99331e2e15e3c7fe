#include "remote/serve.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "remote/gateway.h"
#include "remote/request.h"
#include "remote/stream.h"

/* How long what is under way may take to be ended in the remote when cay has gone. */
enum { FAREWELL_SECONDS = 5 };

static struct world world;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned busy;

static void count_busy(int by) {
    (void)pthread_mutex_lock(&lock);
    busy += (unsigned)by;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

/* ---- a connection ---- */

/* To another cay: its bytes, as they are. */
static void tunnel(int fd) {
    struct stream s;
    struct cay_error err;
    if (stream_open(&world, world.order.url, &s, &err) == 0) {
        stream_relay(&s, fd);
        stream_close(&s);
        return;
    }
    struct request r;
    if (request_read(fd, &r) == 0)
        request_refuse(&r, &err);
    request_free(&r);
}

static void *serve_one(void *arg) {
    int fd = (int)(intptr_t)arg;
    if (world.kind == REMOTE_CAY)
        tunnel(fd);
    else
        gateway_serve(&world, fd);
    (void)close(fd);
    count_busy(-1);
    return NULL;
}

static void begin(int fd) {
    pthread_t thread;
    count_busy(1);
    if (pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)fd) == 0) {
        (void)pthread_detach(thread);
        return;
    }
    (void)close(fd);
    count_busy(-1);
}

/* ---- its life ---- */

static int greet(int control) {
    static struct remote_order order;
    struct remote_reply reply = {0};
    size_t count = 0;
    if (fd_receive(control, &order, sizeof order, NULL, 0, &count) != (ssize_t)sizeof order)
        return -EPROTO;
    int r = world_init(&world, &order, &reply.err);
    if (r == 0)
        r = world_probe(&world, &reply.err);
    reply.err.sys = 0;
    reply.kind = r == 0 ? world.kind : REMOTE_NONE;
    memcpy(reply.version, world.version, sizeof reply.version);
    int sent = fd_send(control, &reply, sizeof reply, NULL, 0);
    return r < 0 ? r : sent;
}

static void await_end(void) {
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FAREWELL_SECONDS;
    (void)pthread_mutex_lock(&lock);
    while (busy > 0 && pthread_cond_timedwait(&changed, &lock, &until) == 0)
        continue;
    (void)pthread_mutex_unlock(&lock);
}

int serve(int control) {
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
    if (greet(control) < 0)
        return 1;
    for (;;) {
        char word;
        int fd = -1;
        size_t count = 0;
        if (fd_receive(control, &word, sizeof word, &fd, 1, &count) <= 0)
            break;
        if (count == 1)
            begin(fd);
    }
    await_end();
    return 0;
}
