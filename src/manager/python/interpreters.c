#include "manager/python/interpreters.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "lib/python/choice.h"
#include "lib/python/freeze.h"
#include "lib/python/python.h"
#include "manager/internal.h"
#include "manager/python/interpreters_internal.h"

enum {
    CHECK_MS = 1000, /* between looks at whether the host is still the same */
    AHEAD_MS = (PYTHON_AGE_MAX_S - 600) * 1000,
    REFUSED_MS = 10 * 60 * 1000,
    RETRY_MS = 5 * 1000, /* after a failure that has nothing to do with the image */
    NICE = 10,
};

/* ---- which there are ---- */

static struct frozen *find(struct interpreters *all, const char *image) {
    for (size_t i = 0; i < all->frozen_count; i++)
        if (str_equal(all->frozen[i].image, image))
            return &all->frozen[i];
    return NULL;
}

static void clear(struct frozen *f) {
    fd_close(&f->fd);
    sandbox_record_free(&f->record);
    *f = (struct frozen){.fd = -1};
}

/* The place of one that was not used for longest, if all are taken. */
static struct frozen *add(struct interpreters *all, const char *image) {
    struct frozen *f = &all->frozen[0];
    if (all->frozen_count < INTERPRETERS_FROZEN_MAX)
        f = &all->frozen[all->frozen_count++];
    else
        for (size_t i = 1; i < all->frozen_count; i++)
            if (all->frozen[i].used_at < f->used_at)
                f = &all->frozen[i];
    if (f->image[0] != '\0' || f->made_at != 0)
        clear(f);
    *f = (struct frozen){.fd = -1};
    if (str_copy(f->image, sizeof f->image, image) < 0)
        f->image[0] = '\0'; /* ids have one length */
    return f;
}

static void want(struct interpreters *all, struct frozen *f) {
    f->wanted = true;
    (void)pthread_cond_broadcast(&all->changed);
}

static uint64_t fingerprint(const struct interpreters *all, const char *image) {
    return python_fingerprint(image[0] == '\0', (const char *const *)all->preload.v);
}

static bool is_fresh(struct interpreters *all, struct frozen *f) {
    int64_t now = clock_ms();
    if (f->fd < 0 || now - f->made_at >= (int64_t)PYTHON_AGE_MAX_S * 1000)
        return false;
    if (now - f->checked_at >= CHECK_MS && fingerprint(all, f->image) != f->mark)
        return false;
    f->checked_at = now - f->checked_at >= CHECK_MS ? now : f->checked_at;
    return true;
}

static bool was_refused(const struct frozen *f) {
    return f->refused_at != 0 && f->used_at - f->refused_at < REFUSED_MS;
}

int frozen_get(struct interpreters *all, const char *image, int *ret, uint64_t *ret_number,
               struct cay_error *why) {
    if (!all->warm)
        return error_set(why, CAY_UNSUPPORTED, "python.warm is false");
    struct frozen *f = find(all, image);
    if (f == NULL)
        f = add(all, image);
    f->used_at = clock_ms();
    if (!is_fresh(all, f)) {
        if (was_refused(f))
            return error_set(why, CAY_UNSUPPORTED, "%s", f->why);
        want(all, f);
        return error_set(why, CAY_UNAVAILABLE, "the warm interpreter is being made");
    }
    if (f->used_at - f->made_at >= AHEAD_MS && !was_refused(f))
        want(all, f); /* so that nobody waits for the next */
    *ret_number = f->number;
    *ret = fcntl(f->fd, F_DUPFD_CLOEXEC, 3);
    return *ret < 0 ? error_errno(why, "copying a descriptor") : 0;
}

void frozen_drop(struct interpreters *all, const char *image) {
    struct frozen *f = find(all, image);
    if (f != NULL)
        fd_close(&f->fd);
}

struct frozen *frozen_next(struct interpreters *all) {
    for (size_t i = 0; i < all->frozen_count; i++)
        if (all->frozen[i].wanted)
            return &all->frozen[i];
    return NULL;
}

/* ---- making one ---- */

/* What making one needs, without the lock. */
struct making {
    struct interpreters *all;
    struct sandbox_spec spec;
    struct strv preload;
    struct sandbox_record record;
    struct command_defaults defaults;
    struct python_box box;
};

