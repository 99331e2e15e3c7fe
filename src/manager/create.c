/* Admitting a new sandbox, and what is left of one that does not come to life: nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "manager/files/space.h"
#include "manager/internal.h"

int change_check_room(struct manager *m, const struct sandbox *s,
                      const struct sandbox_record *wanted, struct cay_error *err) {
    if (wanted->pooled)
        return 0;
    if (m->count - pool_count(m) >= (size_t)MAX(m->limits.max_sandboxes, 0)) {
        error_set(err, CAY_LIMIT_REACHED, "Maximum number of sandboxes (%lld) reached",
                  (long long)m->limits.max_sandboxes);
        return error_remedy(err, "remove one with: cay rm NAME, or raise max_sandboxes in the "
                                 "section [manager] of the configuration");
    }
    int r = table_check_name(m, wanted->owner, wanted->name, err);
    return r < 0 ? r : quota_check(m, s, wanted, err);
}

static int admit_locked(struct manager *m, struct sandbox *s, struct cay_error *err) {
    int r = table_check_open(m, err);
    if (r == 0)
        r = keys_check(m, sandbox_record_key(&s->record), err);
    if (r == 0)
        r = change_check_room(m, s, &s->record, err);
    if (r == 0)
        r = volumes_check(m, &s->record, err);
    if (r == 0 && s->record.destroy_ms > 0)
        reaper_wake(m);
    return r < 0 ? r : table_add(m, s, err);
}

/* Takes its place in the table, with its turn, and its row. The row of a creation that a dying
 * machine interrupts may be lost; only the first of all must not, which tells a database that knows
 * its sandboxes from one that does not. */
static int admit(struct manager *m, struct sandbox *s, struct cay_error *err) {
    enum db_flush flush = db_is_unused(m->db) ? DB_FLUSH : DB_FLUSH_LATER;
    (void)pthread_mutex_lock(&m->lock);
    int r = admit_locked(m, s, err);
    if (r == 0) {
        s->changing = true; /* no deadline: a pull takes what it takes */
        (void)sandbox_ref(s);
        m->changes++;
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        return r;
    r = db_add(m->db, &s->record, flush, err);
    (void)pthread_mutex_lock(&m->lock);
    if (r < 0)
        table_drop(m, s);
    else
        watch_report(m, &s->record, NULL, sandbox_state_name(s->record.state));
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        turn_end(m, s);
    return r;
}

static void sandbox_putp(struct sandbox **s) {
    if (*s != NULL && (*s)->references == 0) {
        sandbox_record_free(&(*s)->record);
        free(*s);
    }
}

int change_admit(struct manager *m, const struct sandbox_record *request, const char *progress,
                 struct building *building, struct queue_ticket *ticket, struct sandbox **ret,
                 struct cay_error *err) {
    _cleanup_(sandbox_putp) struct sandbox *s = calloc(1, sizeof *s); /* until the table has it */
    if (s == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    int r = request_complete(m, request, &s->record, err);
    if (r == 0)
        r = manager_check_space(m, err);
    if (r < 0)
        return r;
    (void)snprintf(s->record.reason, sizeof s->record.reason, "%s", progress);
    s->building = building;
    s->ticket = ticket;
    s->knows_oom = true;
    s->active_at = s->stopped_at = clock_ms();
    (void)sandbox_ref(s); /* ours */
    r = admit(m, s, err);
    if (r == 0) {
        *ret = TAKE_PTR(s);
        return 0;
    }
    (void)pthread_mutex_lock(&m->lock);
    sandbox_unref(s);
    s = NULL;
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

void change_end_creation(struct manager *m, struct sandbox *s) {
    (void)pthread_mutex_lock(&m->lock);
    s->building = NULL;
    s->ticket = NULL;
    (void)pthread_mutex_unlock(&m->lock);
    turn_end(m, s);
    (void)pthread_mutex_lock(&m->lock);
    sandbox_unref(s);
    (void)pthread_mutex_unlock(&m->lock);
}

/* Makes one. Its turn in the queue has come. */
static int make_new(struct manager *m, const struct sandbox_record *request, int progress_fd,
                    int client_fd, struct queue_ticket *ticket, struct sandbox_record *ret,
                    struct cay_error *err) {
    struct cay_error here = {0};
    struct sandbox *s = NULL;
    _cleanup_(closep) int cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct building building = {.cancel = cancel, .client = client_fd};
    int r = change_admit(m, request, "", &building, ticket, &s, err);
    if (r != 0)
        return r;
    r = change_build(m, s, progress_fd, &here);
    if (r == 0) /* which may have taken minutes */
        r = manager_key_check(m, sandbox_record_key(request), &here);
    if (r == 0)
        r = change_copy_out(m, s, ret, &here);
    if (r < 0)
        (void)change_remove(m, s, NULL, NULL);
    if (r < 0 && err != NULL)
        *err = here;
    change_end_creation(m, s);
    return r;
}

/* Whoever comes while others wait does not take what they could have had. */
int manager_create_for(struct manager *m, const struct sandbox_record *request, int progress_fd,
                       int client_fd, struct sandbox_record *ret, struct cay_error *err) {
    struct queue_ticket ticket;
    bool has_looked = queue_is_empty(m), missed = false;
    int taken = has_looked ? pool_take(m, request, &missed, ret, err) : 0;
    if (taken != 0)
        return MIN(taken, 0);
    int r = queue_join(m, request->pooled ? QUEUE_AHEAD : QUEUE_CLIENT, sandbox_record_key(request),
                       &ticket, err);
    if (r == 0)
        r = queue_wait(m, &ticket, err);
    if (r < 0)
        return r;
    r = manager_key_check(m, sandbox_record_key(request), err);
    if (r < 0) {
        queue_leave(m, &ticket);
        return r;
    }
    if (!has_looked || ticket.has_waited)
        taken = pool_take(m, request, &missed, ret, err);
    if (taken == 0 && missed)
        pool_count_miss(m);
    r = taken == 0 ? make_new(m, request, progress_fd, client_fd, &ticket, ret, err)
                   : MIN(taken, 0);
    queue_leave(m, &ticket);
    return r;
}

int manager_create(struct manager *m, const struct sandbox_record *request, int progress_fd,
                   struct sandbox_record *ret, struct cay_error *err) {
    return manager_create_for(m, request, progress_fd, -1, ret, err);
}
