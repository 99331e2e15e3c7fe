#include "engine/docker/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/docker/bridge.h"
#include "engine/docker/internal.h"
#include "engine/docker/spec.h"
#include "engine/engines.h"
#include "engine/init_memfd.h"
#include "image/store.h"

enum { GONE_MS = 60 * 1000, LOOK_AGAIN_MS = 50, LIST_MS = 20 * 1000, UPDATE_MAX = 4096 };

/* Behind the state folder, whose name does not end like that. */
#define RUN_LABEL "//run"

/* The filter by label, escaped for a URL; the state folder is compared when the answer is read. */
#define OURS "filters=%7B%22label%22%3A%5B%22" DOCKER_LABEL_ID "%22%5D%7D"

int docker_path(char out[static DOCKER_PATH_SIZE], const char *id, const char *rest,
                struct cay_error *err) {
    if (!id_is_valid(id) || str_format(out, DOCKER_PATH_SIZE, "/containers/cay-%s%s", id, rest) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of a sandbox");
    return 0;
}

/* One request about a container, without a body. */
static int ask_about(struct docker_engine *d, const char *method, const char *id, const char *rest,
                     struct docker_answer *ret, struct cay_error *err) {
    char path[DOCKER_PATH_SIZE];
    int r = docker_path(path, id, rest, err);
    return r < 0 ? r
                 : docker_ask(d->api, &(struct docker_call){.method = method, .path = path}, ret,
                              err);
}

static int do_to(struct docker_engine *d, const char *method, const char *id, const char *rest,
                 const char *what, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    int r = ask_about(d, method, id, rest, &a, err);
    return r < 0 || a.status < 400 ? r : docker_refused(&a, what, err);
}

/* One of our name that is not ours, as with a copy of a state folder whose containers live on. */
static int refuse_anothers(const char *id, struct cay_error *err) {
    error_set(err, CAY_CONFLICT, "Docker's container cay-%s is not of this state folder", id);
    return error_remedy(err, "look whose it is: docker inspect cay-%s; rename it, or remove it",
                        id);
}

int docker_inspect(struct docker_engine *d, const char *id, const char *rest,
                   struct docker_container *ret, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    int r = ask_about(d, "GET", id, rest, &a, err);
    if (r == 0 && a.status >= 400)
        r = docker_refused(&a, "looking at the container", err);
    if (r == 0)
        r = docker_parse_inspect(buf_text(&a.body), a.body.len, d->label, ret, err);
    return r == 0 && !str_equal(ret->owner, id) ? refuse_anothers(id, err) : r;
}

/* ---- life ---- */

static int wait_until_stopped(struct docker_engine *d, const char *id, struct cay_error *err) {
    struct docker_container c;
    int64_t deadline = clock_ms() + GONE_MS;
    for (;;) {
        int r = docker_inspect(d, id, "/json", &c, err);
        if (r == -CAY_NOT_FOUND || (r == 0 && c.state == ENGINE_STOPPED))
            return 0;
        if (r < 0)
            return r;
        if (clock_ms() > deadline)
            return error_set(err, CAY_TIMEOUT, "Docker does not end the container");
        (void)usleep(LOOK_AGAIN_MS * 1000);
    }
}

static int engine_stop(struct engine *e, const char *id, struct cay_error *err) {
    struct docker_engine *d = docker_of(e);
    struct docker_container c;
    int r = docker_inspect(d, id, "/json", &c, err);
    if (r < 0 || c.state == ENGINE_STOPPED)
        return r;
    if (c.state == ENGINE_PAUSED) /* cgroup v1 kills nothing that is frozen */
        (void)do_to(d, "POST", id, "/unpause", "resuming", NULL);
    r = do_to(d, "POST", id, "/kill?signal=KILL", "killing the container", err);
    if (r < 0 && r != -CAY_CONFLICT) /* it has ended meanwhile */
        return r;
    r = wait_until_stopped(d, id, err);
    if (r == 0)
        docker_bridge_close(d, id);
    return r;
}

static int engine_pause(struct engine *e, const char *id, struct cay_error *err) {
    struct docker_engine *d = docker_of(e);
    (void)pthread_rwlock_wrlock(&d->opening);
    int r = do_to(d, "POST", id, "/pause", "pausing", err);
    (void)pthread_rwlock_unlock(&d->opening);
    return r;
}

static int engine_resume(struct engine *e, const char *id, struct cay_error *err) {
    return do_to(docker_of(e), "POST", id, "/unpause", "resuming", err);
}

/* A removal that somebody else has begun is answered by a conflict, and is waited for. What is not
 * ours stays; of what cannot be looked at Docker may know better how to remove it. */
static int remove_container(struct docker_engine *d, const char *id, struct cay_error *err) {
    struct docker_container c;
    struct cay_error ignored; /* which carries the code */
    int64_t deadline = clock_ms() + GONE_MS;
    for (;;) {
        int r = docker_inspect(d, id, "/json", &c, &ignored);
        if (r == -CAY_NOT_FOUND || r == -CAY_CONFLICT)
            return 0;
        r = do_to(d, "DELETE", id, "?force=1&v=1", "removing the container", err);
        if (r == 0 || r == -CAY_NOT_FOUND)
            return 0;
        if (r != -CAY_CONFLICT || clock_ms() > deadline)
            return r;
        (void)usleep(LOOK_AGAIN_MS * 1000);
    }
}

static int engine_remove(struct engine *e, const char *id, struct cay_error *err) {
    struct docker_engine *d = docker_of(e);
    int r = remove_container(d, id, err);
    if (r == -CAY_UNAVAILABLE && faccessat(d->folder, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        r = 0; /* a container is made after its folder: this one never was */
    if (r < 0)
        return r;
    docker_bridge_close(d, id);
    r = path_remove_tree(d->folder, id);
    if (r < 0)
        return error_sys(err, -r, "removing the folder of sandbox %s", id);
    char archive[DOCKER_ARCHIVE_SIZE]; /* it is started with the image's users again */
    r = d->is_run ? 0 : docker_archive_find(d, id, archive, err);
    return r != 0 ? MIN(r, 0) : image_store_unpin(d->home, id, err);
}

/* ---- limits and statistics ---- */

static int engine_resize(struct engine *e, const struct sandbox_spec *spec, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    _cleanup_(buf_free) struct buf body = BUF_INIT(UPDATE_MAX);
    char path[DOCKER_PATH_SIZE];
    if (spec->disk_bytes != 0) {
        error_set(err, CAY_UNSUPPORTED, "the disk of a container keeps its size");
        return error_remedy(err, "make another sandbox, or use engine = \"native\" for that");
    }
    struct sandbox_spec limits = *spec;
    limits.pids = docker_runtime_pids(docker_of(e)->runtime, spec->pids);
    int r = docker_path(path, spec->id, "/update", err);
    if (r == 0)
        r = docker_spec_update(&limits, &body, err);
    if (r < 0)
        return r;
    struct docker_call call = {
        .method = "POST", .path = path, .body = buf_text(&body), .body_len = body.len};
    r = docker_ask(docker_of(e)->api, &call, &a, err);
    if (r < 0 || a.status < 400)
        return r;
    struct docker_container c = {0};
    bool exists = docker_inspect(docker_of(e), spec->id, "/json", &c, NULL) == 0;
    if (a.status == 404 && exists) {
        error_set(err, CAY_UNSUPPORTED, "this engine cannot change the limits of a container");
        return error_remedy(err, "use Docker, or podman 5 or later");
    }
    if (a.status >= 500 && c.by_stream && c.state != ENGINE_STOPPED) { /* runsc has no such verb */
        error_set(err, CAY_UNSUPPORTED, "the runtime cannot change the limits of what runs");
        return error_remedy(err, "stop the sandbox, change them, and start it again");
    }
    return docker_refused(&a, "changing the limits", err);
}

static int engine_usage(struct engine *e, const char *id, struct engine_stats *ret,
                        struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    int r = ask_about(docker_of(e), "GET", id, "/stats?stream=false&one-shot=true", &a, err);
    if (r == 0 && a.status >= 400)
        r = docker_refused(&a, "measuring the container", err);
    return r < 0 ? r : docker_parse_stats(buf_text(&a.body), a.body.len, ret, err);
}

static int engine_stats(struct engine *e, const char *id, struct engine_stats *ret,
                        struct cay_error *err) {
    struct docker_container c;
    int r = engine_usage(e, id, ret, err);
    if (r == 0)
        r = docker_inspect(docker_of(e), id, "/json?size=1", &c, err);
    if (r == 0) {
        ret->disk_bytes = c.size_rw;
        ret->disk_limit = c.disk_bytes;
        ret->oom_kills = MAX(docker_events_oom(docker_of(e), id), (uint64_t)c.oom_killed);
    }
    return r;
}

/* ---- volumes: folders of ours, as the native engine has them ---- */

static int engine_volume_make(struct engine *e, const char *id, uint64_t bytes,
                              struct cay_error *err) {
    if (bytes != 0) {
        error_set(err, CAY_UNSUPPORTED, "the Docker engine limits no volumes");
        return error_remedy(err, "omit the size, or use engine = \"native\"");
    }
    return docker_of(e)->is_far ? docker_far_volume_make(docker_of(e), id, err)
                                : volume_make(&docker_of(e)->volumes, id, 0, err);
}

static int engine_volume_grow(struct engine *e, const char *id, uint64_t bytes,
                              struct cay_error *err) {
    (void)e, (void)id, (void)bytes;
    error_set(err, CAY_UNSUPPORTED, "the Docker engine limits no volumes");
    return error_remedy(err, "use engine = \"native\", as root");
}

static int engine_volume_remove(struct engine *e, const char *id, struct cay_error *err) {
    if (docker_of(e)->is_far)
        return docker_far_volume_remove(docker_of(e), id, err);
    if (!id_is_valid(id))
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of a volume");
    _cleanup_(closep) int store = volume_open_store(&docker_of(e)->volumes, err);
    if (store < 0)
        return store;
    int r = path_remove_tree(store, id);
    return r < 0 ? error_storage(err, -r, "removing volume %s", id) : 0;
}

/* ---- what exists ---- */

/* Those that ran before this process did: their ways in ended with the one before. */
static void adopt(struct docker_engine *d, const struct engine_sandbox *v, size_t count) {
    struct cay_error err;
    for (size_t i = 0; i < count; i++)
        if (v[i].state != ENGINE_STOPPED && (d->is_far || v[i].by_stream) &&
            docker_bridge_adopt(d, v[i].id, &err) < 0)
            log_event(LOG_LEVEL_WARN, "there is no way into a sandbox", "id", "%s: %s", v[i].id,
                      err.message);
}

int docker_list(struct docker_engine *d, struct engine_sandbox **ret, size_t *ret_count,
                struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    struct docker_call call = {
        .method = "GET", .path = "/containers/json?all=1&" OURS, .timeout_ms = LIST_MS};
    int r = docker_do(d->api, &call, &a, err);
    if (r == 0)
        r = docker_parse_list(buf_text(&a.body), a.body.len, d->label, ret, ret_count, err);
    if (r == 0)
        adopt(d, *ret, *ret_count);
    return r;
}

static int engine_list(struct engine *e, struct engine_sandbox **ret, size_t *ret_count,
                       struct cay_error *err) {
    struct docker_engine *d = docker_of(e);
    if (!d->is_run)
        return docker_list(d, ret, ret_count, err);
    docker_runs_sweep(d); /* its own one is nobody's to adopt */
    *ret = NULL;
    *ret_count = 0;
    return 0;
}

/* ---- opening and closing ---- */

static void engine_close(struct engine *e) {
    struct docker_engine *d = docker_of(e);
    docker_events_stop(d);
    docker_bridge_close_all(d);
    docker_api_free(d->api);
    fd_close(&d->init);
    fd_close(&d->held);
    fd_close(&d->folder);
    fd_close(&d->state_dir);
    free(d);
}

static const struct engine_ops ops = {
    .start = docker_start,
    .stop = engine_stop,
    .pause = engine_pause,
    .resume = engine_resume,
    .remove = engine_remove,
    .resize = engine_resize,
    .volume_make = engine_volume_make,
    .volume_grow = engine_volume_grow,
    .volume_remove = engine_volume_remove,
    .stats = engine_stats,
    .usage = engine_usage,
    .archive = docker_archive,
    .unarchive = docker_unarchive,
    .snapshot = docker_snapshot,
    .backup = docker_backup,
    .backup_restore = docker_backup_restore,
    .backup_remove = docker_backup_remove,
    .list = engine_list,
    .close = engine_close,
};

static int open_folders(struct docker_engine *d, const struct docker_engine_options *o,
                        struct cay_error *err) {
    if (str_copy(d->home, sizeof d->home, o->state_dir) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the name of the state folder is too long");
    d->state_dir = open(o->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->state_dir < 0)
        return error_errno(err, "opening the state folder");
    if (mkdirat(d->state_dir, d->folder_name, 0700) < 0 && errno != EEXIST)
        return error_errno(err, "making the folder of containers");
    d->folder =
        openat(d->state_dir, d->folder_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (d->folder < 0)
        return error_errno(err, "opening the folder of containers");
    /* Containers have no ids of their own: what is theirs belongs to root. */
    d->volumes = (struct volume_rules){.roots = o->folders,
                                       .state_dir = d->state_dir,
                                       .own_userns = true,
                                       .shares_root = geteuid() == 0};
    return 0;
}

/* Whoever pauses comes before those who open streams later. */
static void init_opening(pthread_rwlock_t *lock) {
    pthread_rwlockattr_t attr;
    (void)pthread_rwlockattr_init(&attr);
    (void)pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    (void)pthread_rwlock_init(lock, &attr);
    (void)pthread_rwlockattr_destroy(&attr);
}

/* Whose containers are; those that go with their process are no daemon's. */
static int make_label(struct docker_engine *d, struct cay_error *err) {
    _cleanup_(closep) int lock = docker_runs_lock(d, err);
    if (lock < 0)
        return lock;
    int r = d->is_far ? docker_far_label(d, err) : str_copy(d->label, sizeof d->label, d->home);
    size_t len = strlen(d->label);
    if (r == 0 && d->is_run)
        r = str_copy(d->label + len, sizeof d->label - len, RUN_LABEL);
    return r;
}

int docker_engine_open(const struct docker_engine_options *o, struct engine **ret,
                       struct cay_error *err) {
    struct docker_engine *d = calloc(1, sizeof *d);
    if (d == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    d->engine = (struct engine){.ops = &ops, .ended = o->ended, .user = o->user};
    d->state_dir = d->folder = d->init = d->held = -1;
    d->is_run = o->is_run;
    d->folder_name = o->is_run ? DOCKER_RUN_FOLDER : engine_type(ENGINE_DOCKER)->folder;
    d->is_far = o->unusable == NULL && o->host->socket[0] == '\0';
    (void)pthread_mutex_init(&d->bridges_lock, NULL);
    init_opening(&d->opening);
    (void)pthread_mutex_init(&d->tools_lock, NULL);
    int r = str_copy(d->runtime, sizeof d->runtime, o->runtime);
    if (r == 0)
        r = open_folders(d, o, err);
    if (r == 0)
        r = make_label(d, err);
    if (r == 0)
        r = docker_api_new(o->host, o->unusable, &d->api, err);
    if (r == 0)
        d->init = r = init_memfd_create(err);
    if (r >= 0 && !d->is_run)
        r = docker_events_start(d, err);
    if (r < 0) {
        engine_close(&d->engine);
        return r;
    }
    *ret = &d->engine;
    return 0;
}
