#include "engine/docker/bridge.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "engine/docker/internal.h"
#include "engine/docker/transport/pump.h"
#include "engine/docker/transport/stream.h"

enum { BACKLOG = 128 };

struct docker_bridge {
    struct docker_bridge *next;
    struct docker_engine *d;
    char id[ID_SIZE];
    int listener, wake;
    pthread_t thread;
    bool is_served; /* by the thread */
};

/* ---- the table ---- */

/* Takes it out of the table; NULL if there is none. */
static struct docker_bridge *take(struct docker_engine *d, const char *id) {
    struct docker_bridge **at = &d->bridges, *found;
    while (*at != NULL && memcmp((*at)->id, id, ID_SIZE) != 0)
        at = &(*at)->next;
    found = *at;
    if (found != NULL)
        *at = found->next;
    return found;
}

static bool has(const struct docker_engine *d, const char *id) {
    const struct docker_bridge *at = d->bridges;
    while (at != NULL && memcmp(at->id, id, ID_SIZE) != 0)
        at = at->next;
    return at != NULL;
}

static struct docker_bridge *add(struct docker_engine *d, const char *id, struct cay_error *err) {
    struct docker_bridge *b = calloc(1, sizeof *b);
    if (b == NULL) {
        error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    b->d = d;
    b->listener = b->wake = -1;
    memcpy(b->id, id, ID_SIZE);
    b->next = d->bridges;
    d->bridges = b;
    return b;
}

static void end(struct docker_bridge *b) {
    if (b == NULL)
        return;
    if (b->is_served) {
        (void)eventfd_write(b->wake, 1);
        (void)pthread_join(b->thread, NULL);
    }
    fd_close(&b->listener);
    fd_close(&b->wake);
    free(b);
}

/* ---- serving ---- */

/* A stream that nobody uses yet says nothing, unless it has ended. */
static void drop_if_dead(struct docker_stream **spare, short revents) {
    if (*spare == NULL || revents == 0)
        return;
    docker_stream_close(*spare);
    *spare = NULL;
}

static bool is_asked(int listener) {
    struct pollfd p = {.fd = listener, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

/* Opening a stream takes Docker long, so one is kept ready where there is time for it. */
static void *serve(void *arg) {
    struct docker_bridge *b = arg;
    struct docker_stream *spare = NULL;
    for (bool wants_spare = true;;) {
        if (wants_spare && spare == NULL && !is_asked(b->listener))
            (void)docker_far_open(b->d, b->id, &spare, NULL); /* else the next does it */
        wants_spare = false;
        struct pollfd p[] = {
            {.fd = b->wake, .events = POLLIN},
            {.fd = b->listener, .events = POLLIN},
            {.fd = spare != NULL ? docker_stream_fd(spare) : -1, .events = POLLIN}};
        if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
            break;
        if (p[0].revents != 0)
            break;
        drop_if_dead(&spare, p[2].revents);
        if (p[1].revents == 0)
            continue;
        int conn = accept4(b->listener, NULL, NULL, SOCK_CLOEXEC);
        if (conn >= 0)
            docker_pump_start(b->d, b->id, conn, TAKE_PTR(spare));
        wants_spare = conn >= 0;
    }
    docker_stream_close(spare);
    return NULL;
}

static int begin(struct docker_bridge *b, int listener, struct cay_error *err) {
    b->listener = fcntl(listener, F_DUPFD_CLOEXEC, 0);
    b->wake = eventfd(0, EFD_CLOEXEC);
    if (b->listener < 0 || b->wake < 0 || fd_set_nonblocking(b->listener, true) < 0)
        return error_errno(err, "keeping the way into the sandbox");
    if (pthread_create(&b->thread, NULL, serve, b) != 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no thread for the way into the sandbox");
    b->is_served = true;
    return 0;
}

/* ---- what the engine asks for ---- */

int docker_bridge_reserve(struct docker_engine *d, const char *id, struct cay_error *err) {
    (void)pthread_mutex_lock(&d->bridges_lock);
    struct docker_bridge *old = take(d, id), *b = add(d, id, err);
    (void)pthread_mutex_unlock(&d->bridges_lock);
    end(old);
    return b == NULL ? -CAY_RESOURCE_EXHAUSTED : 0;
}

int docker_bridge_open(struct docker_engine *d, const char *id, int listener,
                       struct cay_error *err) {
    (void)pthread_mutex_lock(&d->bridges_lock);
    struct docker_bridge *old = take(d, id), *b = add(d, id, err);
    int r = b == NULL ? -CAY_RESOURCE_EXHAUSTED : begin(b, listener, err);
    (void)pthread_mutex_unlock(&d->bridges_lock);
    end(old);
    return r;
}

void docker_bridge_close(struct docker_engine *d, const char *id) {
    (void)pthread_mutex_lock(&d->bridges_lock);
    struct docker_bridge *b = take(d, id);
    (void)pthread_mutex_unlock(&d->bridges_lock);
    end(b);
}

void docker_bridge_close_all(struct docker_engine *d) {
    while (d->bridges != NULL)
        docker_bridge_close(d, d->bridges->id);
}

/* ---- after a restart ---- */

/* The folder is the front's, who must not make us write elsewhere. */
static int open_run(const struct docker_engine *d) {
    _cleanup_(closep) int daemon =
        openat(d->state_dir, "daemon", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return daemon < 0 ? daemon
                      : openat(daemon, "run", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* As the manager does it when it starts one. */
static int listen_again(const struct docker_engine *d, const char *id, struct cay_error *err) {
    _cleanup_(closep) int run = open_run(d);
    _cleanup_(closep) int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat st;
    char name[ID_SIZE + sizeof ".sock"];
    (void)snprintf(name, sizeof name, "%s.sock", id);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", run, name);
    if (run < 0 || sock < 0 || fstat(run, &st) < 0)
        return error_errno(err, "opening the way into sandbox %s again", id);
    if (unlinkat(run, name, 0) < 0 && errno != ENOENT)
        return error_errno(err, "removing the old way into sandbox %s", id);
    if (fchmod(sock, 0600) < 0 || bind(sock, (struct sockaddr *)&address, sizeof address) < 0 ||
        fchownat(run, name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        listen(sock, BACKLOG) < 0)
        return error_errno(err, "listening for sandbox %s again", id);
    return TAKE_FD(sock);
}

int docker_bridge_adopt(struct docker_engine *d, const char *id, struct cay_error *err) {
    int r = 0;
    (void)pthread_mutex_lock(&d->bridges_lock);
    if (!has(d, id)) {
        _cleanup_(closep) int listener = listen_again(d, id, err);
        struct docker_bridge *b = listener < 0 ? NULL : add(d, id, err);
        r = b == NULL ? -CAY_UNAVAILABLE : begin(b, listener, err);
        if (r < 0)
            end(take(d, id));
    }
    (void)pthread_mutex_unlock(&d->bridges_lock);
    return r;
}
