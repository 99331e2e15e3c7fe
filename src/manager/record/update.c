/* Changes of what a sandbox is: limits, intervals, labels. The row is written first; if the engine
 * does not follow, it is put back. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "manager/internal.h"

void manager_update_free(struct manager_update *u) {
    sandbox_record_free(&u->to);
    strv_free(&u->unlabel);
}

/* ---- what it shall be ---- */

static bool has_key(const char *pair, const char *key, size_t len) {
    return strncmp(pair, key, len) == 0 && pair[len] == '=';
}

static bool is_replaced(const struct manager_update *u, const char *pair) {
    for (size_t i = 0; i < u->to.labels.len; i++)
        if (has_key(pair, u->to.labels.v[i], strcspn(u->to.labels.v[i], "=")))
            return true;
    for (size_t i = 0; i < u->unlabel.len; i++)
        if (has_key(pair, u->unlabel.v[i], strlen(u->unlabel.v[i])))
            return true;
    return false;
}

static int merge_labels(const struct manager_update *u, struct strv *labels,
                        struct cay_error *err) {
    _cleanup_(strv_free) struct strv all = {0};
    struct strv sorted = {0};
    int r = 0;
    for (size_t i = 0; r == 0 && i < labels->len; i++)
        r = is_replaced(u, labels->v[i]) ? 0 : strv_push(&all, labels->v[i]);
    for (size_t i = 0; r == 0 && i < u->to.labels.len; i++)
        r = strv_push(&all, u->to.labels.v[i]);
    if (r < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    r = request_labels(&all, &sorted, err);
    if (r < 0)
        return r;
    strv_free(labels);
    *labels = sorted;
    return 0;
}

static bool changes_limits(const struct manager_update *u) {
    return fields_has(&u->set, FIELD_LIMIT);
}

static bool changes_network(const struct manager_update *u) {
    return FIELD_IN(&u->set, network);
}

static int check_disk(uint64_t wish, const struct sandbox_record *r, struct cay_error *err) {
    char want[32], have[32];
    if (wish >= r->disk_bytes)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "a disk of %s cannot shrink to %s",
              str_bytes(r->disk_bytes, have), str_bytes(wish, want));
    return error_remedy(err, "give it more, or make another sandbox with less");
}

static int check_limits(const struct manager *m, const struct sandbox_record *r,
                        struct cay_error *err) {
    struct sandbox_spec spec = {0};
    int e = request_spec(m, r, &spec, err);
    spec_free_mounts(&spec);
    return e;
}

/* What is there becomes what is asked for; a negative interval is never. */
static int apply(struct manager *m, const struct manager_update *u, struct sandbox_record *r,
                 struct cay_error *err) {
    int e = FIELD_IN(&u->set, disk_bytes) ? check_disk(u->to.disk_bytes, r, err) : 0;
    if (e == 0 && changes_network(u))
        e = network_check_change(r, u->to.network, err);
    if (e < 0)
        return e;
    fields_put(&u->set, &u->to, r);
    r->auto_stop_minutes = MAX(r->auto_stop_minutes, 0);
    r->auto_archive_minutes = MAX(r->auto_archive_minutes, 0);
    r->auto_delete_minutes = MAX(r->auto_delete_minutes, -1);
    r->destroy_ms = MAX(r->destroy_ms, 0);
    r->updated_ms = clock_wall_ms();
    e = request_intervals(r, err);
    if (e == 0 && changes_limits(u))
        e = check_limits(m, r, err);
    if (e == 0)
        e = merge_labels(u, &r->labels, err);
    if (e == 0 && changes_network(u))
        e = network_check(m, r, err);
    bool is_opened = FIELD_IN(&u->set, is_public) && r->is_public;
    if (e == 0 && (FIELD_IN(&u->set, destroy_ms) || is_opened))
        e = policy_limit(m, r, err);
    return e;
}

/* ---- making it so ---- */

