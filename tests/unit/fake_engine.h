/* An engine in memory, for the tests of the manager: it can fail, wait, and lose sandboxes. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "knob_wait.h"
#include "manager/db/db.h"
#include "manager/manager.h"

enum { FAKE_MAX = 256, MEGABYTE = 1024 * 1024 };

struct fake_box {
    char id[ID_SIZE]; /* "": free */
    enum engine_state state;
    int listener;
};

struct fake {
    struct engine engine;
    pthread_mutex_t lock;
    struct fake_box boxes[FAKE_MAX];
    int away;                                                      /* how many calls find nobody */
    bool frees_disk;                                               /* when something is removed */
    int fail_start, fail_stop, fail_pause, fail_remove, fail_list; /* codes; 0: works */
    int delay_start, delay_stop, delay_list; /* milliseconds; negative: until that changes */
    unsigned under_way, most, listing, most_listing, starts, stops, removes, resumes, lists;
    int gone_ms, fail_resize, fail_volume, fail_resume;
    unsigned volumes;            /* made and not removed */
    struct sandbox_spec resized; /* the last one */
};

static struct fake_box *fake_find(struct fake *f, const char *id) {
    for (size_t i = 0; i < FAKE_MAX; i++)
        if (str_equal(f->boxes[i].id, id))
            return &f->boxes[i];
    return NULL;
}

_unused_ static size_t fake_count(const struct fake *f) {
    size_t n = 0;
    for (size_t i = 0; i < FAKE_MAX; i++)
        n += f->boxes[i].id[0] != '\0';
    return n;
}

static struct fake_box *fake_put(struct fake *f, const char *id, enum engine_state state) {
    struct fake_box *b = fake_find(f, id);
    if (b == NULL) {
        b = fake_find(f, "");
        b->listener = -1;
        (void)snprintf(b->id, sizeof b->id, "%s", id);
    }
    b->state = state;
    return b;
}

/* Reads a knob, and waits as told. */
static int fake_begin(struct fake *f, const int *failure, const int *delay, unsigned *counter,
                      struct cay_error *err) {
    (void)pthread_mutex_lock(&f->lock);
    int code = f->away > 0 ? CAY_UNAVAILABLE : *failure;
    if (f->away > 0)
        f->away--;
    if (counter != NULL)
        ++*counter;
    (void)pthread_mutex_unlock(&f->lock);
    if (delay != NULL)
        knob_wait(&f->lock, delay, &f->under_way, &f->most);
    if (code == 0)
        return 0;
    error_set(err, (enum cay_code)code, "the engine does not want to");
    return error_remedy(err, "persuade it");
}

static int fake_start(struct engine *e, const struct sandbox_spec *spec, const char *image,
                      int listener, struct cay_error *err) {
    struct fake *f = (struct fake *)e;
    (void)image;
    int r = fake_begin(f, &f->fail_start, &f->delay_start, &f->starts, err);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&f->lock);
    struct fake_box *b = fake_put(f, spec->id, ENGINE_RUNNING);
    fd_close(&b->listener);
    b->listener = fcntl(listener, F_DUPFD_CLOEXEC, 3);
    (void)pthread_mutex_unlock(&f->lock);
    return 0;
}

static int fake_set(struct fake *f, const char *id, enum engine_state state,
                    struct cay_error *err) {
    (void)pthread_mutex_lock(&f->lock);
    struct fake_box *b = fake_find(f, id);
    if (b != NULL) {
        b->state = state;
        if (state == ENGINE_STOPPED)
            fd_close(&b->listener);
    }
    (void)pthread_mutex_unlock(&f->lock);
    return b != NULL ? 0 : error_set(err, CAY_NOT_FOUND, "no sandbox %s", id);
}

static void fake_report(struct fake *f, const char *id, enum engine_end_cause cause, int status,
                        bool oom) {
    struct engine_end end = {.oom_killed = oom, .status = status, .cause = cause};
    memcpy(end.id, id, sizeof end.id);
    if (f->engine.ended != NULL)
        f->engine.ended(f->engine.user, &end);
}

static int fake_stop(struct engine *e, const char *id, struct cay_error *err) {
    struct fake *f = (struct fake *)e;
    int r = fake_begin(f, &f->fail_stop, &f->delay_stop, &f->stops, err);
    if (r < 0)
        return r;
    (void)fake_set(f, id, ENGINE_STOPPED, NULL);
    fake_report(f, id, ENGINE_END_ASKED, 9, false); /* a real one reports this too */
    return 0;
}

