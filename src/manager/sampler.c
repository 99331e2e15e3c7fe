/* What running sandboxes use: measured every interval by a thread, so that a look at the metrics
 * costs nothing, and so that a sandbox at its limits is warned of. A round asks the engine once for
 * each; what they have written takes longer to find out, and is measured in some rounds only. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "manager/internal.h"

enum { DISK_ROUNDS = 30, HIGH_PERCENT = 90, LOW_PERCENT = 80, PERIOD_US = 100 * 1000 };

/* ---- warnings ---- */

static void report_pressure(const struct sandbox *s, const char *what, double percent,
                            int64_t for_ms) {
    char used[32], lasting[32];
    (void)snprintf(used, sizeof used, "%.0f", percent);
    (void)snprintf(lasting, sizeof lasting, "%lld", (long long)for_ms / 1000);
    const struct log_field fields[] = {{"sandbox", s->record.id},
                                       {"name", s->record.name},
                                       {"what", what},
                                       {"percent", used},
                                       {"seconds", lasting}};
    log_line(LOG_LEVEL_WARN, "a sandbox is near its limit", fields, ARRAY_LEN(fields));
}

/* Once, and again only after it was well below: what sways around the limit is one event. */
static void watch(const struct manager *m, const struct sandbox *s, struct pressure *p,
                  const char *what, double percent) {
    int64_t now = clock_ms();
    if (percent < (p->is_reported ? LOW_PERCENT : HIGH_PERCENT)) {
        *p = (struct pressure){0};
        return;
    }
    if (p->since == 0)
        p->since = now;
    if (p->is_reported || m->limits.warn_after_ms <= 0 || now - p->since < m->limits.warn_after_ms)
        return;
    p->is_reported = true;
    report_pressure(s, what, percent, now - p->since);
}

static double cpu_percent(const struct sandbox *s, const struct engine_stats *now, int64_t at) {
    double passed_us = (double)(at - s->usage_at) * 1000;
    if (s->usage_at == 0 || passed_us <= 0 || now->cpu_us < s->usage.cpu_us ||
        s->record.cpu_quota_us == 0)
        return 0;
    double allowed = passed_us * s->record.cpu_quota_us / PERIOD_US;
    return 100 * (double)(now->cpu_us - s->usage.cpu_us) / allowed;
}

void sampler_note_oom(struct sandbox *s, struct engine_stats *now) {
    if (s->knows_oom && now->oom_kills > s->oom_kills)
        s->oom_at = clock_ms();
    s->knows_oom = true;
    s->oom_kills = now->oom_kills; /* fewer after a start */
    now->oom_age_ms = s->oom_at == 0 ? -1 : clock_ms() - s->oom_at;
}

/* With the lock held. What a paused one holds is no news. */
static void take(struct manager *m, struct sandbox *s, struct engine_stats *now, bool has_disk) {
    int64_t at = clock_ms();
    sampler_note_oom(s, now);
    uint64_t disk = has_disk ? now->disk_bytes : s->usage.disk_bytes;
    if (s->record.state == SANDBOX_STARTED && s->record.memory_bytes > 0) {
        watch(m, s, &s->memory_pressure, "memory",
              100 * (double)now->memory_bytes / (double)s->record.memory_bytes);
        watch(m, s, &s->cpu_pressure, "cpu", cpu_percent(s, now, at));
    }
    s->usage = *now;
    s->usage.disk_bytes = disk;
    s->usage_at = at;
}

/* ---- rounds ---- */

static bool is_worth_it(const struct sandbox *s) {
    return !s->gone && !s->changing && !s->record.pooled &&
           (s->record.state == SANDBOX_STARTED || s->record.state == SANDBOX_PAUSED);
}

static void forget(struct sandbox *s) {
    s->usage_at = 0;
    s->memory_pressure = s->cpu_pressure = (struct pressure){0};
}

