/* Sandboxes made ahead. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cay_error;
struct manager;
struct manager_pool_totals;
struct sandbox_record;

/* Makes a pooled sandbox the one that is asked for: 1; 0 if one has to be made; or why it is
 * refused. *ret_missed is set if the pool was to have one: who makes one then calls
 * pool_count_miss(). */
int pool_take(struct manager *m, const struct sandbox_record *request, bool *ret_missed,
              struct sandbox_record *ret, struct cay_error *err);
void pool_count_miss(struct manager *m);
int pool_start(struct manager *m, struct cay_error *err);
/* With the lock held: how many sandboxes are pooled, also those in the making. */
size_t pool_count(const struct manager *m);
void pool_total(const struct manager *m, struct manager_pool_totals *ret);