/* Only what an update changes: the rest may have another hand on it. */
static void swap_values(struct sandbox_record *a, struct sandbox_record *b) {
    int64_t updated_ms = a->updated_ms;
    a->updated_ms = b->updated_ms;
    b->updated_ms = updated_ms;
    fields_swap(FIELD_UPDATE, a, b);
}

static int write_values(struct manager *m, struct sandbox *s, struct sandbox_record *wanted,
                        struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int r = quota_check_update(m, s, wanted, err);
    if (r == 0)
        swap_values(&s->record, wanted);
    (void)quota_settle(m, s, NULL); /* its account is there */
    if (r == 0 && s->record.destroy_ms > 0)
        reaper_wake(m); /* it may have to be looked at sooner now */
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        return r;
    r = turn_save(m, s, DB_FLUSH, err);
    if (r < 0) {
        (void)pthread_mutex_lock(&m->lock);
        swap_values(&s->record, wanted);
        (void)quota_settle(m, s, NULL);
        (void)pthread_mutex_unlock(&m->lock);
    }
    return r;
}

/* The limits of r, as far as the engine has to know them now: a stopped one has only a disk. */
static int drive_limits(struct manager *m, const struct sandbox *s, const struct sandbox_record *r,
                        bool disk, struct cay_error *err) {
    struct sandbox_spec spec = {.disk_bytes = disk ? r->disk_bytes : 0};
    bool runs = s->record.state == SANDBOX_STARTED || s->record.state == SANDBOX_PAUSED;
    memcpy(spec.id, r->id, sizeof spec.id);
    if (runs) {
        spec.memory_bytes = r->memory_bytes;
        spec.cpu_quota_us = r->cpu_quota_us;
        spec.pids = r->pids;
    }
    if (!runs && !disk)
        return 0;
    int e = drive_resize(m, &spec, err);
    return e == -CAY_NOT_FOUND && !runs ? 0 : e; /* it has no files yet */
}

static int make_so(struct manager *m, struct sandbox *s, const struct manager_update *u,
                   struct sandbox_record *wanted, struct cay_error *err) {
    struct cay_error here = {0};
    int r = write_values(m, s, wanted, err); /* wanted is what it was from now on */
    if (r == 0 && changes_network(u))
        r = network_change(m, s, &here);
    else if (r < 0)
        return r;
    if (r == 0 && changes_limits(u))
        r = drive_limits(m, s, &s->record, FIELD_IN(&u->set, disk_bytes), &here);
    if (r == 0)
        return 0;
    (void)drive_limits(m, s, wanted, false, NULL); /* some may have changed before it failed */
    (void)write_values(m, s, wanted, NULL);        /* a row of before counts from the next start */
    if (changes_network(u))
        (void)network_change(m, s, NULL);
    if (err != NULL)
        *err = here;
    return r;
}

/* What is being removed, or moved elsewhere, is not changed on the way. */
static int check_state(struct manager *m, const struct sandbox *s, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    enum sandbox_state now = s->record.state;
    bool settled = now == SANDBOX_STARTED || now == SANDBOX_PAUSED || now == SANDBOX_STOPPED ||
                   now == SANDBOX_ARCHIVED || now == SANDBOX_ERROR;
    int r = settled ? 0 : turn_refuse(s, "changed", err);
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

int manager_update(struct manager *m, const char *who, const struct manager_update *update,
                   struct cay_error *err) {
    struct sandbox *s;
    struct sandbox_record wanted = {0};
    int r = turn_take(m, who, &s, err);
    if (r < 0)
        return r;
    r = check_state(m, s, err);
    if (r == 0)
        r = change_copy_out(m, s, &wanted, err);
    if (r == 0)
        r = apply(m, update, &wanted, err);
    if (r == 0)
        r = make_so(m, s, update, &wanted, err);
    sandbox_record_free(&wanted);
    turn_end(m, s);
    return r;
}
