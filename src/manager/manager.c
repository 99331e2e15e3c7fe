#include "manager/manager.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/path.h"
#include "manager/access/retire.h"
#include "manager/files/backup.h"
#include "manager/files/rescue.h"
#include "manager/internal.h"

enum {
    TRANSITION_MS = 60 * 1000,
    RECOVER_MS = 1000,
    SILENCE_MS = 30 * 1000, /* six times asked in vain */
    OTHER_MS = 1000
};

/* ---- opening ---- */

static int init_locks(struct manager *m, struct cay_error *err) {
    pthread_condattr_t attr;
    (void)pthread_mutex_init(&m->lock, NULL);
    (void)pthread_mutex_init(&m->saving, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    int r = pthread_cond_init(&m->changed, &attr);
    if (r == 0)
        r = pthread_cond_init(&m->duty, &attr);
    (void)pthread_condattr_destroy(&attr);
    return r != 0 ? error_sys(err, r, "making a lock") : 0;
}

static int open_folder(struct manager *m, const char *folder, struct cay_error *err) {
    if (mkdir("run", 0700) < 0 && errno != EEXIST)
        return error_errno(err, "making the folder 'run' in '%s'", folder);
    return rescue_open(m, folder, err);
}

/* On success every row is in the table; on failure the caller releases what is there. */
static int load(struct manager *m, struct cay_error *err) {
    struct sandbox_record *rows = NULL;
    size_t count = 0;
    int r = db_list(m->db, &rows, &count, err);
    for (size_t i = 0; i < count; i++) {
        struct sandbox *s = r < 0 ? NULL : calloc(1, sizeof *s);
        if (s == NULL) {
            r = r < 0 ? r : error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
            sandbox_record_free(&rows[i]);
            continue;
        }
        s->record = rows[i];
        if (s->record.engine == ENGINE_UNSAID)
            s->record.engine = m->kind;
        s->saved_active_ms = rows[i].active_ms;
        failure_resume(m, s);
        backup_load(m, s);
        (void)sandbox_ref(s);
        r = table_add(m, s, err);
        sandbox_unref(s);
    }
    free(rows);
    return r;
}

static void release(struct manager *m) {
    table_free(m);
    free(m->keys);
    free(m->volumes);
    db_close(m->db);
    sandbox_record_free(&m->defaults);
    strv_free(&m->pool.images);
    (void)pthread_cond_destroy(&m->changed);
    (void)pthread_cond_destroy(&m->duty);
    (void)pthread_mutex_destroy(&m->saving);
    (void)pthread_mutex_destroy(&m->lock);
    free(m);
}

int manager_open(const struct manager_options *options, struct manager **ret,
                 struct cay_error *err) {
    struct manager *m = calloc(1, sizeof *m);
    if (m == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    m->limits = options->limits;
    m->no_disk_limits = options->no_disk_limits;
    m->kind = options->engine != ENGINE_UNSAID ? options->engine : ENGINE_NATIVE;
    memcpy(m->best_tier, options->best_tier, sizeof m->best_tier);
    memcpy(m->is_used, options->has_left, sizeof m->is_used);
    m->is_used[m->kind] = true;
    if (m->limits.transition_ms <= 0)
        m->limits.transition_ms = TRANSITION_MS;
    if (m->limits.recover_ms <= 0)
        m->limits.recover_ms = RECOVER_MS;
    if (m->limits.silence_ms <= 0)
        m->limits.silence_ms = SILENCE_MS;
    m->ensure = options->ensure;
    m->describe = options->describe;
    m->archives = options->archives;
    m->network = options->network;
    m->key_gone = options->key_gone;
    m->user = options->user;
    int r = init_locks(m, err);
    if (r == 0 && sandbox_record_copy(&options->defaults, &m->defaults) < 0)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (r == 0)
        r = spec_look_up_host(&m->host, err);
    if (r == 0)
        r = open_folder(m, options->folder, err);
    if (r == 0)
        r = load(m, err);
    if (r == 0)
        r = keys_load(m, err);
    if (r == 0)
        r = volumes_load(m, err);
    if (r < 0) {
        release(m);
        return r;
    }
    *ret = m;
    return 0;
}

/* How long something was quiet while nobody watched is not known: it begins anew. */
static void begin_times(struct manager *m) {
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->count; i++)
        m->boxes[i]->active_at = m->boxes[i]->stopped_at = clock_ms();
    (void)pthread_mutex_unlock(&m->lock);
}

/* Whether another engine than the configured one may have sandboxes. */
static bool has_other(const struct manager *m) {
    for (enum engine_kind k = ENGINE_NATIVE; k < ENGINE_KINDS; k++)
        if (k != m->kind && m->is_used[k] && m->engines[k] != NULL)
            return true;
    return false;
}

/* What the other engine has is known soon, if it answers. The reaper waits for it if it does not:
 * nobody else has to. */
static void wait_for_other(struct manager *m) {
    int64_t until = clock_deadline(OTHER_MS);
    (void)pthread_mutex_lock(&m->lock);
    while (!m->has_tidied && !clock_expired(until))
        table_wait(m, until);
    (void)pthread_mutex_unlock(&m->lock);
}

static int start_work(struct manager *m, struct cay_error *err) {
    m->was_unused = db_is_unused(m->db);
    m->wake = has_other(m);
    bool is_awaited = m->wake;
    int r = reconcile(m, true, err);
    if (r == 0)
        backup_settle_all(m);
    if (r == 0)
        r = reaper_start(m, err);
    if (r == 0)
        r = sampler_start(m, err);
    if (r == 0)
        r = hold_start(m, err);
    if (r == 0)
        r = pool_start(m, err);
    if (r == 0 && is_awaited)
        wait_for_other(m);
    return r;
}

void manager_add_engine(struct manager *m, enum engine_kind kind, struct engine *engine) {
    m->engines[kind] = engine;
}

int manager_start(struct manager *m, struct engine *engine, struct cay_error *err) {
    begin_times(m);
    m->engine = m->engines[m->kind] = engine;
    int r = m->is_rescue ? rescue_adopt(m, err) : start_work(m, err);
    if (r < 0)
        return error_prefix(err, "starting the manager");
    (void)pthread_mutex_lock(&m->lock);
    m->ready = true;
    (void)pthread_mutex_unlock(&m->lock);
    audit_log_head(m);
    manager_network_again(m);
    return 0;
}

void manager_ended(void *manager, const struct engine_end *end) {
    struct manager *m = manager;
    (void)pthread_mutex_lock(&m->lock);
    struct sandbox *s = table_find_id(m, end->id);
    if (s != NULL) {
        s->end = *end;
        s->has_end = true;
        if (!s->changing || end->cause != ENGINE_END_ASKED) /* else who asked for it goes on */
            reaper_wake(m);
    }
    (void)pthread_mutex_unlock(&m->lock);
}

/* ---- closing ---- */

static bool is_idle(const struct manager *m) {
    return m->changes == 0 && !m->reaping && !m->sampling && !m->hold.watching &&
           !m->pool.filling && !m->opening;
}

static bool is_quiet(const struct manager *m) {
    return m->operations == 0 && is_idle(m);
}

/* True if it came to rest in time. */
static bool come_to_rest(struct manager *m, int64_t wait_ms,
                         bool (*is_at_rest)(const struct manager *m)) {
    int64_t until = clock_ms() + wait_ms;
    (void)pthread_mutex_lock(&m->lock);
    m->closing = true;
    watch_wake(m);
    queue_wake(m);
    (void)pthread_cond_broadcast(&m->changed);
    duty_wake(m);
    (void)pthread_mutex_unlock(&m->lock);
    backup_give_up_all(m); /* what stands still for it must not stay so */
    (void)pthread_mutex_lock(&m->lock);
    while (!is_at_rest(m) && clock_ms() < until)
        table_wait(m, until);
    bool rests = is_at_rest(m);
    (void)pthread_mutex_unlock(&m->lock);
    audit_log_head(m);
    return rests;
}

void manager_drain(struct manager *m, int64_t wait_ms) {
    (void)come_to_rest(m, wait_ms, is_quiet);
}

static void join_threads(struct manager *m) {
    (void)pthread_join(m->reaper, NULL);
    if (m->has_sampler)
        (void)pthread_join(m->sampler, NULL);
    if (m->hold.has_watcher)
        (void)pthread_join(m->hold.watcher, NULL);
    if (m->pool.has_filler)
        (void)pthread_join(m->pool.filler, NULL);
}

bool manager_retire(struct manager *m, int64_t wait_ms) {
    bool rests = come_to_rest(m, wait_ms, is_idle);
    if (rests && !m->is_rescue)
        join_threads(m);
    return rests;
}

void manager_release_database(struct manager *m) {
    db_release(m->db);
}

void manager_close(struct manager *m, int64_t wait_ms) {
    if (m == NULL)
        return;
    manager_drain(m, wait_ms);
    (void)pthread_mutex_lock(&m->lock);
    bool quiet = is_quiet(m), ready = m->ready;
    (void)pthread_mutex_unlock(&m->lock);
    if (!quiet) /* somebody is still in here */
        return;
    if (ready && !m->is_rescue)
        join_threads(m);
    release(m);
}

/* ---- looking ---- */

int manager_find(struct manager *m, const struct key *caller, const char *who,
                 char id[static ID_SIZE], struct cay_error *err) {
    struct sandbox *s;
    (void)pthread_mutex_lock(&m->lock);
    int r = table_find_for(m, caller, who, &s, err);
    if (r == 0)
        memcpy(id, s->record.id, ID_SIZE);
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

int manager_get(struct manager *m, const char *who, struct sandbox_record *ret,
                struct cay_error *err) {
    struct sandbox *s;
    (void)pthread_mutex_lock(&m->lock);
    int r = table_find(m, who, &s, err);
    if (r == 0 && sandbox_record_copy(&s->record, ret) < 0)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

void manager_totals(struct manager *m, const struct key *caller, struct manager_totals *ret) {
    bool all = caller == NULL || key_sees_all(caller);
    (void)pthread_mutex_lock(&m->lock);
    *ret = (struct manager_totals){
        .limit =
            !all && caller->max_sandboxes > 0 ? caller->max_sandboxes : m->limits.max_sandboxes,
        .shutting_down = m->closing,
    };
    struct table_rows rows = table_rows_of(m, caller);
    for (size_t i = 0; i < rows.count; i++) {
        const struct sandbox *s = rows.v[i];
        ret->total++;
        ret->operations += s->operations;
        ret->by_state[s->record.state]++;
        ret->by_engine[s->record.engine]++;
    }
    ret->started = ret->by_state[SANDBOX_STARTED];
    pool_total(m, &ret->pool);
    queue_total(m, &ret->queue);
    ret->audit_failures = m->audit_failures;
    ret->ended_oom = m->ended_oom;
    ret->ended_unasked = m->ended_unasked;
    (void)pthread_mutex_unlock(&m->lock);
}
