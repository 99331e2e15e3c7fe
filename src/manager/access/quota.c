/* What sandboxes take of the budgets of their keys. The rules are in access/budget.c. */
#include <string.h>

#include "base/error.h"
#include "manager/internal.h"

/* What is archived takes a place, and as much disk as it needs to come back, but no memory,
 * processors or processes. */
static struct budget_charge charge_of(const struct sandbox_record *r, bool is_awake, bool runs) {
    struct budget_charge c = budget_charge_for(r->owner, r->made_by);
    uint64_t archive = (uint64_t)r->archive_bytes;
    c.runs = runs;
    c.amount[BUDGET_SANDBOXES] = 1;
    budget_add_disk(&c, BUDGET_DISK_BACKUPS, (uint64_t)r->backup_bytes);
    budget_add_disk(&c, BUDGET_DISK_ARCHIVES, is_awake ? archive : MAX(archive, r->disk_bytes));
    if (!is_awake)
        return c;
    budget_add_disk(&c, BUDGET_DISK_SANDBOXES, r->disk_bytes);
    c.amount[BUDGET_MEMORY] = r->memory_bytes;
    c.amount[BUDGET_CPUS] = r->cpu_quota_us;
    c.amount[BUDGET_PIDS] = r->pids;
    return c;
}

/* Whether the host has to give what it may take. One that is being removed may run until then. */
static bool runs(const struct sandbox *s) {
    switch (s->record.state) {
    case SANDBOX_CREATING:
    case SANDBOX_STARTED:
    case SANDBOX_PAUSED:
    case SANDBOX_STARTING:
    case SANDBOX_STOPPING:
    case SANDBOX_RESTORING:
        return true;
    case SANDBOX_DESTROYING:
        return s->charge.runs;
    default:
        return s->waking;
    }
}

static struct budget_charge charge_now(const struct sandbox *s) {
    return charge_of(&s->record, s->record.state != SANDBOX_ARCHIVED || s->waking, runs(s));
}

/* The new charge comes first, so that a sandbox is never without one. */
int quota_settle(struct manager *m, struct sandbox *s, struct cay_error *err) {
    const struct budget_charge next = charge_now(s);
    if (s->gone)
        return 0;
    int r = budget_charge(m, &next, err);
    if (r < 0)
        return r;
    budget_release(m, &s->charge);
    s->charge = next;
    return 0;
}

int quota_check(const struct manager *m, const struct sandbox *s,
                const struct sandbox_record *wanted, struct cay_error *err) {
    const struct budget_charge charge = charge_of(wanted, true, true);
    return budget_check(m, &charge, s != NULL ? &s->charge : NULL, err);
}

/* A stopped one has to fit when it starts, and not before. */
int quota_check_update(const struct manager *m, const struct sandbox *s,
                       const struct sandbox_record *wanted, struct cay_error *err) {
    const struct budget_charge charge =
        charge_of(wanted, s->record.state != SANDBOX_ARCHIVED, s->charge.runs);
    return budget_check(m, &charge, &s->charge, err);
}

static uint64_t left_in(const struct manager *m, const char *id, uint64_t own) {
    const struct key *k = id[0] == '\0' ? NULL : keys_find(m, id);
    if (k == NULL || k->max_disk_bytes == 0)
        return INT64_MAX;
    uint64_t used = budget_used(m, id, BUDGET_DISK) - own;
    return used < k->max_disk_bytes ? k->max_disk_bytes - used : 0;
}

uint64_t quota_disk_left(struct manager *m, const struct sandbox *s) {
    const struct sandbox_record *r = &s->record;
    (void)pthread_mutex_lock(&m->lock);
    uint64_t own = (uint64_t)r->backup_bytes;
    uint64_t left = left_in(m, r->owner, own);
    if (r->made_by[0] != '\0')
        left = MIN(left, left_in(m, r->made_by, own));
    (void)pthread_mutex_unlock(&m->lock);
    return left;
}

int quota_wake(struct manager *m, struct sandbox *s, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int r = quota_check(m, s, &s->record, err);
    s->waking = r == 0;
    if (r == 0)
        r = quota_settle(m, s, err);
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}
