/* The clean-up: a thread that looks after sandboxes every interval, and when one has ended. Only
 * monotonic time counts, so that a clock that jumps stops nothing. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "manager/internal.h"

enum { MINUTE_MS = 60 * 1000, ARCHIVING_MAX = 2, SOON_MS = 1000, ASK_AGAIN_MS = 5000 };

void reaper_wake(struct manager *m) {
    m->wake = true;
    duty_wake(m);
}

/* Rows come from a disk: whatever they say must not overflow. */
int64_t limits_minutes_ms(const struct manager_limits *limits, int64_t minutes) {
    int64_t minute = limits->minute_ms > 0 ? limits->minute_ms : MINUTE_MS;
    return minutes > INT64_MAX / minute ? INT64_MAX : minutes * minute;
}

static bool is_idle(const struct manager *m, const struct sandbox *s) {
    int64_t quiet = clock_ms() - s->active_at;
    if (s->operations > 0)
        return false;
    return (s->record.auto_stop_minutes > 0 &&
            quiet >= limits_minutes_ms(&m->limits, s->record.auto_stop_minutes)) ||
           (m->limits.idle_timeout_ms > 0 && quiet >= m->limits.idle_timeout_ms);
}

static bool may_stop(const struct manager *m, const struct sandbox *s) {
    return s->record.state == SANDBOX_STARTED && !s->record.pooled && is_idle(m, s);
}

static bool may_remove(const struct manager *m, const struct sandbox *s) {
    int64_t since = clock_ms() - s->stopped_at;
    bool rests = s->record.state == SANDBOX_STOPPED || s->record.state == SANDBOX_ARCHIVED;
    return rests && s->operations == 0 && s->record.auto_delete_minutes >= 0 &&
           since >= limits_minutes_ms(&m->limits, s->record.auto_delete_minutes);
}

/* The one wish that is about a time of day: the wall clock counts. */
static bool may_destroy(const struct manager *m, const struct sandbox *s) {
    (void)m;
    return s->record.destroy_ms > 0 && clock_wall_ms() >= s->record.destroy_ms;
}

static bool is_passing(const struct sandbox *s) {
    enum sandbox_state state = s->record.state;
    return state == SANDBOX_CREATING || state == SANDBOX_STARTING || state == SANDBOX_STOPPING ||
           state == SANDBOX_DESTROYING;
}

static bool is_stuck(const struct sandbox *s) {
    return s->changing && is_passing(s) && s->deadline != 0 && clock_expired(s->deadline);
}

void reaper_plan(struct manager *m, struct sandbox *s) {
    if (s->gone || !is_passing(s)) {
        s->again_at = s->again_ms = 0;
        return;
    }
    if (s->again_at == 0) {
        s->again_ms = m->limits.recover_ms;
        s->again_at = clock_ms() + s->again_ms;
    }
    if (s->again_at >= m->look_at)
        return;
    m->look_at = s->again_at;
    duty_wake(m);
}

/* Each try takes longer to come than the one before, up to the interval of all. */
static void plan_next_tries(struct manager *m) {
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->count; i++) {
        struct sandbox *s = m->boxes[i];
        if (s->again_at == 0 || !clock_expired(s->again_at))
            continue;
        s->again_ms = MIN(2 * s->again_ms, MAX(m->limits.cleanup_interval_ms, INT64_C(1)));
        s->again_at = clock_ms() + s->again_ms;
    }
    (void)pthread_mutex_unlock(&m->lock);
}

/* Whoever does it has not come back; if they do, they say what became of it. */
static void note_stuck(struct manager *m, struct sandbox *s) {
    struct cay_error why = {0};
    (void)pthread_mutex_lock(&m->lock);
    bool stuck = is_stuck(s);
    error_set(&why, CAY_TIMEOUT, "it was %s for more than %lld s",
              sandbox_state_name(s->record.state), (long long)m->limits.transition_ms / 1000);
    if (stuck)
        s->deadline = 0;
    (void)pthread_mutex_unlock(&m->lock);
    if (stuck)
        turn_fail(m, s, &why);
}

/* ---- one sandbox ---- */

enum chore {
    CHORE_NOTHING,
    CHORE_STOP,
    CHORE_REMOVE,
    CHORE_DESTROY,
    CHORE_ARCHIVE,
    CHORE_DROP_ARCHIVE,
    CHORE_RECOVER,
    CHORE_SAVE
};

