#include "engine/link/server.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "engine/link/protocol.h"

/* How many requests are being worked on. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t fewer;
    size_t count;
} jobs = {.lock = PTHREAD_MUTEX_INITIALIZER, .fewer = PTHREAD_COND_INITIALIZER};

/* A request on its way through its thread. */
struct job {
    struct engine *e;
    int sock;
    int listener; /* or -1 */
    size_t mounts;
    struct launcher_request request;
};

/* One packet, so that answers of several threads do not mix. */
static void answer(int sock, const struct launcher_answer *a) {
    ssize_t n;
    do
        n = send(sock, a, sizeof *a, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR); /* a client that has gone needs none */
}

void link_serve_ended(void *user, const struct engine_end *end) {
    struct launcher_answer a = {.event = LAUNCHER_KEPT_ENDED,
                                .oom_killed = end->oom_killed,
                                .status = end->status,
                                .cause = end->cause};
    memcpy(a.id, end->id, ID_SIZE);
    answer((int)(intptr_t)user, &a);
}

/* ---- operations ---- */

static int keep(struct job *j, struct launcher_answer *a, struct cay_error *err) {
    j->request.spec.mounts = j->request.mounts;
    j->request.spec.mount_count = j->mounts;
    a->event = LAUNCHER_STARTED;
    return j->e->ops->start(j->e, &j->request.spec, j->request.image, j->listener, err);
}

static int by_id(const void *a, const void *b) {
    return strcmp(((const struct engine_sandbox *)a)->id, ((const struct engine_sandbox *)b)->id);
}

/* The page of those whose ids follow the one of the request. */
static int list(const struct job *j, struct launcher_answer *a, struct cay_error *err) {
    _cleanup_(freep) struct engine_sandbox *v = NULL;
    size_t count = 0;
    int r = j->e->ops->list(j->e, &v, &count, err);
    if (r < 0)
        return r;
    if (count > 0)
        qsort(v, count, sizeof *v, by_id);
    a->event = LAUNCHER_HAS_LIST;
    for (size_t i = 0; i < count && a->list.count < LAUNCHER_PAGE; i++)
        if (strcmp(v[i].id, j->request.spec.id) > 0)
            a->list.entries[a->list.count++] = v[i];
    return 0;
}

static int measure(const struct job *j, struct launcher_answer *a, struct cay_error *err) {
    a->event = LAUNCHER_HAS_STATS;
    return (j->request.op == LAUNCHER_STATS ? j->e->ops->stats : j->e->ops->usage)(
        j->e, j->request.spec.id, &a->stats, err);
}

static int restore_backup(const struct job *j, struct launcher_answer *a, struct cay_error *err) {
    bool restored = false;
    int r = j->e->ops->backup_restore(j->e, j->request.spec.id, &restored, err);
    a->event = LAUNCHER_HAS_STATS;
    a->stats.disk_bytes = restored;
    return r;
}

static int run(struct job *j, struct launcher_answer *a, struct cay_error *err) {
    const struct engine_ops *ops = j->e->ops;
    const char *id = j->request.spec.id;
    a->event = LAUNCHER_DONE;
    switch (j->request.op) {
    case LAUNCHER_KEEP:
        return keep(j, a, err);
    case LAUNCHER_STOP:
        return ops->stop(j->e, id, err);
    case LAUNCHER_PAUSE:
        return ops->pause(j->e, id, err);
    case LAUNCHER_RESUME:
        return ops->resume(j->e, id, err);
    case LAUNCHER_REMOVE:
        return ops->remove(j->e, id, err);
    case LAUNCHER_RESIZE:
        return ops->resize(j->e, &j->request.spec, err);
    case LAUNCHER_VOLUME_MAKE:
        return ops->volume_make(j->e, id, j->request.spec.disk_bytes, err);
    case LAUNCHER_VOLUME_GROW:
        return ops->volume_grow(j->e, id, j->request.spec.disk_bytes, err);
    case LAUNCHER_VOLUME_REMOVE:
        return ops->volume_remove(j->e, id, err);
    case LAUNCHER_ARCHIVE:
        a->event = LAUNCHER_HAS_STATS;
        return ops->archive(j->e, id, j->request.image, &a->stats.disk_bytes, err);
    case LAUNCHER_UNARCHIVE:
        return ops->unarchive(j->e, id, err);
    case LAUNCHER_SNAPSHOT:
        a->event = LAUNCHER_HAS_IMAGE;
        return ops->snapshot(j->e, id, j->request.image, a->image, err);
    case LAUNCHER_BACKUP:
        a->event = LAUNCHER_HAS_STATS;
        return ops->backup(j->e, id, j->request.image, j->request.spec.disk_bytes,
                           &a->stats.disk_bytes, err);
    case LAUNCHER_BACKUP_RESTORE:
        return restore_backup(j, a, err);
    case LAUNCHER_BACKUP_REMOVE:
        return ops->backup_remove(j->e, id, err);
    case LAUNCHER_LIST:
        return list(j, a, err);
    case LAUNCHER_STATS:
    case LAUNCHER_USAGE:
        return measure(j, a, err);
    default:
        return error_set(err, CAY_UNSUPPORTED, "this engine has sandboxes that stay only");
    }
}

