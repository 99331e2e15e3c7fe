/* What the tests of the manager share: an engine in memory that can fail, dawdle and kill, and a
 * folder for a manager over it. Each program includes it once. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
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
#include "manager/db.h"
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
    int delay_start, delay_stop;                                   /* milliseconds */
    unsigned starts, stops, removes;
};

static void sleep_ms(int ms) {
    (void)nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

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
    int code = f->away > 0 ? CAY_UNAVAILABLE : *failure, ms = delay == NULL ? 0 : *delay;
    if (f->away > 0)
        f->away--;
    if (counter != NULL)
        ++*counter;
    (void)pthread_mutex_unlock(&f->lock);
    sleep_ms(ms);
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

static void fake_tell(struct fake *f, const char *id, int status, bool oom) {
    struct engine_end end = {.oom_killed = oom, .status = status};
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
    fake_tell(f, id, 9, false); /* a real one reports this too */
    return 0;
}

static int fake_pause(struct engine *e, const char *id, struct cay_error *err) {
    struct fake *f = (struct fake *)e;
    int r = fake_begin(f, &f->fail_pause, NULL, NULL, err);
    return r < 0 ? r : fake_set(f, id, ENGINE_PAUSED, err);
}

static int fake_resume(struct engine *e, const char *id, struct cay_error *err) {
    return fake_set((struct fake *)e, id, ENGINE_RUNNING, err);
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
    int r = fake_begin(f, &f->fail_list, NULL, NULL, err);
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
    return v == NULL ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

static const struct engine_ops fake_ops = {
    .start = fake_start,
    .stop = fake_stop,
    .pause = fake_pause,
    .resume = fake_resume,
    .remove = fake_remove,
    .stats = fake_stats,
    .list = fake_list,
};

_unused_ static void set_knob(struct fake *f, int *knob, int value) {
    (void)pthread_mutex_lock(&f->lock);
    *knob = value;
    (void)pthread_mutex_unlock(&f->lock);
}

/* "stopped", "running", "paused", or "nothing". */
static const char *fake_state(struct fake *f, const char *id) {
    static const char *const names[] = {"stopped", "running", "paused"};
    (void)pthread_mutex_lock(&f->lock);
    const struct fake_box *b = fake_find(f, id);
    const char *name = b == NULL ? "nothing" : names[b->state];
    (void)pthread_mutex_unlock(&f->lock);
    return name;
}

/* ---- a manager over it ---- */

struct world {
    char folder[64];
    struct fake fake;
    struct manager_options options;
    struct manager *m;
};

/* "slow:MS", "bad", or any other name. */
static int ensure_fake(void *user, const char *name, int progress_fd, char id[static HEX_SIZE],
                       struct cay_error *err) {
    (void)user;
    (void)progress_fd;
    int64_t ms = 0;
    if (str_equal(name, "bad"))
        return error_set(err, CAY_NOT_FOUND, "no such image");
    if (str_starts(name, "slow:") && str_to_i64(name + 5, 0, 10000, &ms) == 0)
        sleep_ms((int)ms);
    memset(id, 'c', HEX_SIZE - 1);
    id[HEX_SIZE - 1] = '\0';
    return 0;
}

static void open_manager(struct world *w) {
    struct cay_error err = {0};
    if (manager_open(&w->options, &w->m, &err) < 0)
        fail_msg("%s", err.message);
    w->fake.engine.ended = manager_ended;
    w->fake.engine.user = w->m;
    if (manager_start(w->m, &w->fake.engine, &err) < 0)
        fail_msg("%s", err.message);
}

static void close_manager(struct world *w) {
    manager_close(w->m, 5000);
    w->m = NULL;
    w->fake.engine.ended = NULL;
}

/* A daemon that was restarted. */
_unused_ static void reopen_manager(struct world *w) {
    close_manager(w);
    open_manager(w);
}

static int setup(void **state) {
    struct world *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                           0); /* what a child does to the engine outlives it */
    assert_true(w != MAP_FAILED);
    assert_int_equal(str_copy(w->folder, sizeof w->folder, "/tmp/cay-manager-test-XXXXXX"), 0);
    assert_non_null(mkdtemp(w->folder));
    assert_int_equal(chdir(w->folder), 0);
    w->fake.engine.ops = &fake_ops;
    (void)pthread_mutex_init(&w->fake.lock, NULL);
    w->options = (struct manager_options){
        .folder = w->folder,
        .limits = {.max_sandboxes = 100, .cleanup_interval_ms = 3600 * 1000, .stop_grace_ms = 200},
        .defaults = {.memory_bytes = 64 * MEGABYTE,
                     .cpu_quota_us = 100000,
                     .pids = 64,
                     .auto_delete_minutes = -1},
        .ensure = ensure_fake,
    };
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    if (w->m != NULL)
        close_manager(w);
    for (size_t i = 0; i < FAKE_MAX; i++)
        if (w->fake.boxes[i].id[0] != '\0')
            fd_close(&w->fake.boxes[i].listener);
    int r = chdir("/");
    r |= path_remove_tree(AT_FDCWD, w->folder);
    return r | munmap(w, sizeof *w);
}

/* A sandbox with this name; its id is returned in a text that lives until 16 more were made. */
_unused_ static const char *make_box(struct world *w, const char *name) {
    static char ids[16][ID_SIZE];
    static unsigned next;
    struct sandbox_record request = {0}, made = {0};
    struct cay_error err = {0};
    char *id = ids[next++ % 16];
    assert_int_equal(str_copy(request.name, sizeof request.name, name), 0);
    if (manager_create(w->m, &request, -1, &made, &err) < 0)
        fail_msg("%s", err.message);
    memcpy(id, made.id, ID_SIZE);
    sandbox_record_free(&made);
    return id;
}

/* The state's name, "gone" if there is no such sandbox. */
static const char *state_of(struct world *w, const char *who) {
    struct sandbox_record r = {0};
    if (manager_get(w->m, who, &r, NULL) < 0)
        return "gone";
    const char *name = sandbox_state_name(r.state);
    sandbox_record_free(&r);
    return name;
}

_unused_ static void await_state(struct world *w, const char *who, const char *state, int ms) {
    int64_t until = clock_ms() + ms;
    while (!str_equal(state_of(w, who), state)) {
        if (clock_ms() > until)
            fail_msg("%s is %s, not %s", who, state_of(w, who), state);
        sleep_ms(5);
    }
}

/* An operation: the connection. */
_unused_ static int begin(struct world *w, const char *who, struct operation **op) {
    struct sandbox_record r = {0};
    struct cay_error err = {0};
    int fd = manager_begin(w->m, who, op, &r, &err);
    if (fd < 0)
        fail_msg("%s", err.message);
    sandbox_record_free(&r);
    return fd;
}

_unused_ static void end(struct world *w, int fd, struct operation *op) {
    (void)close(fd);
    manager_end(w->m, op);
}
