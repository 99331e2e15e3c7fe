#include "engine/link/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/link/connection.h"

static struct link *link_of(struct engine *e) {
    return (struct link *)e;
}

static int ask_about(struct engine *e, enum launcher_op op, const char *id,
                     struct launcher_answer *answer, struct cay_error *err) {
    struct sandbox_spec spec = {0};
    if (id[0] != '\0' && !id_is_valid(id))
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of a sandbox");
    memcpy(spec.id, id, id[0] != '\0' ? ID_SIZE : 1);
    _cleanup_(freep) struct launcher_request *r = link_new_request(op, &spec, err);
    return r == NULL ? -CAY_RESOURCE_EXHAUSTED : link_ask(link_of(e), r, 0, -1, answer, err);
}

static int do_to(struct engine *e, enum launcher_op op, const char *id, struct cay_error *err) {
    struct launcher_answer answer;
    return ask_about(e, op, id, &answer, err);
}

/* ---- the operations ---- */

static int engine_start(struct engine *e, const struct sandbox_spec *spec, const char *image,
                        int listener, struct cay_error *err) {
    struct launcher_answer answer;
    if (spec->mount_count > SPEC_MOUNTS_MAX || !id_is_valid(spec->id) || strlen(image) >= HEX_SIZE)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not a sandbox that can be started");
    _cleanup_(freep) struct launcher_request *r = link_new_request(LAUNCHER_KEEP, spec, err);
    if (r == NULL)
        return -CAY_RESOURCE_EXHAUSTED;
    memcpy(r->image, image, strlen(image) + 1);
    if (spec->mount_count > 0)
        memcpy(r->mounts, spec->mounts, spec->mount_count * sizeof r->mounts[0]);
    int code = link_ask(link_of(e), r, spec->mount_count, listener, &answer, err);
    if (code >= 0 || err->sys != EUCLEAN) /* else its file system is damaged */
        return code;
    code = do_to(e, LAUNCHER_REPAIR, spec->id, err);
    return code < 0 ? code : link_ask(link_of(e), r, spec->mount_count, listener, &answer, err);
}

static int engine_stop(struct engine *e, const char *id, struct cay_error *err) {
    return do_to(e, LAUNCHER_STOP, id, err);
}

static int engine_pause(struct engine *e, const char *id, struct cay_error *err) {
    return do_to(e, LAUNCHER_PAUSE, id, err);
}

static int engine_resume(struct engine *e, const char *id, struct cay_error *err) {
    return do_to(e, LAUNCHER_RESUME, id, err);
}

static int engine_remove(struct engine *e, const char *id, struct cay_error *err) {
    return do_to(e, LAUNCHER_REMOVE, id, err);
}

static int do_to_volume(struct engine *e, uint32_t op, const char *id, uint64_t bytes,
                        struct cay_error *err) {
    struct launcher_answer answer;
    struct sandbox_spec spec = {.disk_bytes = bytes};
    (void)snprintf(spec.id, sizeof spec.id, "%s", id);
    _cleanup_(freep) struct launcher_request *r = link_new_request(op, &spec, err);
    return r == NULL ? -CAY_RESOURCE_EXHAUSTED : link_ask(link_of(e), r, 0, -1, &answer, err);
}

static int engine_volume_make(struct engine *e, const char *id, uint64_t bytes,
                              struct cay_error *err) {
    return do_to_volume(e, LAUNCHER_VOLUME_MAKE, id, bytes, err);
}

static int engine_volume_grow(struct engine *e, const char *id, uint64_t bytes,
                              struct cay_error *err) {
    return do_to_volume(e, LAUNCHER_VOLUME_GROW, id, bytes, err);
}

static int engine_volume_remove(struct engine *e, const char *id, struct cay_error *err) {
    return do_to(e, LAUNCHER_VOLUME_REMOVE, id, err);
}

static int engine_resize(struct engine *e, const struct sandbox_spec *spec, struct cay_error *err) {
    struct launcher_answer answer;
    _cleanup_(freep) struct launcher_request *r = link_new_request(LAUNCHER_RESIZE, spec, err);
    return r == NULL ? -CAY_RESOURCE_EXHAUSTED : link_ask(link_of(e), r, 0, -1, &answer, err);
}

static int measure(struct engine *e, enum launcher_op op, const char *id, struct engine_stats *ret,
                   struct cay_error *err) {
    struct launcher_answer answer;
    int r = ask_about(e, op, id, &answer, err);
    if (r == 0)
        *ret = answer.stats;
    return r;
}

static int engine_stats(struct engine *e, const char *id, struct engine_stats *ret,
                        struct cay_error *err) {
    return measure(e, LAUNCHER_STATS, id, ret, err);
}