/* ---- threads ---- */

static void count_jobs(int more) {
    (void)pthread_mutex_lock(&jobs.lock);
    jobs.count += (size_t)more;
    (void)pthread_cond_broadcast(&jobs.fewer);
    (void)pthread_mutex_unlock(&jobs.lock);
}

void link_serve_wait(void) {
    (void)pthread_mutex_lock(&jobs.lock);
    while (jobs.count > 0)
        (void)pthread_cond_wait(&jobs.fewer, &jobs.lock);
    (void)pthread_mutex_unlock(&jobs.lock);
}

static void *run_job(void *arg) {
    struct job *j = arg;
    struct launcher_answer a = {.tag = j->request.tag};
    struct cay_error err = {0};
    memcpy(a.id, j->request.spec.id, ID_SIZE);
    if (run(j, &a, &err) < 0) {
        a.event = LAUNCHER_FAILED;
        a.err = err;
    }
    answer(j->sock, &a);
    fd_close(&j->listener);
    free(j);
    count_jobs(-1);
    return NULL;
}

static int start_job(struct job *j) {
    pthread_attr_t detached;
    pthread_t thread;
    if (pthread_attr_init(&detached) != 0)
        return -ENOMEM;
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    count_jobs(1);
    int r = pthread_create(&thread, &detached, run_job, j);
    if (r != 0)
        count_jobs(-1);
    (void)pthread_attr_destroy(&detached);
    return -r;
}

static void refuse(const struct job *j) {
    struct launcher_answer a = {.event = LAUNCHER_FAILED, .tag = j->request.tag};
    error_set(&a.err, CAY_RESOURCE_EXHAUSTED, "no thread for a request to the engine");
    (void)error_remedy(&a.err, "try again in a moment");
    answer(j->sock, &a);
}

/* 1 with a job that was begun, 0 at the end, negative for what no client of ours would send. */
static int take_job(struct engine *e, int sock) {
    struct job *j = calloc(1, sizeof *j);
    if (j == NULL)
        return -ENOMEM;
    size_t count = 0;
    j->e = e;
    j->sock = sock;
    j->listener = -1;
    ssize_t n = fd_receive(sock, &j->request, sizeof j->request, &j->listener, 1, &count);
    int r = n <= 0 ? (int)n : launcher_check(&j->request, (size_t)n);
    if (n > 0 && r == 0 && count != (j->request.fds == LAUNCHER_LISTENER))
        r = -EINVAL;
    if (n > 0 && r == 0) {
        j->mounts = ((size_t)n - launcher_request_size(0)) / sizeof j->request.mounts[0];
        if (start_job(j) == 0)
            return 1;
        refuse(j);
        r = 1;
    }
    if (count > 0)
        fd_close(&j->listener);
    free(j);
    return r;
}

int link_serve(struct engine *e, int sock, struct cay_error *err) {
    int r;
    do
        r = take_job(e, sock);
    while (r > 0 || r == -EINTR);
    return r < 0 ? error_sys(err, -r, "reading a request to the engine") : 0;
}
