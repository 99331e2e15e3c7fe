/* The warm pool: sandboxes made ahead, so that a new one is there at once. A pooled sandbox is a
 * row like any other, which nobody sees. Taking one gives it its name, owner and limits in one
 * write; it is never given back. A thread makes new ones, in a lane of its own of the queue of
 * creations, and removes those that nobody could take any more. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "manager/internal.h"

enum {
    LAG_MS = 50,             /* from the first that is missing until one is made: a client that
                              * takes one needs the processor first */
    LOOK_MS = 5 * 60 * 1000, /* between looks at whether the images are still the same */
    RETRY_MIN_MS = 5 * 1000, /* after a failure; doubled each time */
    RETRY_MAX_MS = 10 * 60 * 1000,
    NICE = 10,
};

/* ---- which one fits ---- */

static bool has_shape(const struct sandbox_record *p, const struct sandbox_record *wanted) {
    return p->engine == wanted->engine && str_equal(p->image, wanted->image) &&
           p->tier == wanted->tier && p->profile == wanted->profile &&
           p->read_only == wanted->read_only && p->disk_bytes == wanted->disk_bytes;
}

static bool is_free(const struct sandbox *s) {
    return s->record.pooled && s->record.state == SANDBOX_STARTED && !s->changing && !s->gone &&
           !s->has_end && !s->missed;
}

static struct sandbox *find_free(const struct manager *m, const struct sandbox_record *wanted) {
    struct table_rows rows = table_rows_pooled(m);
    for (size_t i = 0; i < rows.count; i++)
        if (is_free(rows.v[i]) && has_shape(&rows.v[i]->record, wanted))
            return rows.v[i];
    return NULL;
}

/* ---- taking one ---- */

static void note_empty(struct manager *m, bool *ret_missed) {
    *ret_missed = true;
    duty_wake(m); /* perhaps it can be filled by now */
}

/* The part of the window that is now, emptied if it was used before. */
static struct pool_period *current_period(struct pool *pool) {
    int64_t number = clock_ms() / POOL_PERIOD_MS;
    struct pool_period *p = &pool->window[number % POOL_PERIODS];
    if (p->number != number)
        *p = (struct pool_period){.number = number};
    return p;
}

void pool_count_miss(struct manager *m) {
    (void)pthread_mutex_lock(&m->lock);
    m->pool.totals.misses++;
    current_period(&m->pool)->misses++;
    (void)pthread_mutex_unlock(&m->lock);
}

static bool is_pool_image(const struct manager *m, const char *name) {
    for (size_t i = 0; i < m->pool.images.len; i++)
        if (str_equal(m->pool.images.v[i], name))
            return true;
    return false;
}

static bool has_any(const struct manager *m, const char *image_name) {
    struct table_rows rows = table_rows_pooled(m);
    for (size_t i = 0; i < rows.count; i++)
        if (is_free(rows.v[i]) && str_equal(rows.v[i]->record.image_name, image_name))
            return true;
    return false;
}

/* True if the pool may have what is asked for, so that it is worth looking the image up. */
static bool is_worth_a_look(struct manager *m, const struct sandbox_record *wanted,
                            bool *ret_missed) {
    (void)pthread_mutex_lock(&m->lock);
    bool has_pool = wanted->volumes.len == 0 && !network_is_bridge(wanted->network) &&
                    m->pool.per_image > 0 && is_pool_image(m, wanted->image_name);
    bool found = has_pool && has_any(m, wanted->image_name);
    if (has_pool && !found)
        note_empty(m, ret_missed);
    (void)pthread_mutex_unlock(&m->lock);
    return found;
}

static int look_up_image(struct manager *m, struct sandbox_record *wanted) {
    struct cay_error ignored; /* whoever makes one fails in the same way, and tells */
    struct image_wish wish = {.name = wanted->image_name,
                              .engine = wanted->engine,
                              .is_local = wanted->is_local,
                              .progress_fd = -1,
                              .cancel_fd = -1,
                              .client_fd = -1};
    policy_image_owner(m, wanted, &wish);
    int r = str_equal(wanted->image_name, "host")
                ? 0
                : m->ensure(m->user, &wish, wanted->image, &ignored);
    return r == 0 && m->describe != NULL ? m->describe(m->user, wanted, &ignored) : r;
}

/* The record becomes what was asked for; wanted gets the pooled one's strings, to be released. */
static void put_on(struct sandbox *s, struct sandbox_record *wanted) {
    struct sandbox_record before = s->record;
    if (str_equal(wanted->name, wanted->id)) /* none was asked for */
        memcpy(wanted->name, before.id, sizeof before.id);
    memcpy(wanted->id, before.id, sizeof before.id);
    wanted->pooled = false;
    s->record = *wanted;
    s->active_at = s->stopped_at = clock_ms();
    *wanted = before;
}