static int engine_usage(struct engine *e, const char *id, struct engine_stats *ret,
                        struct cay_error *err) {
    return measure(e, LAUNCHER_USAGE, id, ret, err);
}

static int engine_space(struct engine *e, const struct engine_space_marks *marks,
                        struct engine_space *ret, struct cay_error *err) {
    struct launcher_answer answer;
    struct sandbox_spec spec = {.disk_bytes = marks->floor_bytes,
                                .memory_bytes = marks->hold_bytes};
    _cleanup_(freep) struct launcher_request *r = link_new_request(LAUNCHER_SPACE, &spec, err);
    int code = r == NULL ? -CAY_RESOURCE_EXHAUSTED : link_ask(link_of(e), r, 0, -1, &answer, err);
    if (code == 0)
        *ret = answer.space;
    return code;
}

/* ---- what engines keep by themselves ---- */

static int ask_with_image(struct engine *e, enum launcher_op op, const char *id, const char *image,
                          uint64_t max_bytes, struct launcher_answer *answer,
                          struct cay_error *err) {
    struct sandbox_spec spec = {.disk_bytes = max_bytes};
    if (!id_is_valid(id) || !hex_is_valid(image))
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not a sandbox that can be kept");
    memcpy(spec.id, id, ID_SIZE);
    _cleanup_(freep) struct launcher_request *r = link_new_request(op, &spec, err);
    if (r == NULL)
        return -CAY_RESOURCE_EXHAUSTED;
    memcpy(r->image, image, HEX_SIZE);
    return link_ask(link_of(e), r, 0, -1, answer, err);
}

static int engine_archive(struct engine *e, const char *id, const char *image, uint64_t *ret_bytes,
                          struct cay_error *err) {
    struct launcher_answer answer;
    int r = ask_with_image(e, LAUNCHER_ARCHIVE, id, image, 0, &answer, err);
    if (r == 0)
        *ret_bytes = answer.stats.disk_bytes;
    return r;
}

static int engine_unarchive(struct engine *e, const char *id, struct cay_error *err) {
    return do_to(e, LAUNCHER_UNARCHIVE, id, err);
}

static int engine_backup(struct engine *e, const char *id, const char *image, uint64_t max_bytes,
                         uint64_t *ret_bytes, struct cay_error *err) {
    struct launcher_answer answer;
    int r = ask_with_image(e, LAUNCHER_BACKUP, id, image, max_bytes, &answer, err);
    if (r == 0)
        *ret_bytes = answer.stats.disk_bytes;
    return r;
}

static int engine_backup_restore(struct engine *e, const char *id, bool *ret,
                                 struct cay_error *err) {
    struct launcher_answer answer;
    int r = ask_about(e, LAUNCHER_BACKUP_RESTORE, id, &answer, err);
    *ret = r == 0 && answer.stats.disk_bytes != 0;
    return r;
}

static int engine_backup_remove(struct engine *e, const char *id, struct cay_error *err) {
    return do_to(e, LAUNCHER_BACKUP_REMOVE, id, err);
}

static int engine_snapshot(struct engine *e, const char *id, const char *image,
                           char ret[static HEX_SIZE], struct cay_error *err) {
    struct launcher_answer answer;
    int r = ask_with_image(e, LAUNCHER_SNAPSHOT, id, image, 0, &answer, err);
    if (r < 0)
        return r;
    if (memchr(answer.image, '\0', HEX_SIZE) == NULL || !hex_is_valid(answer.image))
        return error_set(err, CAY_INTERNAL, "the engine sent the id of an image that is none");
    memcpy(ret, answer.image, HEX_SIZE);
    return 0;
}

/* ---- throw-away sandboxes ---- */

static bool add_once(struct link *n, struct once *o) {
    (void)pthread_mutex_lock(&n->lock);
    bool gone = n->gone;
    if (!gone) {
        o->tag = ++n->last_tag;
        o->next = n->onces;
        n->onces = o;
    }
    (void)pthread_mutex_unlock(&n->lock);
    return !gone;
}

/* With the lock held. */
static struct once *find_once(const struct link *n, uint64_t tag) {
    struct once *o = n->onces;
    while (o != NULL && o->tag != tag)
        o = o->next;
    return o;
}

/* With the lock held. */
static struct once *take_once(struct link *n, uint64_t tag) {
    struct once **at = &n->onces;
    while (*at != NULL && (*at)->tag != tag)
        at = &(*at)->next;
    struct once *o = *at;
    if (o != NULL)
        *at = o->next;
    return o;
}

