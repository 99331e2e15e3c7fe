/* What the files about named volumes share. Functions are called with the lock held, unless they
 * say otherwise. */
#pragma once

#include "manager/internal.h"

struct volume *volumes_find_id(const struct manager *m, const char *id);
/* By name or id, of those that the caller sees. */
int volumes_find(const struct manager *m, const struct key *caller, const char *who,
                 struct volume **ret, struct cay_error *err);
/* What it takes of its owner's budget. */
struct budget_charge volumes_charge(const struct volume *v);
/* -CAY_CONFLICT while it is being made, removed or resized. */
int volumes_check_rest(const struct volume *v, struct cay_error *err);

/* -CAY_CONFLICT while a sandbox that uses it is not stopped. */
int volumes_check_idle(const struct manager *m, const struct volume *v, struct cay_error *err);

/* ---- files/volume_size.c ---- */

/* The size of a new volume of this owner; *size is what was asked for. */
int volumes_choose_size(const struct manager *m, const char *owner, uint64_t *size,
                        struct cay_error *err);
/* May the key use a volume of this size at all? */
int volumes_check_bound(const struct manager *m, const char *owner, const struct volume *v,
                        struct cay_error *err);
