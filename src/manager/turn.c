#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "manager/access/intent.h"
#include "manager/internal.h"

static int refuse_busy(const struct sandbox *s, struct cay_error *err) {
    error_set(err, CAY_CONFLICT, "sandbox '%s' is still %s", s->record.name,
              sandbox_state_name(s->record.state));
    return error_remedy(err, "try again when that is done; its state is shown by: cay info %s",
                        s->record.id);
}

void turn_begin(struct manager *m, struct sandbox *s) {
    (void)sandbox_ref(s);
    s->changing = true;
    s->turns++;
    s->deadline = clock_deadline(m->limits.transition_ms);
    m->changes++;
}

/* With the lock held; *ret is referenced by its turn. */
static int wait_for_turn(struct manager *m, const char *who, struct sandbox **ret,
                         struct cay_error *err) {
    struct sandbox *s = NULL;
    int r = table_check_open(m, err);
    if (r == 0)
        r = manager_check_rescue(m, err);
    if (r == 0)
        r = table_find(m, who, &s, err);
    if (s == NULL)
        return r;
    int64_t until = clock_deadline(m->limits.transition_ms);
    (void)sandbox_ref(s);
    while (s->changing && !clock_expired(until))
        table_wait(m, until);
    if (s->gone)
        r = error_set(err, CAY_NOT_FOUND, "sandbox '%s' has been removed", s->record.name);
    else if (s->changing)
        r = refuse_busy(s, err);
    else
        turn_begin(m, s);
    sandbox_unref(s);
    *ret = s;
    return r;
}

