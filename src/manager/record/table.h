/* The table of all sandboxes. Functions are called with the manager's lock held unless they say
 * otherwise. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cay_error;
struct key;
struct manager;
struct sandbox;

/* Sorted arrays of rows. */
enum table_order {
    TABLE_BY_ID,
    TABLE_BY_NAME,  /* then by owner */
    TABLE_BY_OWNER, /* then by age; without those that are pooled */
    TABLE_BY_AGE,   /* the same */
    TABLE_POOLED,   /* only these, by age */
    TABLE_ORDERS
};

/* Waits for a change of anything, until the deadline. */
void table_wait(struct manager *m, int64_t deadline);
/* The same for the manager's own threads. They wait separately, or each change would wake all of
 * them. */
void duty_wait(struct manager *m, int64_t deadline);
void duty_wake(struct manager *m);
/* -CAY_UNAVAILABLE before the start and while closing. */
int table_check_open(const struct manager *m, struct cay_error *err);
/* By id, name, or unique prefix, among what the caller sees (NULL: everything); borrowed. Of names
 * that fit several, one of the caller's own comes first. */
int table_find_for(const struct manager *m, const struct key *caller, const char *who,
                   struct sandbox **ret, struct cay_error *err);
int table_find(const struct manager *m, const char *who, struct sandbox **ret,
               struct cay_error *err);
struct sandbox *table_find_id(const struct manager *m, const char *id);
/* A name is free or not among the sandboxes of one owner. */
int table_check_name(const struct manager *m, const char *owner, const char *name,
                     struct cay_error *err);
int table_add(struct manager *m, struct sandbox *s, struct cay_error *err);
void table_drop(struct manager *m, struct sandbox *s);
void table_free(struct manager *m);
/* Around a change of a sandbox's name, owner, age or whether it is pooled: else it is not found any
 * more. table_in() cannot fail. */
void table_out(struct manager *m, struct sandbox *s);
void table_in(struct manager *m, struct sandbox *s);
/* When a sandbox that is made now is made: later than every one before, so that lists have an
 * order; unless the clock was set back. */
int64_t table_next_created(struct manager *m);

/* Some rows, oldest first, without those that are pooled; valid while the lock is held. */
struct table_rows {
    struct sandbox *const *v;
    size_t count;
};
struct table_rows table_rows_of(const struct manager *m, const struct key *caller); /* NULL: all */
struct table_rows table_rows_of_owner(const struct manager *m, const char *owner);
struct table_rows table_rows_pooled(const struct manager *m);
/* How many of them are not younger than this one, which may be gone. */
size_t table_rows_until(const struct table_rows *rows, int64_t created_ms, const char *id);

/* Rows that this thread has looked at so far, for tests of how much that grows. */
extern _Thread_local size_t table_looks;

struct sandbox *sandbox_ref(struct sandbox *s);
void sandbox_unref(struct sandbox *s);
/* All, referenced; NULL if there is no memory. Takes the lock itself. */
struct sandbox **table_snapshot(struct manager *m, size_t *ret_count);
void table_snapshot_free(struct manager *m, struct sandbox **v, size_t count);