/* Another sandbox for it. A copy of the connection is for interpreters_free, which gives it up. */
static int open_box(struct making *m, struct cay_error *err) {
    struct interpreters *all = m->all;
    int r = python_box_open(all, &m->spec, m->record.image, &m->box, err);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&all->lock);
    all->making_fd = fcntl(m->box.fd, F_DUPFD_CLOEXEC, 3);
    if (all->closing)
        (void)shutdown(m->box.fd, SHUT_RDWR);
    (void)pthread_mutex_unlock(&all->lock);
    return 0;
}

static void end_box(struct making *m) {
    (void)pthread_mutex_lock(&m->all->lock);
    fd_close(&m->all->making_fd);
    (void)pthread_mutex_unlock(&m->all->lock);
    (void)python_box_end(m->all, &m->box, NULL, NULL); /* gone or not, it is not needed */
}

static int exec_in(void *making, const struct cay_exec *exec, struct cay_result *ret,
                   struct cay_error *err) {
    struct making *m = making;
    return command_exec(&m->box.fd, exec, &m->defaults, ret, err);
}

static int freeze(struct making *m, int memory, struct cay_error *err) {
    int r = open_box(m, err);
    if (r < 0)
        return r;
    r = python_freeze(exec_in, m, PYTHON_WHOLE, (const char *const *)m->preload.v, memory, err);
    end_box(m);
    return r;
}

/* Wakes it once, in another sandbox, before anybody relies on it. */
static int prove(struct making *m, int memory, struct cay_error *err) {
    off_t size = lseek(memory, 0, SEEK_END);
    _cleanup_(closep) int copy = python_copy_sealed(memory, (uint64_t)MAX(size, 0), err);
    if (copy < 0)
        return copy;
    int r = open_box(m, err);
    if (r < 0)
        return r;
    const struct cay_python proof = python_proof(copy);
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.timeout_ms = PYTHON_FREEZE_MS;
    struct cay_python_result result;
    r = python_exec(&m->box.fd, &proof, &exec, &m->defaults, &result, err);
    r = python_judge_proof(r, &result, memory, err);
    cay_python_result_free(&result);
    end_box(m);
    return r;
}

static int describe(struct making *m, const char *image, struct cay_error *err) {
    const struct interpreters_options *o = &m->all->options;
    memcpy(m->record.image, image, HEX_SIZE);
    int r = o->describe != NULL ? o->describe(o->user, &m->record, err) : 0;
    m->defaults = (struct command_defaults){
        .user = m->record.user[0] != '\0' ? m->record.user : NULL,
        .hostname = "python",
        .work_dir = m->record.work_dir[0] == '/' ? m->record.work_dir : "/workspace",
        .env = (const char *const *)m->record.env.v,
    };
    return r;
}

static int make(struct making *m, const char *image, int *ret, struct cay_error *err) {
    int r = describe(m, image, err);
    _cleanup_(closep) int memory = r < 0 ? -1 : python_memory(err);
    if (memory < 0)
        return r < 0 ? r : -(int)err->code;
    r = freeze(m, memory, err);
    if (r == 0)
        r = prove(m, memory, err);
    if (r < 0)
        return r;
    *ret = python_seal(memory, err);
    if (*ret >= 0)
        python_gather(*ret);
    return MIN(*ret, 0);
}

/* With the lock held. What was made under other rules, or of an image that nobody wants any more,
 * is of no use. */
static void settle(struct interpreters *all, const char *image, uint64_t rules, uint64_t mark,
                   int r, int *fd, struct sandbox_record *record, const struct cay_error *err) {
    struct frozen *f = find(all, image);
    if (f == NULL || all->rules != rules)
        return;
    f->wanted = false;
    if (r == 0) {
        fd_close(&f->fd);
        f->fd = TAKE_FD(*fd);
        f->made_at = f->checked_at = clock_ms();
        f->mark = mark;
        f->number = ++all->last_number;
        f->refused_at = 0;
        sandbox_record_free(&f->record);
        f->record = *record;
        *record = (struct sandbox_record){0};
        return;
    }
    (void)snprintf(f->why, sizeof f->why, "%.199s", err->message);
    f->refused_at = clock_ms();
    if (r != -CAY_UNSUPPORTED) /* it may go well next time */
        f->refused_at += RETRY_MS - REFUSED_MS;
}