static struct launcher_request *once_request(const struct engine_once *once,
                                             struct cay_error *err) {
    const struct sandbox_spec *spec = once->spec;
    struct launcher_request *r = link_new_request(LAUNCHER_START, spec, err);
    if (r == NULL)
        return NULL;
    r->fds = LAUNCHER_CONNECTION;
    r->ready = once->ready;
    r->wants_counter = once->wants_counter;
    if (once->fingerprint != NULL)
        (void)snprintf(r->fingerprint, sizeof r->fingerprint, "%s", once->fingerprint);
    if (spec->mount_count > 0)
        memcpy(r->mounts, spec->mounts, spec->mount_count * sizeof r->mounts[0]);
    return r;
}

static int engine_once(struct engine *e, const struct engine_once *once, int connection,
                       uint64_t *ret_tag, struct cay_error *err) {
    struct link *n = link_of(e);
    if (once->spec->mount_count > SPEC_MOUNTS_MAX)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not a sandbox that can be started");
    _cleanup_(freep) struct launcher_request *r = once_request(once, err);
    _cleanup_(freep) struct once *o = calloc(1, sizeof *o);
    if (r == NULL || o == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    o->counter = -1;
    if (!add_once(n, o))
        return link_unavailable(n, err);
    uint64_t tag = r->tag = *ret_tag = o->tag;
    (void)TAKE_PTR(o); /* the list's, until it is taken from there */
    if (link_send(n, r, once->spec->mount_count, connection) == 0)
        return 0;
    (void)pthread_mutex_lock(&n->lock);
    o = take_once(n, tag);
    (void)pthread_mutex_unlock(&n->lock);
    return link_unavailable(n, err);
}

static void engine_once_watch(struct engine *e, uint64_t tag,
                              const struct engine_watcher *watcher) {
    struct link *n = link_of(e);
    (void)pthread_mutex_lock(&n->lock);
    struct once *o = find_once(n, tag);
    if (o != NULL) {
        o->watcher = *watcher;
        if (o->started)
            link_once_started(o);
        if (o->ended)
            link_once_ended(o);
    }
    (void)pthread_mutex_unlock(&n->lock);
}

static int engine_once_wait(struct engine *e, uint64_t tag, char ret_id[static ID_SIZE],
                            struct cay_error *err) {
    struct link *n = link_of(e);
    (void)pthread_mutex_lock(&n->lock);
    const struct once *o = find_once(n, tag);
    while (o != NULL && !o->started && !o->ended)
        (void)pthread_cond_wait(&n->changed, &n->lock);
    int r = 0;
    if (o != NULL && o->started) {
        memcpy(ret_id, o->id, ID_SIZE);
    } else {
        if (o != NULL)
            *err = o->err;
        r = o == NULL || err->code == CAY_OK ? link_unavailable(n, err) : -(int)err->code;
    }
    (void)pthread_mutex_unlock(&n->lock);
    return r;
}

static void engine_once_kill(struct engine *e, uint64_t tag) {
    struct cay_error ignored;
    _cleanup_(freep) struct launcher_request *r =
        link_new_request(LAUNCHER_END, &(struct sandbox_spec){0}, &ignored);
    if (r == NULL)
        return;
    r->tag = tag;
    (void)link_send(link_of(e), r, 0, -1); /* what is gone has ended */
}

static int engine_once_end(struct engine *e, uint64_t tag, bool *ret_oom, struct cay_error *err) {
    struct link *n = link_of(e);
    (void)pthread_mutex_lock(&n->lock);
    struct once *o = find_once(n, tag);
    bool lives = o != NULL && !o->ended;
    (void)pthread_mutex_unlock(&n->lock);
    if (lives)
        engine_once_kill(e, tag);
    (void)pthread_mutex_lock(&n->lock);
    while (o != NULL && ret_oom != NULL && !o->ended)
        (void)pthread_cond_wait(&n->changed, &n->lock);
    o = take_once(n, tag);
    (void)pthread_mutex_unlock(&n->lock);
    int result = 0;
    if (o != NULL && ret_oom != NULL)
        *ret_oom = o->oom_killed;
    if (o != NULL && o->err.code != CAY_OK) {
        *err = o->err;
        result = -(int)err->code;
    }
    if (o != NULL)
        fd_close(&o->counter);
    free(o);
    return result;
}

static int64_t engine_gone_ms(struct engine *e) {
    struct link *n = link_of(e);
    (void)pthread_mutex_lock(&n->lock);
    int64_t ms = n->gone ? MAX(clock_ms() - n->gone_at, (int64_t)1) : 0;
    (void)pthread_mutex_unlock(&n->lock);
    return ms;
}

static void engine_ping(struct engine *e) {
    link_ping(link_of(e));
}

static void engine_health(struct engine *e, struct engine_health *ret) {
    link_health(link_of(e), ret);
}

/* Entries that are none would be trusted by whoever finds them. */
static bool page_is_sane(const struct launcher_answer *page) {
    for (uint32_t i = 0; i < page->list.count; i++) {
        const struct engine_sandbox *s = &page->list.entries[i];
        if (memchr(s->id, '\0', sizeof s->id) == NULL || !id_is_valid(s->id) ||
            memchr(s->image, '\0', sizeof s->image) == NULL ||
            (s->image[0] != '\0' && !hex_is_valid(s->image)) || (unsigned)s->state > ENGINE_PAUSED)
            return false;
    }
    return true;
}

static int engine_list(struct engine *e, struct engine_sandbox **ret, size_t *ret_count,
                       struct cay_error *err) {
    _cleanup_(freep) struct engine_sandbox *all = NULL;
    size_t count = 0;
    struct launcher_answer page;
    do {
        int r = ask_about(e, LAUNCHER_LIST, count > 0 ? all[count - 1].id : "", &page, err);
        if (r < 0)
            return r;
        if (page.event != LAUNCHER_HAS_LIST || !page_is_sane(&page))
            return error_set(err, CAY_INTERNAL, "the launcher sent a list that is none");
        struct engine_sandbox *more = reallocarray(all, count + page.list.count + 1, sizeof *more);
        if (more == NULL)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        all = more;
        __atomic_store_n(&e->unkept, page.list.unkept, __ATOMIC_RELAXED);
        memcpy(all + count, page.list.entries, page.list.count * sizeof *all);
        count += page.list.count;
    } while (page.list.count == LAUNCHER_PAGE);
    *ret = TAKE_PTR(all);
    *ret_count = count;
    return 0;
}

/* ---- life ---- */

void link_hang_up(struct engine *e) {
    struct link *n = link_of(e);
    (void)pthread_mutex_lock(&n->sending);
    link_disconnect(n);
    (void)pthread_mutex_unlock(&n->sending);
}

static void engine_close(struct engine *e) {
    struct link *n = link_of(e);
    link_hang_up(e);
    (void)pthread_mutex_destroy(&n->lock);
    (void)pthread_mutex_destroy(&n->sending);
    (void)pthread_cond_destroy(&n->changed);
    free(n);
}

static const struct engine_ops ops = {
    .start = engine_start,
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
    .space = engine_space,
    .once = engine_once,
    .once_watch = engine_once_watch,
    .once_wait = engine_once_wait,
    .once_kill = engine_once_kill,
    .once_end = engine_once_end,
    .archive = engine_archive,
    .unarchive = engine_unarchive,
    .snapshot = engine_snapshot,
    .backup = engine_backup,
    .backup_restore = engine_backup_restore,
    .backup_remove = engine_backup_remove,
    .list = engine_list,
    .gone_ms = engine_gone_ms,
    .ping = engine_ping,
    .health = engine_health,
    .close = engine_close,
};

static struct link *new_engine(void (*ended)(void *user, const struct engine_end *end), void *user,
                               struct cay_error *err) {
    struct link *n = calloc(1, sizeof *n);
    if (n == NULL) {
        error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    n->engine = (struct engine){.ops = &ops, .ended = ended, .user = user};
    n->sock = -1;
    (void)pthread_mutex_init(&n->lock, NULL);
    (void)pthread_mutex_init(&n->sending, NULL);
    (void)pthread_cond_init(&n->changed, NULL);
    return n;
}

int link_open_later(const struct link_source *source,
                    void (*ended)(void *user, const struct engine_end *end), void *user,
                    struct engine **ret, struct cay_error *err) {
    struct link *n = new_engine(ended, user, err);
    if (n == NULL)
        return -CAY_RESOURCE_EXHAUSTED;
    n->source = *source;
    n->gone = true;
    n->gone_at = clock_ms();
    *ret = &n->engine;
    return 0;
}

int link_open(int sock, void (*ended)(void *user, const struct engine_end *end), void *user,
              struct engine **ret, struct cay_error *err) {
    struct link *n = new_engine(ended, user, err);
    if (n == NULL) {
        (void)close(sock);
        return -CAY_RESOURCE_EXHAUSTED;
    }
    int r = link_connect(n, sock, err);
    if (r < 0) {
        engine_close(&n->engine);
        return r;
    }
    *ret = &n->engine;
    return 0;
}

int link_reconnect(struct engine *e, int sock, struct cay_error *err) {
    struct link *n = link_of(e);
    (void)pthread_mutex_lock(&n->sending);
    int r = link_replace(n, sock, err);
    (void)pthread_mutex_unlock(&n->sending);
    return r;
}
