/* A Docker on another machine: nothing of ours can be mounted there, so the programs that
 * containers are started with, and named volumes, are volumes of Docker's. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"
#include "base/str.h"
#include "base/ustar.h"
#include "engine/docker/internal.h"
#include "engine/docker/spec.h"
#include "engine/docker/transport/relay.h"
#include "engine/docker/transport/stream.h"

#define SELF_NAME "self" /* in STATE/docker: the id of this state folder */

enum { TOOLS_MAX = 64 << 20, BODY_MAX = 16 * 1024, PROGRAM_MODE = 0755 };

/* ---- who we are ---- */

static int make_self(const struct docker_engine *d, char out[static ID_SIZE],
                     struct cay_error *err) {
    int r = id_new(out, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd =
        openat(d->folder, SELF_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : fd_write_all(fd, out, ID_LEN);
    return r < 0 ? error_sys(err, -r, "writing the name of this state folder") : 0;
}

int docker_far_label(struct docker_engine *d, struct cay_error *err) {
    char self[ID_SIZE] = "";
    ssize_t n = fd_read_file_at(d->folder, SELF_NAME, self, sizeof self);
    int r = n == -ENOENT ? make_self(d, self, err)
            : n < 0      ? error_sys(err, (int)-n, "reading the name of this state folder")
                         : 0;
    if (r < 0)
        return r;
    if (!id_is_valid(self)) {
        error_set(err, CAY_INTERNAL, "docker/" SELF_NAME " in the state folder holds no name");
        return error_remedy(err, "remove it; containers that it named have to be removed by hand");
    }
    return str_format(d->label, sizeof d->label, "%s:%s", self, d->home);
}

void docker_far_tools_name(const struct docker_engine *d, char out[static DOCKER_VOLUME_SIZE]) {
    (void)snprintf(out, DOCKER_VOLUME_SIZE, DOCKER_TOOLS_PREFIX "%.*s", ID_LEN, d->label);
}

/* ---- the programs ---- */

static int put_program(struct buf *tar, const char *name, int fd, struct cay_error *err) {
    static const char zeros[USTAR_BLOCK];
    unsigned char block[USTAR_BLOCK];
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_errno(err, "looking at %s", name);
    struct ustar h = {
        .type = TAR_FILE, .path = name, .mode = PROGRAM_MODE, .size = (uint64_t)st.st_size};
    ustar_encode(&h, block);
    size_t size = (size_t)st.st_size;
    char *at = buf_append(tar, block, sizeof block) < 0 ? NULL : buf_reserve(tar, size);
    if (at == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory for %s", name);
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(fd, at + done, size - done, (off_t)done);
        if (n <= 0)
            return error_errno(err, "reading %s", name);
        done += (size_t)n;
    }
    buf_commit(tar, size);
    if (buf_append(tar, zeros, (USTAR_BLOCK - size % USTAR_BLOCK) % USTAR_BLOCK) < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory for %s", name);
    return 0;
}

static int make_tar(const struct docker_engine *d, struct buf *tar, struct cay_error *err) {
    static const char end[2 * USTAR_BLOCK];
    char path[PATH_MAX];
    int r = program_find("cay-enter", path, sizeof path, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int enter = open(path, O_RDONLY | O_CLOEXEC);
    if (enter < 0)
        return error_errno(err, "opening %s", path);
    r = put_program(tar, DOCKER_ENTER_NAME, enter, err);
    if (r == 0)
        r = put_program(tar, DOCKER_INIT_NAME, d->init, err);
    if (r == 0 && buf_append(tar, end, sizeof end) < 0)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory for a tar");
    return r;
}

static int call(struct docker_engine *d, const char *method, const char *path,
                const struct buf *body, const char *type, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    struct docker_call c = {.method = method,
                            .path = path,
                            .body = body != NULL ? buf_text(body) : NULL,
                            .body_len = body != NULL ? body->len : 0,
                            .type = type};
    return docker_do(d->api, &c, &a, err);
}

/* By a container that never runs. One that a crash has left is removed first. */
static int fill_tools(struct docker_engine *d, const char *name, const char *image,
                      struct cay_error *err) {
    _cleanup_(buf_free) struct buf tar = BUF_INIT(TOOLS_MAX), body = BUF_INIT(BODY_MAX);
    char create[DOCKER_PATH_SIZE], gone[DOCKER_PATH_SIZE], put[DOCKER_PATH_SIZE];
    if (str_format(create, sizeof create, "/containers/create?name=%s", name) < 0 ||
        str_format(gone, sizeof gone, "/containers/%s?force=1", name) < 0 ||
        str_format(put, sizeof put, "/containers/%s/archive?path=" DOCKER_DOOR_INSIDE, name) < 0)
        return error_set(err, CAY_INTERNAL, "a name is too long");
    int r = make_tar(d, &tar, err);
    if (r == 0)
        r = docker_spec_filler(image, name, &body, err);
    if (r < 0)
        return r;
    (void)call(d, "DELETE", gone, NULL, NULL, NULL);
    r = call(d, "POST", create, &body, NULL, err);
    if (r < 0)
        return r;
    r = call(d, "PUT", put, &tar, "application/x-tar", err);
    int removed = call(d, "DELETE", gone, NULL, NULL, r < 0 ? NULL : err);
    return r < 0 ? r : removed;
}

int docker_far_tools(struct docker_engine *d, const char *image, struct cay_error *err) {
    char name[DOCKER_VOLUME_SIZE];
    int r = 0;
    docker_far_tools_name(d, name);
    (void)pthread_mutex_lock(&d->tools_lock);
    if (!d->has_tools) {
        _cleanup_(closep) int lock = docker_runs_lock(d, err); /* of other processes */
        r = lock < 0 ? lock : fill_tools(d, name, image, err);
        d->has_tools = r == 0;
    }
    (void)pthread_mutex_unlock(&d->tools_lock);
    return r < 0 ? error_prefix(err, "giving cay-init to Docker") : 0;
}

/* ---- entering ---- */

int docker_far_open(struct docker_engine *d, const char *id, struct docker_stream **ret,
                    struct cay_error *err) {
    (void)pthread_rwlock_rdlock(&d->opening);
    int r = docker_stream_open(d->api, id, ret, err);
    (void)pthread_rwlock_unlock(&d->opening);
    return r;
}

static int send_orders(struct docker_stream *s, const struct docker_orders *orders,
                       int64_t deadline) {
    const char *at = (const char *)orders;
    unsigned char head[RELAY_HEADER];
    for (size_t left = sizeof *orders; left > 0;) {
        size_t n = MIN(left, (size_t)RELAY_DATA_MAX);
        relay_put_number(head, sizeof head, n);
        int r = docker_stream_send_all(s, head, sizeof head, deadline);
        if (r == 0)
            r = docker_stream_send_all(s, at, n, deadline);
        if (r < 0)
            return r;
        at += n;
        left -= n;
    }
    return 0;
}

/* Nothing but the end of the stream is the good news. */
static int await_report(struct docker_stream *s, int64_t deadline, struct cay_error *err) {
    struct docker_report report;
    size_t got = 0;
    while (got < sizeof report) {
        enum demux_stream which = DEMUX_STDOUT;
        char piece[sizeof report];
        ssize_t n = docker_stream_await(s, &which, piece, sizeof report - got, deadline);
        if (n < 0) {
            error_sys(err, (int)-n, "waiting for the first process of the container");
            return error_remedy(err, "look what 'docker logs' and the log of dockerd say");
        }
        if (n == 0)
            return got == 0 ? 0
                            : error_set(err, CAY_INTERNAL,
                                        "the first process of the container made no sense");
        if (which == DEMUX_STDOUT) {
            memcpy((char *)&report + got, piece, (size_t)n);
            got += (size_t)n;
        }
    }
    return docker_report_error(&report, err);
}

int docker_far_enter(struct docker_engine *d, const char *id, const struct docker_orders *orders,
                     int timeout_ms, struct cay_error *err) {
    _cleanup_(docker_stream_closep) struct docker_stream *s = NULL;
    int64_t deadline = clock_deadline(timeout_ms);
    int r = docker_far_open(d, id, &s, err);
    if (r < 0)
        return r;
    r = send_orders(s, orders, deadline);
    return r < 0 ? error_sys(err, -r, "giving orders to the container's first process")
                 : await_report(s, deadline, err);
}

/* ---- named volumes ---- */

int docker_far_volume_make(struct docker_engine *d, const char *id, struct cay_error *err) {
    _cleanup_(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    if (!id_is_valid(id))
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of a volume");
    int r = docker_spec_volume(id, d->label, &body, err);
    return r < 0 ? r : call(d, "POST", "/volumes/create", &body, NULL, err);
}

int docker_far_volume_remove(struct docker_engine *d, const char *id, struct cay_error *err) {
    char path[DOCKER_PATH_SIZE];
    if (!id_is_valid(id) ||
        str_format(path, sizeof path, "/volumes/" DOCKER_VOLUME_PREFIX "%s?force=1", id) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of a volume");
    int r = call(d, "DELETE", path, NULL, NULL, err);
    return r == -CAY_NOT_FOUND ? 0 : r;
}
