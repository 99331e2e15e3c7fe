/* Bytes on the disk that the manager does not count itself: images, uploads, outputs. Whoever does
 * tells how many there are, not what changed: nothing drifts. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "manager/internal.h"

/* What is charged for somebody now. */
struct disk_note {
    struct budget_disk row;
    enum budget_item part;
    bool is_current; /* it was among the rows */
    struct disk_note *next;
};

static struct budget_charge charge_of(const struct budget_disk *row, enum budget_item part) {
    struct budget_charge c = budget_charge_for(row->owner, row->made_by);
    budget_add_disk(&c, part, row->bytes);
    return c;
}

static struct disk_note *find(const struct manager *m, enum budget_item part, const char *owner,
                              const char *made_by) {
    struct disk_note *n = m->budget.notes;
    while (n != NULL && !(n->part == part && str_equal(n->row.owner, owner) &&
                          str_equal(n->row.made_by, made_by)))
        n = n->next;
    return n;
}

/* Without memory it stays as it was until it is noted again. */
static void set(struct manager *m, struct disk_note *n, uint64_t bytes) {
    const struct budget_charge before = charge_of(&n->row, n->part);
    struct budget_disk next = n->row;
    next.bytes = bytes;
    const struct budget_charge after = charge_of(&next, n->part);
    if (bytes == n->row.bytes || budget_charge(m, &after, NULL) < 0)
        return;
    budget_release(m, &before);
    n->row.bytes = bytes;
}

static void note(struct manager *m, enum budget_item part, const struct budget_disk *row) {
    struct disk_note *n = find(m, part, row->owner, row->made_by);
    if (n == NULL && row->bytes > 0) {
        n = calloc(1, sizeof *n);
        if (n == NULL)
            return; /* noted the next time */
        n->part = part;
        n->row = *row;
        n->row.bytes = 0;
        n->next = m->budget.notes;
        m->budget.notes = n;
    }
    if (n == NULL)
        return;
    n->is_current = true;
    set(m, n, row->bytes);
}

static void drop_empty(struct manager *m) {
    for (struct disk_note **at = &m->budget.notes; *at != NULL;) {
        struct disk_note *n = *at;
        if (n->row.bytes > 0) {
            at = &n->next;
            continue;
        }
        *at = n->next;
        free(n);
    }
}

void manager_disk_note(struct manager *m, enum budget_item part, const struct budget_disk *row) {
    (void)pthread_mutex_lock(&m->lock);
    if (row->owner[0] != '\0')
        note(m, part, row);
    drop_empty(m);
    (void)pthread_mutex_unlock(&m->lock);
}

void manager_disk_note_all(struct manager *m, enum budget_item part, const struct budget_disk *rows,
                           size_t count) {
    (void)pthread_mutex_lock(&m->lock);
    for (struct disk_note *n = m->budget.notes; n != NULL; n = n->next)
        n->is_current = n->part != part;
    for (size_t i = 0; i < count; i++)
        if (rows[i].owner[0] != '\0')
            note(m, part, &rows[i]);
    for (struct disk_note *n = m->budget.notes; n != NULL; n = n->next)
        if (!n->is_current)
            set(m, n, 0);
    drop_empty(m);
    (void)pthread_mutex_unlock(&m->lock);
}

uint64_t manager_disk_noted(struct manager *m, enum budget_item part, const char *owner,
                            const char *made_by) {
    (void)pthread_mutex_lock(&m->lock);
    const struct disk_note *n = find(m, part, owner, made_by);
    uint64_t bytes = n == NULL ? 0 : n->row.bytes;
    (void)pthread_mutex_unlock(&m->lock);
    return bytes;
}

/* ---- limits ---- */

/* What is left of the disk of a key or an organisation, and whose it is; beyond the limit: -1. */
static int64_t left_of(const struct manager *m, const char *id, const struct key **ret) {
    const struct key *k = id[0] == '\0' ? NULL : keys_find(m, id);
    *ret = k;
    if (k == NULL || k->max_disk_bytes == 0)
        return INT64_MAX;
    uint64_t used = budget_used(m, id, BUDGET_DISK);
    return used > k->max_disk_bytes ? -1 : (int64_t)(k->max_disk_bytes - used);
}

int manager_disk_check(struct manager *m, const char *owner, const char *made_by, uint64_t bytes,
                       struct cay_error *err) {
    const char *const payers[] = {made_by, owner};
    int r = 0;
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(payers); i++) {
        const struct key *k = NULL;
        int64_t left = left_of(m, payers[i], &k);
        if (k != NULL && (left < 0 || (uint64_t)left < bytes))
            r = budget_refuse(k, BUDGET_DISK, err);
    }
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

uint64_t manager_disk_left(struct manager *m, const char *owner, const char *made_by) {
    const struct key *k;
    (void)pthread_mutex_lock(&m->lock);
    int64_t all = left_of(m, owner, &k), own = left_of(m, made_by, &k);
    (void)pthread_mutex_unlock(&m->lock);
    int64_t left = MIN(all, own);
    return left == INT64_MAX ? UINT64_MAX : (uint64_t)MAX(left, (int64_t)0);
}

void disk_free(struct manager *m) {
    while (m->budget.notes != NULL) {
        struct disk_note *next = m->budget.notes->next;
        free(m->budget.notes);
        m->budget.notes = next;
    }
}
