#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "manager/internal.h"

struct operation {
    struct sandbox *sandbox;
    struct budget_charge charge;
};

static void stamp(struct sandbox *s) {
    s->active_at = clock_ms();
    s->record.active_ms = clock_wall_ms();
}

int manager_touch(struct manager *m, const char *who, struct cay_error *err) {
    struct sandbox *s = NULL;
    (void)pthread_mutex_lock(&m->lock);
    int r = table_find(m, who, &s, err);
    if (s != NULL)
        stamp(s);
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

static bool is_coming(const struct sandbox *s) {
    enum sandbox_state state = s->record.state;
    bool starting = state == SANDBOX_CREATING || state == SANDBOX_STARTING ||
                    state == SANDBOX_RESTORING ||
                    (state == SANDBOX_ERROR && s->record.on_failure == FAILURE_RECREATE);
    return !s->gone && (s->recover_at != 0 || (s->changing && starting));
}

/* Whoever comes while it starts gets it when it has started. */
static int wait_until_started(struct manager *m, struct sandbox *s, struct cay_error *err) {
    int64_t until = clock_deadline(m->limits.transition_ms);
    while (is_coming(s) && !clock_expired(until))
        table_wait(m, until);
    if (s->gone)
        return error_set(err, CAY_NOT_FOUND, "sandbox '%s' has been removed", s->record.name);
    return s->record.state == SANDBOX_STARTED ? 0 : turn_refuse(s, "used", err);
}

/* An operation is one of the commands of the key that made the sandbox, whoever asked for it. */
static int charge(struct manager *m, const struct sandbox *s, struct operation *o,
                  struct cay_error *err) {
    o->charge = budget_charge_for(s->record.owner, s->record.made_by);
    o->charge.amount[BUDGET_COMMANDS] = 1;
    return budget_admit(m, &o->charge, err);
}

static int count_in(struct manager *m, const char *who, struct operation *o,
                    struct sandbox_record *ret, struct cay_error *err) {
    struct sandbox *s = NULL;
    int r = table_check_open(m, err);
    if (r == 0)
        r = table_find(m, who, &s, err);
    if (s == NULL)
        return r;
    (void)sandbox_ref(s);
    r = wait_until_started(m, s, err);
    if (r == 0)
        r = charge(m, s, o, err);
    if (r == 0 && sandbox_record_copy(&s->record, ret) < 0) {
        budget_release(m, &o->charge);
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    if (r < 0) {
        sandbox_unref(s);
        return r;
    }
    s->operations++;
    m->operations++;
    stamp(s);
    o->sandbox = s;
    return 0;
}

static void count_out(struct manager *m, struct operation *o, bool failed) {
    struct sandbox *s = o->sandbox;
    (void)pthread_mutex_lock(&m->lock);
    budget_release(m, &o->charge);
    s->operations--;
    m->operations--;
    if (failed)
        reaper_wake(m); /* perhaps it has ended */
    else
        stamp(s);
    sandbox_unref(s);
    if (m->awaiting > 0 || m->closing) /* else every command would wake every thread */
        (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
}

int manager_begin(struct manager *m, const char *who, struct operation **ret_operation,
                  struct sandbox_record *ret, struct cay_error *err) {
    _cleanup_(freep) struct operation *operation = calloc(1, sizeof *operation);
    if (operation == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    (void)pthread_mutex_lock(&m->lock);
    int r = count_in(m, who, operation, ret, err);
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0 || operation->sandbox == NULL)
        return r;
    int fd = socket_connect(ret->id, CONNECT_MS, err);
    if (fd < 0) {
        count_out(m, operation, true);
        sandbox_record_free(ret);
        return fd;
    }
    *ret_operation = TAKE_PTR(operation);
    return fd;
}

void manager_end(struct manager *m, struct operation *operation) {
    if (operation == NULL)
        return;
    count_out(m, operation, false);
    free(operation);
}

/* A look from outside: no operation, and it keeps nothing from being idle. */
int manager_stats(struct manager *m, const char *who, struct engine_stats *ret,
                  struct cay_error *err) {
    char id[ID_SIZE] = "";
    struct sandbox *s;
    (void)pthread_mutex_lock(&m->lock);
    int r = table_check_open(m, err);
    if (r == 0)
        r = table_find(m, who, &s, err);
    if (r == 0 && s->record.state != SANDBOX_STARTED && s->record.state != SANDBOX_PAUSED)
        r = turn_refuse(s, "measured", err);
    else if (r == 0)
        memcpy(id, s->record.id, sizeof id);
    (void)pthread_mutex_unlock(&m->lock);
    if (r == 0)
        r = drive_stats(m, id, ret, err);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&m->lock);
    if (table_find(m, id, &s, NULL) == 0)
        sampler_note_oom(s, ret);
    (void)pthread_mutex_unlock(&m->lock);
    return 0;
}
