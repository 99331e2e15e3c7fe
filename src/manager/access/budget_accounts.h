/* The ledger of budgets inside the manager. Functions are called with the lock held. */
#pragma once

#include "manager/access/budget.h"

struct budget_account;
struct disk_note;
struct sandbox;

enum { BUDGET_BUCKETS = 256 };

struct budget {
    struct budget_account *buckets[BUDGET_BUCKETS];
    struct disk_note *notes;        /* manager/disk.c */
    uint64_t total[BUDGET_ITEMS];   /* of everybody */
    uint64_t running[BUDGET_ITEMS]; /* the part of it that counts for the host */
};

/* May the owner have `wanted` in place of `held` (NULL: besides all that it has)? Items that do not
 * grow are not looked at. */
int budget_check(const struct manager *m, const struct budget_charge *wanted,
                 const struct budget_charge *held, struct cay_error *err);
/* Charges without asking: what is there already, as at the start. -CAY_RESOURCE_EXHAUSTED without
 * memory. */
int budget_charge(struct manager *m, const struct budget_charge *c, struct cay_error *err);
int budget_admit(struct manager *m, const struct budget_charge *c, struct cay_error *err);
void budget_release(struct manager *m, const struct budget_charge *c);
uint64_t budget_used(const struct manager *m, const char *owner, enum budget_item item);

/* Refuses what exceeds a limit of a key or an organisation. */
int budget_refuse(const struct key *k, enum budget_item item, struct cay_error *err);
void disk_free(struct manager *m);

void budget_free(struct manager *m);