static void measure(struct manager *m, struct sandbox *s, bool with_disk) {
    struct engine_stats now = {0};
    struct cay_error ignored;
    (void)pthread_mutex_lock(&m->lock);
    bool wanted = is_worth_it(s);
    if (!wanted && !s->changing)
        forget(s);
    unsigned turns = s->turns;
    with_disk = with_disk || s->usage_at == 0;
    (void)pthread_mutex_unlock(&m->lock);
    if (!wanted)
        return;
    /* an engine that is away is back at the next round */
    struct engine *e = drive_engine(m, s->record.id);
    int r = (with_disk ? e->ops->stats : e->ops->usage)(e, s->record.id, &now, &ignored);
    (void)pthread_mutex_lock(&m->lock);
    if (r == 0 && is_worth_it(s) && s->turns == turns)
        take(m, s, &now, with_disk);
    (void)pthread_mutex_unlock(&m->lock);
}

static bool is_closing(struct manager *m) {
    (void)pthread_mutex_lock(&m->lock);
    bool closing = m->closing;
    (void)pthread_mutex_unlock(&m->lock);
    return closing;
}

void sampler_round(struct manager *m, bool with_disk) {
    size_t count;
    struct sandbox **all = table_snapshot(m, &count);
    if (all == NULL)
        return;
    for (size_t i = 0; i < count && !is_closing(m); i++)
        measure(m, all[i], with_disk);
    table_snapshot_free(m, all, count);
}

/* How often memory ran out before this process, as early as can be: what comes after is told of. */
static void learn_oom(struct manager *m, struct sandbox *s) {
    struct engine_stats now = {0};
    struct cay_error ignored;
    (void)pthread_mutex_lock(&m->lock);
    bool wanted = is_worth_it(s) && !s->knows_oom;
    (void)pthread_mutex_unlock(&m->lock);
    if (!wanted)
        return;
    struct engine *e = drive_engine(m, s->record.id);
    if (e->ops->usage(e, s->record.id, &now, &ignored) < 0)
        return;
    (void)pthread_mutex_lock(&m->lock);
    if (!s->knows_oom)
        sampler_note_oom(s, &now);
    (void)pthread_mutex_unlock(&m->lock);
}

static void learn_all(struct manager *m) {
    size_t count;
    struct sandbox **all = table_snapshot(m, &count);
    for (size_t i = 0; all != NULL && i < count && !is_closing(m); i++)
        learn_oom(m, all[i]);
    if (all != NULL)
        table_snapshot_free(m, all, count);
}

/* ---- the thread ---- */

/* With the lock held; false when it is time to end. */
static bool wait_for_round(struct manager *m, int64_t began) {
    for (;;) {
        int64_t pause = m->limits.sample_interval_ms;
        int64_t until = pause > 0 ? began + pause : 0;
        if (m->closing)
            return false;
        if (until != 0 && clock_ms() >= until)
            return true;
        duty_wait(m, until);
    }
}

static void *sample(void *arg) {
    struct manager *m = arg;
    int64_t began = clock_ms();
    learn_all(m);
    (void)pthread_mutex_lock(&m->lock);
    for (unsigned round = 1; wait_for_round(m, began); round++) {
        (void)pthread_mutex_unlock(&m->lock);
        began = clock_ms();
        sampler_round(m, round % DISK_ROUNDS == 0);
        (void)pthread_mutex_lock(&m->lock);
    }
    (void)pthread_mutex_unlock(&m->lock);
    worker_end(m, &m->sampling);
    return NULL;
}

int sampler_start(struct manager *m, struct cay_error *err) {
    if (m->engine->ops->usage == NULL)
        return 0;
    int r = worker_start(m, &m->sampler, sample, &m->sampling, err);
    m->has_sampler = r == 0;
    return r;
}

/* ---- looking ---- */

int manager_usage(struct manager *m, const struct key *caller, struct manager_usage **ret,
                  size_t *ret_count, struct cay_error *err) {
    bool all = caller == NULL || key_sees_all(caller);
    (void)pthread_mutex_lock(&m->lock);
    struct manager_usage *v = calloc(m->count + 1, sizeof *v);
    size_t n = 0;
    for (size_t i = 0; v != NULL && i < m->count; i++) {
        const struct sandbox *s = m->boxes[i];
        if (s->record.pooled || (!all && !str_equal(s->record.owner, key_owner(caller))))
            continue;
        struct manager_usage *u = &v[n++];
        memcpy(u->id, s->record.id, sizeof u->id);
        memcpy(u->name, s->record.name, sizeof u->name);
        u->is_measured = s->usage_at != 0;
        u->stats = s->usage;
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (v == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    *ret = v;
    *ret_count = n;
    return 0;
}