int turn_take(struct manager *m, const char *who, struct sandbox **ret, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int r = wait_for_turn(m, who, ret, err);
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

bool turn_try(struct manager *m, struct sandbox *s, unsigned turns) {
    (void)pthread_mutex_lock(&m->lock);
    bool free_now = !s->changing && !s->gone && s->turns == turns;
    if (free_now)
        turn_begin(m, s);
    (void)pthread_mutex_unlock(&m->lock);
    return free_now;
}

/* News that came while nobody could look, or nothing left to wait for. */
static bool is_for_reaper(const struct sandbox *s) {
    return !s->gone && (s->has_end || s->recover_at != 0 ||
                        (s->record.state == SANDBOX_STOPPED && s->record.auto_delete_minutes == 0));
}

void turn_end(struct manager *m, struct sandbox *s) {
    (void)pthread_mutex_lock(&m->lock);
    s->changing = s->waking = false;
    (void)quota_settle(m, s, NULL); /* its account is there, here and below */
    s->deadline = 0;
    s->progress = NULL;
    m->changes--;
    reaper_plan(m, s);
    if (is_for_reaper(s))
        reaper_wake(m);
    else if (s->record.pooled)
        duty_wake(m); /* the pool has one more, or one less */
    sandbox_unref(s);
    (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
}

void turn_set_deadline(struct manager *m, struct sandbox *s) {
    (void)pthread_mutex_lock(&m->lock);
    s->deadline = clock_deadline(m->limits.transition_ms);
    (void)pthread_mutex_unlock(&m->lock);
}

void turn_report(struct manager *m, struct sandbox *s, const int *fd) {
    (void)pthread_mutex_lock(&m->lock);
    s->progress = fd;
    (void)pthread_mutex_unlock(&m->lock);
}

int turn_progress(const struct sandbox *s) {
    return s->progress != NULL ? *s->progress : -1;
}

/* What settles a change brings its row of the audit along. */
static int write_row(struct manager *m, const struct sandbox_record *r, bool settles,
                     struct cay_error *err) {
    char detail[AUDIT_DETAIL_SIZE];
    struct intent_write w = {0};
    int e;
    if (settles)
        w = intent_open(m, DB_FLUSH_LATER, r->state);
    audit_describe(r, detail);
    do
        e = db_update(m->db, r, DB_FLUSH_LATER, err);
    while (intent_again(&w, &e, r->id, detail, err));
    return e;
}

/* With `saving` held, so that the last one to write has the last state. */
static int save_now(struct manager *m, struct sandbox *s, bool settles, struct cay_error *err) {
    struct sandbox_record copy = {0};
    (void)pthread_mutex_lock(&m->lock);
    int r = sandbox_record_copy(&s->record, &copy);
    bool gone = s->gone;
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        r = error_sys(err, -r, "recording sandbox %s", s->record.id);
    else if (!gone)
        r = write_row(m, &copy, settles, err);
    (void)pthread_mutex_lock(&m->lock);
    s->unsaved = r < 0;
    if (r == 0)
        s->saved_active_ms = copy.active_ms;
    (void)pthread_mutex_unlock(&m->lock);
    sandbox_record_free(&copy);
    return r;
}

/* What settles a change is on the disk before this returns. Others save meanwhile: they wait for
 * the disk together. */
int turn_save(struct manager *m, struct sandbox *s, enum db_flush flush, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->saving);
    int r = save_now(m, s, flush == DB_FLUSH, err);
    (void)pthread_mutex_unlock(&m->saving);
    if (r < 0 || flush != DB_FLUSH)
        return r;
    r = db_flush(m->db, err);
    if (r == 0)
        return 0;
    (void)pthread_mutex_lock(&m->lock);
    s->unsaved = true;
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

static void set_state(struct manager *m, struct sandbox *s, enum sandbox_state state,
                      const char *reason, const char *remedy) {
    int64_t now = clock_ms();
    enum sandbox_state before = s->record.state;
    s->record.state = state;
    (void)quota_settle(m, s, NULL);
    s->record.updated_ms = clock_wall_ms();
    (void)str_escape(s->record.reason, sizeof s->record.reason, reason);
    (void)str_escape(s->record.remedy, sizeof s->record.remedy, remedy);
    s->missed = false;
    s->recover_at = s->record.recover_ms = 0;
    if (state == SANDBOX_STARTED) {
        s->active_at = now;
        hold_look(m);
    }
    if (state == SANDBOX_STARTING || state == SANDBOX_STOPPED)
        s->has_end = false; /* of an earlier life */
    if (state == SANDBOX_STARTING) {
        s->knows_oom = true; /* there were none yet */
        s->disk.errors = s->disk.is_damage_reported = 0;
    }
    if (state == SANDBOX_STOPPED)
        s->stopped_at = now;
    if (state != before)
        watch_report(m, &s->record, sandbox_state_name(before), sandbox_state_name(state));
    (void)pthread_cond_broadcast(&m->changed);
}

static void go_back(struct manager *m, struct sandbox *s, enum sandbox_state before) {
    (void)pthread_mutex_lock(&m->lock);
    enum sandbox_state missed = s->record.state;
    s->record.state = before;
    (void)quota_settle(m, s, NULL);
    watch_report(m, &s->record, sandbox_state_name(missed), sandbox_state_name(before));
    (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
}

static int refuse_operations(const struct sandbox *s, struct cay_error *err) {
    error_set(err, CAY_CONFLICT, "sandbox '%s' is in use (operations under way: %u)",
              s->record.name, s->operations);
    return error_remedy(err, "wait until they are done, or end them with: cay rm --force %s",
                        s->record.name);
}

/* On the way to a state nobody has been promised anything, and what a machine that dies leaves of
 * it is repaired. Not so a removal: what is half-removed must not be taken for damage. */
static enum db_flush flush_of(enum sandbox_state state) {
    bool passing = state == SANDBOX_STARTING || state == SANDBOX_STOPPING;
    return passing ? DB_FLUSH_LATER : DB_FLUSH;
}

/* To end things is what frees a full disk, and to pause them is what keeps it from getting full. An
 * older row leads to the same: what does not run is stopped, what stands still is paused, and a
 * removal is promised only when the row is gone. */
static bool is_ending(enum sandbox_state state) {
    return state == SANDBOX_STOPPING || state == SANDBOX_STOPPED || state == SANDBOX_DESTROYING ||
           state == SANDBOX_PAUSED;
}

static bool runs_in(enum sandbox_state state) {
    return state == SANDBOX_STARTED || state == SANDBOX_PAUSED || state == SANDBOX_STARTING ||
           state == SANDBOX_STOPPING;
}

static int become(struct manager *m, struct sandbox *s, enum sandbox_state state, permission may,
                  const char *reason, const char *remedy, struct cay_error *err) {
    int r = 0;
    (void)pthread_mutex_lock(&m->lock);
    enum sandbox_state before = s->record.state;
    if (may != NULL && !may(m, s))
        r = refuse_operations(s, err);
    else
        set_state(m, s, state, reason, remedy);
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        return r;
    r = turn_save(m, s, flush_of(state), err);
    bool is_disk = r == -CAY_RESOURCE_EXHAUSTED || (r < 0 && err != NULL && err->sys == EIO);
    if (is_disk && is_ending(state))
        r = 0;
    if (r < 0)
        go_back(m, s, before);
    else if (!runs_in(state))
        network_close(m, s->record.id);
    return r;
}

int turn_become(struct manager *m, struct sandbox *s, enum sandbox_state state, permission may,
                struct cay_error *err) {
    return become(m, s, state, may, "", "", err);
}

int turn_become_because(struct manager *m, struct sandbox *s, enum sandbox_state state,
                        const char *why, permission may, struct cay_error *err) {
    return become(m, s, state, may, why, "", err);
}

int turn_become_for(struct manager *m, struct sandbox *s, enum sandbox_state state,
                    const char *reason, const char *remedy, struct cay_error *err) {
    return become(m, s, state, NULL, reason, remedy, err);
}

void turn_fail_again(struct manager *m, struct sandbox *s, const struct cay_error *why) {
    char remedy[SANDBOX_TEXT_SIZE];
    (void)snprintf(remedy, sizeof remedy, "%s%sstart it again with: cay start %s", why->remedy,
                   why->remedy[0] != '\0' ? "; then " : "", s->record.id);
    (void)pthread_mutex_lock(&m->lock);
    set_state(m, s, SANDBOX_ERROR, why->message, remedy);
    (void)pthread_mutex_unlock(&m->lock);
    /* Where even this cannot be written, the row has the state before, which a start repairs. */
    (void)turn_save(m, s, DB_FLUSH, NULL);
    network_close(m, s->record.id);
}

void turn_fail(struct manager *m, struct sandbox *s, const struct cay_error *why) {
    log_event(LOG_LEVEL_WARN, "sandbox failed", "why", "%s (%s): %s", s->record.id, s->record.name,
              why->message);
    turn_fail_again(m, s, why);
}

int turn_refuse(const struct sandbox *s, const char *done, struct cay_error *err) {
    const struct sandbox_record *r = &s->record;
    error_set(err, CAY_CONFLICT, "sandbox '%s' is %s: it cannot be %s%s%s", r->name,
              r->state == SANDBOX_ERROR ? "in error" : sandbox_state_name(r->state), done,
              r->reason[0] != '\0' ? "; " : "", r->reason);
    switch (r->state) {
    case SANDBOX_STOPPED:
    case SANDBOX_ARCHIVED:
        return error_remedy(err, "start it with: cay start %s", r->name);
    case SANDBOX_PAUSED:
        if (hold_has(r))
            return error_remedy(err, "%.240s", r->remedy);
        return error_remedy(err, "resume it with: cay resume %s", r->name);
    case SANDBOX_ERROR:
        return error_remedy(err, "%.240s", r->remedy);
    case SANDBOX_DESTROYING:
        return error_remedy(err, "make another one with: cay create");
    default:
        return error_remedy(err, "try again when that is done");
    }
}