static enum chore choose(struct manager *m, struct sandbox *s, unsigned *turns) {
    enum chore what = CHORE_NOTHING;
    (void)pthread_mutex_lock(&m->lock);
    *turns = s->turns;
    if (may_destroy(m, s))
        what = CHORE_DESTROY;
    else if (may_stop(m, s))
        what = CHORE_STOP;
    else if (may_remove(m, s))
        what = CHORE_REMOVE;
    else if (archive_is_needless(s))
        what = CHORE_DROP_ARCHIVE;
    else if (m->archiving < ARCHIVING_MAX && archive_is_due(m, s))
        what = CHORE_ARCHIVE;
    else if (s->recover_at != 0 && clock_expired(s->recover_at))
        what = CHORE_RECOVER;
    else if (s->unsaved || s->record.active_ms != s->saved_active_ms)
        what = CHORE_SAVE;
    if (what != CHORE_STOP)
        s->silent_since = 0; /* it is not asked any more; the next silence is another one */
    (void)pthread_mutex_unlock(&m->lock);
    return what;
}

static int recover(struct manager *m, struct sandbox *s, struct cay_error *err) {
    int r = change_start(m, s, err);
    if (r < 0)
        failure_plan(m, s, err);
    else
        log_event(LOG_LEVEL_INFO, "sandbox started again", "id", "%s", s->record.id);
    return r;
}

static bool still_may_stop(struct manager *m, const struct sandbox *s) {
    (void)pthread_mutex_lock(&m->lock);
    bool may = may_stop(m, s);
    (void)pthread_mutex_unlock(&m->lock);
    return may;
}

/* The reason is written before it stops, so that a crash in between does not lose it. */
static int stop_idle(struct manager *m, struct sandbox *s, struct cay_error *err) {
    char why[SANDBOX_TEXT_SIZE];
    (void)pthread_mutex_lock(&m->lock);
    int64_t minutes = s->record.auto_stop_minutes;
    bool by_interval =
        minutes > 0 && clock_ms() - s->active_at >= limits_minutes_ms(&m->limits, minutes);
    int64_t idle_s = m->limits.idle_timeout_ms / 1000;
    (void)pthread_mutex_unlock(&m->lock);
    if (by_interval)
        (void)snprintf(why, sizeof why, "nothing was done in it for %lld min (auto-stop)",
                       (long long)minutes);
    else
        (void)snprintf(why, sizeof why, "nothing was done in it for %lld s (idle_timeout)",
                       (long long)idle_s);
    int r = change_stop(m, s, why, may_stop, settings_grace(m), err);
    if (r == 0)
        log_event(LOG_LEVEL_INFO, "sandbox stopped", "why", "%s (%s): %s", s->record.id,
                  s->record.name, why);
    return r;
}

static int do_chore(struct manager *m, struct sandbox *s, enum chore what, struct cay_error *err) {
    switch (what) {
    case CHORE_STOP:
        if (!activity_learn(m, s) || !still_may_stop(m, s))
            return -CAY_CONFLICT;
        return stop_idle(m, s, err);
    case CHORE_REMOVE:
        return change_remove(m, s, may_remove, err);
    case CHORE_DESTROY:
        return change_remove(m, s, may_destroy, err);
    case CHORE_DROP_ARCHIVE:
        return archive_drop(m, s, err);
    case CHORE_ARCHIVE:
        return change_archive(m, s, archive_is_due, err);
    case CHORE_RECOVER:
        return recover(m, s, err);
    case CHORE_SAVE:
        return turn_save(m, s, DB_FLUSH_LATER, err);
    case CHORE_NOTHING:
        break;
    }
    return 0;
}

/* What is done to a sandbox although nobody asked: the audit's word for it, or NULL. */
static const char *action_of(enum chore what) {
    static const char *const actions[] = {
        [CHORE_STOP] = "sandbox.stop",       [CHORE_REMOVE] = "sandbox.delete",
        [CHORE_DESTROY] = "sandbox.delete",  [CHORE_ARCHIVE] = "sandbox.archive",
        [CHORE_RECOVER] = "sandbox.recover",
    };
    return (size_t)what < ARRAY_LEN(actions) ? actions[what] : NULL;
}

static int do_noted(struct manager *m, struct sandbox *s, enum chore what, struct cay_error *err) {
    struct audit_intent intent = {.who = "cay", .action = action_of(what), .detail = ""};
    if (intent.action != NULL)
        manager_audit_announce(&intent);
    int r = do_chore(m, s, what, err);
    manager_audit_announce(NULL);
    if (intent.action != NULL && r != -CAY_CONFLICT && (r < 0 || !intent.is_written))
        manager_audit(m, "cay", intent.action, s->record.id, r < 0 ? cay_code_name(-r) : "ok", "");
    return r;
}

/* A chore with a turn that was taken for it. */
struct errand {
    struct manager *m;
    struct sandbox *s;
    enum chore what;
};