/* With the lock held: 1 with its turn, 0 if there is none, or why the request is refused. */
static int grab(struct manager *m, struct sandbox_record *wanted, bool *ret_missed,
                struct sandbox **ret, struct cay_error *err) {
    struct sandbox *s = find_free(m, wanted);
    if (s == NULL) {
        note_empty(m, ret_missed);
        return 0;
    }
    int r = change_check_room(m, s, wanted, err);
    if (r < 0)
        return r;
    duty_wake(m); /* one is missing now */
    m->pool.totals.hits++;
    current_period(&m->pool)->hits++;
    turn_begin(m, s);
    table_out(m, s);
    put_on(s, wanted); /* it is the youngest from now on */
    table_in(m, s);
    if (quota_settle(m, s, err) < 0)
        log_event(LOG_LEVEL_WARN, "a sandbox is not charged to its key", "sandbox", "%s",
                  s->record.id);
    if (s->record.destroy_ms > 0)
        reaper_wake(m);
    *ret = s;
    return 1;
}

/* Limits are set only where they differ from those it was made with; those of one that was found at
 * the start may have been changed by a daemon that died doing it. */
static int fit_limits(struct manager *m, const struct sandbox *s,
                      const struct sandbox_record *before, struct cay_error *err) {
    const struct sandbox_record *r = &s->record;
    bool same = r->memory_bytes == before->memory_bytes &&
                r->cpu_quota_us == before->cpu_quota_us && r->pids == before->pids;
    if (same && !s->adopted)
        return 0;
    struct sandbox_spec spec = {
        .memory_bytes = r->memory_bytes, .cpu_quota_us = r->cpu_quota_us, .pids = r->pids};
    memcpy(spec.id, r->id, sizeof spec.id);
    struct engine *e = drive_engine(m, spec.id);
    return e->ops->resize(e, &spec, err);
}

static int finish(struct manager *m, struct sandbox *s, const struct sandbox_record *before,
                  struct sandbox_record *ret, struct cay_error *err) {
    int r = fit_limits(m, s, before, err);
    if (r == 0)
        r = network_open(m, s, err);
    if (r == 0)
        r = turn_become(m, s, SANDBOX_STARTED, NULL, err);
    (void)pthread_mutex_lock(&m->lock);
    if (r == 0 && sandbox_record_copy(&s->record, ret) < 0)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (r == 0)
        watch_report(m, &s->record, NULL, sandbox_state_name(s->record.state));
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        (void)change_remove(m, s, NULL, NULL); /* it is somebody's: never to be pooled again */
    turn_end(m, s);
    return r;
}

int pool_take(struct manager *m, const struct sandbox_record *request, bool *ret_missed,
              struct sandbox_record *ret, struct cay_error *err) {
    struct sandbox_record wanted = {0};
    struct sandbox *s = NULL;
    if (request->pooled)
        return 0;
    int r = request_complete(m, request, &wanted, err);
    if (r < 0)
        return r;
    bool possible = is_worth_a_look(m, &wanted, ret_missed) && look_up_image(m, &wanted) == 0;
    if (possible) {
        (void)pthread_mutex_lock(&m->lock);
        r = table_check_open(m, err);
        if (r == 0)
            r = grab(m, &wanted, ret_missed, &s, err);
        (void)pthread_mutex_unlock(&m->lock);
    }
    if (s != NULL) {
        r = finish(m, s, &wanted, ret, err);
        r = r == 0 ? 1 : r == -CAY_CONFLICT ? r : 0; /* what failed here may work with a new one */
    }
    sandbox_record_free(&wanted);
    return r;
}

/* ---- filling it ---- */

/* What a pooled sandbox of this image looks like; fails if the image is not to be had. */
static int describe_target(struct manager *m, const char *image, struct sandbox_record *ret,
                           struct cay_error *err) {
    struct sandbox_record request = {.pooled = true};
    if (str_copy(request.image_name, sizeof request.image_name, image) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "pool_images: the name is too long");
    request.auto_stop_minutes = request.auto_delete_minutes = -1;
    int r = request_complete(m, &request, ret, err);
    struct image_wish wish = {
        .name = image, .engine = m->kind, .progress_fd = -1, .cancel_fd = -1, .client_fd = -1};
    if (r == 0 && !str_equal(image, "host"))
        r = m->ensure(m->user, &wish, ret->image, err);
    return r;
}

