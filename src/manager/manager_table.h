/* The table of all sandboxes. Functions are called with the manager's lock held unless they say
 * otherwise. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cay_error;
struct key;
struct manager;
struct sandbox;

/* Waits for a change of anything, until the deadline. */
void table_wait(struct manager *m, int64_t deadline);
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
struct sandbox *sandbox_ref(struct sandbox *s);
void sandbox_unref(struct sandbox *s);
/* All, referenced; NULL if there is no memory. Takes the lock itself. */
struct sandbox **table_snapshot(struct manager *m, size_t *ret_count);
void table_snapshot_free(struct manager *m, struct sandbox **v, size_t count);