/* The next one is begun when one is done. */
static void count_archive(struct manager *m, const struct errand *e, int more) {
    if (e->what != CHORE_ARCHIVE)
        return;
    (void)pthread_mutex_lock(&m->lock);
    m->archiving += (unsigned)more;
    if (more < 0)
        reaper_wake(m);
    (void)pthread_mutex_unlock(&m->lock);
}

static void run_errand(const struct errand *e) {
    struct cay_error err = {0};
    int r = do_noted(e->m, e->s, e->what, &err);
    if (r < 0 && r != -CAY_CONFLICT) /* a conflict: it came into use just now */
        log_event(LOG_LEVEL_WARN, "clean-up failed", "why", "%s: %s", e->s->record.id, err.message);
    count_archive(e->m, e, -1);
    turn_end(e->m, e->s);
}

static void *run_apart(void *arg) {
    struct errand e = *(struct errand *)arg;
    free(arg);
    run_errand(&e);
    return NULL;
}

/* One that takes long to end must not hold up the others. The turn keeps the manager open. */
static bool send_apart(const struct errand *e) {
    struct errand *copy = malloc(sizeof *copy);
    pthread_t thread;
    if (copy == NULL)
        return false;
    *copy = *e;
    if (pthread_create(&thread, NULL, run_apart, copy) != 0) {
        free(copy);
        return false;
    }
    (void)pthread_detach(thread);
    return true;
}

static void look_after(struct manager *m, struct sandbox *s) {
    unsigned turns;
    note_stuck(m, s);
    struct errand e = {.m = m, .s = s, .what = choose(m, s, &turns)};
    if (e.what == CHORE_NOTHING || !turn_try(m, s, turns))
        return;
    count_archive(m, &e, 1);
    bool is_long = e.what == CHORE_STOP || e.what == CHORE_RECOVER || e.what == CHORE_ARCHIVE;
    if (!is_long || !send_apart(&e))
        run_errand(&e);
}

/* ---- the thread ---- */

static void tidy(struct manager *m) {
    struct cay_error err = {0};
    size_t count;
    plan_next_tries(m);
    if (reconcile(m, false, &err) < 0)
        log_event(LOG_LEVEL_WARN, "sandboxes not compared", "why", "%s", err.message);
    (void)pthread_mutex_lock(&m->lock);
    m->has_tidied = true;
    (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
    struct sandbox **all = table_snapshot(m, &count);
    if (all == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        look_after(m, all[i]);
    table_snapshot_free(m, all, count);
}

/* When somebody has to be looked at, at the latest. With the lock held. */
static int64_t next_look(const struct manager *m) {
    int64_t now = clock_ms(), at = now + m->limits.cleanup_interval_ms;
    for (size_t i = 0; i < m->count; i++) {
        if (m->boxes[i]->missed)
            at = MIN(at, now + SOON_MS);
        if (m->boxes[i]->silent_since != 0)
            at = MIN(at, now + ASK_AGAIN_MS);
        if (m->boxes[i]->record.destroy_ms > 0) /* also while it changes: that may take long */
            at = MIN(at, now + MAX(m->boxes[i]->record.destroy_ms - clock_wall_ms(), SOON_MS));
        if (m->boxes[i]->recover_at != 0 && !m->boxes[i]->changing)
            at = MIN(at, MAX(m->boxes[i]->recover_at, now + 1));
        if (m->boxes[i]->again_at != 0 && !m->boxes[i]->changing)
            at = MIN(at, m->boxes[i]->again_at);
    }
    return at;
}

static void *reap(void *arg) {
    struct manager *m = arg;
    volumes_undo(m);
    (void)pthread_mutex_lock(&m->lock);
    while (!m->closing) {
        m->look_at = next_look(m);
        while (!m->closing && !m->wake && !clock_expired(m->look_at))
            duty_wait(m, m->look_at);
        m->wake = false;
        if (m->closing)
            break;
        (void)pthread_mutex_unlock(&m->lock);
        tidy(m);
        (void)pthread_mutex_lock(&m->lock);
    }
    (void)pthread_mutex_unlock(&m->lock);
    worker_end(m, &m->reaping);
    return NULL;
}

/* Signals are the main thread's business. */
int worker_start(struct manager *m, pthread_t *ret, void *(*run)(void *), bool *running,
                 struct cay_error *err) {
    sigset_t all, before;
    (void)sigfillset(&all);
    *running = true;
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(ret, NULL, run, m);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r == 0)
        return 0;
    *running = false;
    return error_sys(err, r, "starting a thread");
}

void worker_end(struct manager *m, bool *running) {
    (void)pthread_mutex_lock(&m->lock);
    *running = false;
    (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
}

int reaper_start(struct manager *m, struct cay_error *err) {
    return worker_start(m, &m->reaper, reap, &m->reaping, err);
}