static size_t count_free(struct manager *m, const struct sandbox_record *target) {
    struct table_rows rows = table_rows_pooled(m);
    size_t n = 0;
    for (size_t i = 0; i < rows.count; i++)
        n += is_free(rows.v[i]) && has_shape(&rows.v[i]->record, target);
    return n;
}

static void make_one(struct manager *m, const struct sandbox_record *target) {
    struct cay_error err = {0};
    struct sandbox_record made = {0}, request = {.pooled = true};
    request.auto_stop_minutes = request.auto_delete_minutes = -1;
    memcpy(request.image_name, target->image_name, sizeof request.image_name);
    int r = manager_create(m, &request, -1, &made, &err);
    sandbox_record_free(&made);
    (void)pthread_mutex_lock(&m->lock);
    if (r == 0) {
        m->pool.retry_ms = 0;
    } else if (!m->closing) {
        m->pool.retry_ms =
            m->pool.retry_ms == 0 ? RETRY_MIN_MS : MIN(2 * m->pool.retry_ms, (int64_t)RETRY_MAX_MS);
        m->pool.retry_at = clock_ms() + m->pool.retry_ms;
    }
    bool closing = m->closing;
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0 && !closing)
        log_event(LOG_LEVEL_WARN, "no sandbox could be made ahead", "why", "%s; %s", err.message,
                  err.remedy);
}

/* ---- emptying it ---- */

/* What cannot be removed now is not tried all the time. */
static void rest(struct manager *m) {
    int64_t until = clock_deadline(RETRY_MIN_MS);
    (void)pthread_mutex_lock(&m->lock);
    while (!m->closing && !clock_expired(until))
        duty_wait(m, until);
    (void)pthread_mutex_unlock(&m->lock);
}

typedef bool (*verdict)(struct manager *m, const struct sandbox *s, void *arg);

static void drop_those(struct manager *m, verdict goes, void *arg) {
    size_t count;
    struct sandbox **all = table_snapshot(m, &count);
    for (size_t i = 0; all != NULL && i < count; i++) {
        struct cay_error err = {0};
        (void)pthread_mutex_lock(&m->lock);
        unsigned turns = all[i]->turns;
        bool is_it = all[i]->record.pooled && !all[i]->changing && goes(m, all[i], arg);
        (void)pthread_mutex_unlock(&m->lock);
        if (!is_it || !turn_try(m, all[i], turns))
            continue;
        if (change_remove(m, all[i], NULL, &err) < 0) {
            log_event(LOG_LEVEL_WARN, "a pooled sandbox is not removed", "why", "%s", err.message);
            rest(m);
        }
        (void)pthread_mutex_lock(&m->lock);
        m->pool.totals.dropped++;
        (void)pthread_mutex_unlock(&m->lock);
        turn_end(m, all[i]);
    }
    if (all != NULL)
        table_snapshot_free(m, all, count);
}

static bool is_any(struct manager *m, const struct sandbox *s, void *arg) {
    (void)m, (void)s, (void)arg;
    return true;
}

struct targets {
    struct sandbox_record *v;
    size_t count, per_image;
};

/* Of no use: it does not run, is of an image that has changed, or there are more than enough. */
static bool is_surplus(struct manager *m, const struct sandbox *s, void *arg) {
    const struct targets *t = arg;
    for (size_t i = 0; i < t->count; i++)
        if (is_free(s) && has_shape(&s->record, &t->v[i]))
            return count_free(m, &t->v[i]) > t->per_image;
    return true;
}

/* ---- the thread ---- */

static void targets_free(struct targets *t) {
    for (size_t i = 0; i < t->count; i++)
        sandbox_record_free(&t->v[i]);
    free(t->v);
    *t = (struct targets){0};
}

/* An image that is not to be had has no pool; why is told, once in a while. */
static void find_targets(struct manager *m, struct targets *t) {
    _cleanup_(strv_free) struct strv images = {0};
    targets_free(t);
    (void)pthread_mutex_lock(&m->lock);
    t->per_image = m->pool.per_image;
    for (size_t i = 0; t->per_image > 0 && i < m->pool.images.len; i++)
        (void)strv_push(&images, m->pool.images.v[i]);
    m->pool.is_changed = false;
    (void)pthread_mutex_unlock(&m->lock);
    t->v = calloc(images.len + 1, sizeof *t->v);
    for (size_t i = 0; t->v != NULL && i < images.len; i++) {
        struct cay_error err = {0};
        if (describe_target(m, images.v[i], &t->v[t->count], &err) == 0)
            t->count++;
        else
            log_event(LOG_LEVEL_WARN, "an image has no pool", "why", "%s", err.message);
    }
    (void)pthread_mutex_lock(&m->lock);
    m->pool.totals.target = t->count * t->per_image;
    (void)pthread_mutex_unlock(&m->lock);
}