static int fake_pause(struct engine *e, const char *id, struct cay_error *err) {
    struct fake *f = (struct fake *)e;
    int r = fake_begin(f, &f->fail_pause, NULL, NULL, err);
    return r < 0 ? r : fake_set(f, id, ENGINE_PAUSED, err);
}

static int fake_resume(struct engine *e, const char *id, struct cay_error *err) {
    struct fake *f = (struct fake *)e;
    int r = fake_begin(f, &f->fail_resume, NULL, &f->resumes, err);
    return r < 0 ? r : fake_set(f, id, ENGINE_RUNNING, err);
}

/* Like a full disk: no file can be written beyond this. */
static void limit_files(rlim_t max) {
    (void)setrlimit(RLIMIT_FSIZE, &(struct rlimit){max, RLIM_INFINITY});
}

static int fake_remove(struct engine *e, const char *id, struct cay_error *err) {
    struct fake *f = (struct fake *)e;
    int r = fake_begin(f, &f->fail_remove, NULL, &f->removes, err);
    if (r < 0)
        return r;
    if (f->frees_disk)
        limit_files(RLIM_INFINITY);
    (void)pthread_mutex_lock(&f->lock);
    struct fake_box *b = fake_find(f, id);
    if (b != NULL) {
        fd_close(&b->listener);
        b->id[0] = '\0';
    }
    (void)pthread_mutex_unlock(&f->lock);
    return 0;
}

static int fake_resize(struct engine *e, const struct sandbox_spec *spec, struct cay_error *err) {
    struct fake *f = (struct fake *)e;
    int r = fake_begin(f, &f->fail_resize, NULL, NULL, err);
    (void)pthread_mutex_lock(&f->lock);
    if (r == 0)
        f->resized = *spec;
    (void)pthread_mutex_unlock(&f->lock);
    return r;
}

static int fake_volume_make(struct engine *e, const char *id, uint64_t bytes,
                            struct cay_error *err) {
    struct fake *f = (struct fake *)e;
    (void)id, (void)bytes;
    return fake_begin(f, &f->fail_volume, NULL, &f->volumes, err);
}

static int fake_volume_remove(struct engine *e, const char *id, struct cay_error *err) {
    struct fake *f = (struct fake *)e;
    (void)id;
    int r = fake_begin(f, &f->fail_volume, NULL, NULL, err);
    (void)pthread_mutex_lock(&f->lock);
    f->volumes -= r == 0;
    (void)pthread_mutex_unlock(&f->lock);
    return r;
}

static int fake_stats(struct engine *e, const char *id, struct engine_stats *ret,
                      struct cay_error *err) {
    struct fake *f = (struct fake *)e;
    (void)pthread_mutex_lock(&f->lock);
    bool known = fake_find(f, id) != NULL;
    (void)pthread_mutex_unlock(&f->lock);
    *ret = (struct engine_stats){.memory_bytes = 42};
    return known ? 0 : error_set(err, CAY_NOT_FOUND, "no sandbox %s", id);
}

static int fake_list(struct engine *e, struct engine_sandbox **ret, size_t *ret_count,
                     struct cay_error *err) {
    struct fake *f = (struct fake *)e;
    int r = fake_begin(f, &f->fail_list, NULL, &f->lists, err);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&f->lock);
    struct engine_sandbox *v = calloc(FAKE_MAX, sizeof *v);
    size_t n = 0;
    for (size_t i = 0; v != NULL && i < FAKE_MAX; i++) {
        if (f->boxes[i].id[0] == '\0')
            continue;
        memcpy(v[n].id, f->boxes[i].id, ID_SIZE);
        v[n++].state = f->boxes[i].state;
    }
    *ret = v;
    *ret_count = n;
    (void)pthread_mutex_unlock(&f->lock);
    knob_wait(&f->lock, &f->delay_list, &f->listing, &f->most_listing);
    return v == NULL ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

static int64_t fake_gone_ms(struct engine *e) {
    return ((struct fake *)e)->gone_ms;
}

static const struct engine_ops fake_ops = {
    .start = fake_start,
    .stop = fake_stop,
    .pause = fake_pause,
    .resume = fake_resume,
    .remove = fake_remove,
    .resize = fake_resize,
    .volume_make = fake_volume_make,
    .volume_remove = fake_volume_remove,
    .stats = fake_stats,
    .list = fake_list,
    .gone_ms = fake_gone_ms,
};