void frozen_make(struct interpreters *all, const char *image_of) {
    struct cay_error err = {0};
    struct making m = {.all = all, .box = {.fd = -1}};
    _cleanup_(closep) int fd = -1;
    char image[HEX_SIZE];
    (void)pthread_mutex_lock(&all->lock);
    memcpy(image, image_of, sizeof image);
    uint64_t rules = all->rules, mark = fingerprint(all, image);
    m.spec = all->spec;
    int r = 0;
    for (size_t i = 0; r == 0 && i < all->preload.len; i++)
        r = strv_push(&m.preload, all->preload.v[i]);
    (void)pthread_mutex_unlock(&all->lock);
    r = r < 0 ? error_set(&err, CAY_RESOURCE_EXHAUSTED, "no memory") : make(&m, image, &fd, &err);
    if (r < 0)
        log_event(LOG_LEVEL_WARN, "no interpreter was frozen", "why", "%s; %s", err.message,
                  err.remedy);
    (void)pthread_mutex_lock(&all->lock);
    settle(all, image, rules, mark, r, &fd, &m.record, &err);
    (void)pthread_cond_broadcast(&all->changed);
    (void)pthread_mutex_unlock(&all->lock);
    strv_free(&m.preload);
    sandbox_record_free(&m.record);
}

/* ---- for a sandbox that stays ---- */

static bool has(const struct strv *list, const char *entry) {
    for (size_t i = 0; i < list->len; i++)
        if (str_equal(list->v[i], entry))
            return true;
    return false;
}

/* A variable of one that the other has not, and that matters. */
static bool differs(const struct strv *env, const struct strv *from) {
    for (size_t i = 0; i < env->len; i++) {
        const struct strv one = {.v = &env->v[i], .len = 1};
        if (!has(from, env->v[i]) && python_env_matters(&one))
            return true;
    }
    return false;
}

static int compare(const struct frozen *f, const struct sandbox_record *box,
                   struct cay_error *why) {
    if (!str_equal(f->record.user, box->user))
        return error_set(why, CAY_UNSUPPORTED, "the sandbox has a user of its own");
    if (differs(&box->env, &f->record.env) || differs(&f->record.env, &box->env))
        return error_set(why, CAY_UNSUPPORTED,
                         "the sandbox's environment changes how the interpreter starts");
    return 0;
}

static bool is_changed(const struct interpreters *all, const char *id, uint64_t number) {
    for (size_t i = 0; i < INTERPRETERS_CHANGED_MAX; i++)
        if (all->changed_boxes[i].number == number && str_equal(all->changed_boxes[i].id, id))
            return true;
    return false;
}

void interpreters_note_changed(struct interpreters *all, const struct sandbox_record *box) {
    (void)pthread_mutex_lock(&all->lock);
    const struct frozen *f = find(all, box->image);
    if (f != NULL && !is_changed(all, box->id, f->number)) {
        struct changed *c = &all->changed_boxes[all->changed_next++ % INTERPRETERS_CHANGED_MAX];
        memcpy(c->id, box->id, sizeof c->id);
        c->number = f->number;
    }
    (void)pthread_mutex_unlock(&all->lock);
}

void interpreters_charge(struct interpreters *all, struct budget_charge *ret) {
    ret->runs = true;
    ret->amount[BUDGET_PYTHON] = ret->amount[BUDGET_SANDBOXES] = 1;
    (void)pthread_mutex_lock(&all->lock);
    ret->amount[BUDGET_MEMORY] = all->spec.memory_bytes;
    ret->amount[BUDGET_CPUS] = all->spec.cpu_quota_us;
    ret->amount[BUDGET_PIDS] = all->spec.pids;
    (void)pthread_mutex_unlock(&all->lock);
}

void interpreters_index(struct interpreters *all, char *ret, size_t size) {
    (void)pthread_mutex_lock(&all->lock);
    (void)snprintf(ret, size, "%s", all->index_url);
    (void)pthread_mutex_unlock(&all->lock);
}

int interpreters_find(struct interpreters *all, const struct sandbox_record *box,
                      const struct strv *env, struct cay_error *why) {
    if (python_env_matters(env))
        return error_set(why, CAY_UNSUPPORTED, "envs change how the interpreter starts");
    if (python_volumes_matter(&box->volumes))
        return error_set(why, CAY_UNSUPPORTED, "a volume covers files of the interpreter");
    int fd = -1;
    uint64_t number;
    (void)pthread_mutex_lock(&all->lock);
    int r = frozen_get(all, box->image, &fd, &number, why);
    if (r == 0)
        r = compare(find(all, box->image), box, why);
    if (r == 0 && is_changed(all, box->id, number))
        r = error_set(why, CAY_UNSUPPORTED, "the sandbox's Python is another by now");
    (void)pthread_mutex_unlock(&all->lock);
    if (r < 0)
        fd_close(&fd);
    return r < 0 ? r : fd;
}