static const struct sandbox_record *find_missing(struct manager *m, const struct targets *t) {
    for (size_t i = 0; i < t->count; i++)
        if (count_free(m, &t->v[i]) < t->per_image)
            return &t->v[i];
    return NULL;
}

/* With the lock held: when the next one may be made. While requests keep coming the pool stays
 * short of some, and is filled without further pauses. */
static int64_t next_make(struct manager *m, bool is_missing) {
    if (!is_missing)
        m->pool.missing_since = 0;
    else if (m->pool.missing_since == 0)
        m->pool.missing_since = clock_ms();
    return MAX(m->pool.missing_since + LAG_MS, m->pool.retry_ms > 0 ? m->pool.retry_at : 0);
}

/* One that ended, or was stopped: nobody can take it. */
static bool has_dead(const struct manager *m) {
    struct table_rows rows = table_rows_pooled(m);
    for (size_t i = 0; i < rows.count; i++)
        if (!rows.v[i]->changing && !is_free(rows.v[i]))
            return true;
    return false;
}

/* With the lock held. Waits until there is something to do: the image to make one of, or NULL for a
 * new look at everything. */
static const struct sandbox_record *await_work(struct manager *m, const struct targets *t,
                                               int64_t look_at) {
    while (!m->closing && !m->pool.is_changed && clock_ms() < look_at) {
        if (has_dead(m))
            return NULL;
        const struct sandbox_record *missing = find_missing(m, t);
        int64_t make_at = next_make(m, missing != NULL);
        if (missing != NULL && clock_ms() >= make_at)
            return missing;
        duty_wait(m, missing == NULL ? look_at : MIN(make_at, look_at));
    }
    return NULL;
}

/* Until it is time for a new look at everything; false when it is time to end. */
static bool fill(struct manager *m, const struct targets *t) {
    int64_t look_at = clock_ms() + LOOK_MS;
    for (;;) {
        (void)pthread_mutex_lock(&m->lock);
        const struct sandbox_record *missing = await_work(m, t, look_at);
        bool closing = m->closing;
        (void)pthread_mutex_unlock(&m->lock);
        if (closing || missing == NULL)
            return !closing;
        make_one(m, missing);
    }
}

static void *keep_filled(void *arg) {
    struct manager *m = arg;
    struct targets targets = {0};
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* as good as without */
    do {
        find_targets(m, &targets);
        drop_those(m, is_surplus, &targets);
    } while (fill(m, &targets));
    drop_those(m, is_any, NULL); /* they are nobody's: what is left of a daemon that ends is used */
    targets_free(&targets);
    worker_end(m, &m->pool.filling);
    return NULL;
}

int pool_start(struct manager *m, struct cay_error *err) {
    for (size_t i = 0; i < m->count; i++)
        m->boxes[i]->adopted = m->boxes[i]->record.pooled;
    int r = worker_start(m, &m->pool.filler, keep_filled, &m->pool.filling, err);
    m->pool.has_filler = r == 0;
    return r;
}

int manager_set_pool(struct manager *m, size_t per_image, const struct strv *images,
                     struct cay_error *err) {
    struct strv copy = {0};
    for (size_t i = 0; i < images->len; i++)
        if (strv_push(&copy, images->v[i]) < 0) {
            strv_free(&copy);
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        }
    (void)pthread_mutex_lock(&m->lock);
    if (copy.len == 0)
        (void)strv_push(&copy, m->defaults.image_name[0] != '\0' ? m->defaults.image_name : "host");
    strv_free(&m->pool.images);
    m->pool.images = copy;
    m->pool.per_image = per_image;
    m->pool.is_changed = true;
    duty_wake(m);
    (void)pthread_mutex_unlock(&m->lock);
    return 0;
}

void pool_total(const struct manager *m, struct manager_pool_totals *ret) {
    *ret = m->pool.totals;
    for (size_t i = 0; i < POOL_PERIODS; i++) {
        const struct pool_period *p = &m->pool.window[i];
        if (clock_ms() / POOL_PERIOD_MS - p->number >= POOL_PERIODS)
            continue;
        ret->recent_hits += p->hits;
        ret->recent_misses += p->misses;
    }
    struct table_rows rows = table_rows_pooled(m);
    for (size_t i = 0; i < rows.count; i++)
        ret->size += is_free(rows.v[i]);
}

size_t pool_count(const struct manager *m) {
    return table_rows_pooled(m).count;
}