/* ---- life ---- */

static void wait_until(struct interpreters *all, int64_t at) {
    struct timespec t = {.tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000};
    if (at == 0)
        (void)pthread_cond_wait(&all->changed, &all->lock);
    else
        (void)pthread_cond_timedwait(&all->changed, &all->lock, &t);
}

static void *work(void *arg) {
    struct interpreters *all = arg;
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* as good as without */
    (void)pthread_mutex_lock(&all->lock);
    while (!all->closing) {
        int64_t at = 0;
        const struct frozen *next = frozen_next(all);
        bool missing = next == NULL && once_is_missing(all, &at);
        if (next == NULL && !missing) {
            wait_until(all, at);
            continue;
        }
        char image[HEX_SIZE] = "";
        if (next != NULL)
            memcpy(image, next->image, sizeof image);
        (void)pthread_mutex_unlock(&all->lock);
        if (next != NULL)
            frozen_make(all, image);
        else
            once_fill(all);
        (void)pthread_mutex_lock(&all->lock);
    }
    (void)pthread_mutex_unlock(&all->lock);
    return NULL;
}

int interpreters_new(const struct interpreters_options *options, struct interpreters **ret,
                     struct cay_error *err) {
    struct interpreters *all = calloc(1, sizeof *all);
    if (all == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    all->options = *options;
    all->making_fd = -1;
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* as clock_ms() */
    (void)pthread_mutex_init(&all->lock, NULL);
    (void)pthread_cond_init(&all->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    int r = pthread_create(&all->worker, NULL, work, all);
    if (r != 0) {
        free(all);
        return error_sys(err, r, "starting the keeper of interpreters");
    }
    *ret = all;
    return 0;
}

int interpreters_set_rules(struct interpreters *all, const struct interpreters_rules *rules,
                           struct cay_error *err) {
    struct strv preload = {0};
    for (size_t i = 0; i < rules->preload->len; i++)
        if (strv_push(&preload, rules->preload->v[i]) < 0) {
            strv_free(&preload);
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        }
    (void)pthread_mutex_lock(&all->lock);
    all->rules++;
    all->warm = rules->warm;
    strv_free(&all->preload);
    all->preload = preload;
    all->spec = rules->spec;
    all->target = rules->warm ? MIN(rules->waiting, (size_t)INTERPRETERS_WAITING_MAX) : 0;
    (void)snprintf(all->work_dir, sizeof all->work_dir, "%s", rules->work_dir);
    (void)snprintf(all->find_links, sizeof all->find_links, "%s", rules->find_links);
    (void)snprintf(all->index_url, sizeof all->index_url, "%s", rules->index_url);
    for (size_t i = 0; i < all->frozen_count; i++)
        clear(&all->frozen[i]);
    all->frozen_count = 0;
    once_empty(all);
    (void)pthread_cond_broadcast(&all->changed);
    (void)pthread_mutex_unlock(&all->lock);
    return 0;
}

void interpreters_close(struct interpreters *all) {
    (void)pthread_mutex_lock(&all->lock);
    all->closing = true;
    if (all->making_fd >= 0)
        (void)shutdown(all->making_fd, SHUT_RDWR);
    (void)pthread_cond_broadcast(&all->changed);
    (void)pthread_mutex_unlock(&all->lock);
    (void)pthread_join(all->worker, NULL);
}

void interpreters_free(struct interpreters *all) {
    if (all == NULL)
        return;
    interpreters_close(all);
    once_empty(all);
    for (size_t i = 0; i < all->frozen_count; i++)
        clear(&all->frozen[i]);
    strv_free(&all->preload);
    (void)pthread_cond_destroy(&all->changed);
    (void)pthread_mutex_destroy(&all->lock);
    free(all);
}

void interpreters_total(struct interpreters *all, struct interpreters_totals *ret) {
    (void)pthread_mutex_lock(&all->lock);
    *ret = (struct interpreters_totals){.waiting = all->waiting_count,
                                        .target = all->is_used ? all->target : 0,
                                        .hits = all->hits,
                                        .misses = all->misses,
                                        .dropped = all->dropped};
    for (size_t i = 0; i < all->frozen_count; i++)
        ret->frozen += all->frozen[i].fd >= 0;
    (void)pthread_mutex_unlock(&all->lock);
}
