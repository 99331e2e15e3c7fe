/* What the manager holds requests against: keys, quotas, what makes sense; and what it writes down
 * of them; and what becomes of one that fails. */
#pragma once

#include "engine/spec.h"
#include "manager/record/record.h"

struct image_wish;
struct cay_error;
struct key;
struct manager;
struct sandbox;

/* ---- access/key.c; with the lock held ---- */
int keys_load(struct manager *m, struct cay_error *err); /* before anybody else is there */
/* NULL if there is no such key, or no more. */
const struct key *keys_find(const struct manager *m, const char *id);
/* As manager_key_check(). */
int keys_check(const struct manager *m, const char *id, struct cay_error *err);

/* ---- access/audit.c ---- */
void audit_log_head(struct manager *m);

/* ---- access/quota.c ---- */

/* What a sandbox is charged for follows its record. To be called, with the lock held, after each
 * change of its state, owner or limits. Without memory the charge stays as it was. */
int quota_settle(struct manager *m, struct sandbox *s, struct cay_error *err);
/* May s (NULL: a new one) become, and run, as wanted? With the lock held. Errors are those of
 * manager_budget_admit(). */
int quota_check(const struct manager *m, const struct sandbox *s,
                const struct sandbox_record *wanted, struct cay_error *err);
/* The same for one that is there, in the state in which it is. */
int quota_check_update(const struct manager *m, const struct sandbox *s,
                       const struct sandbox_record *wanted, struct cay_error *err);
/* How large a backup of it may be, in place of the one that it has; INT64_MAX: there is no limit.
 * Takes the lock. */
uint64_t quota_disk_left(struct manager *m, const struct sandbox *s);
/* quota_check() for who has the turn and is about to start it, which counts from now on. Takes the
 * lock.
 */
int quota_wake(struct manager *m, struct sandbox *s, struct cay_error *err);

/* ---- access/policy.c ---- */

/* Whether the record's owner may choose its engine, tier, profile and image. Takes the lock. */
int policy_check(struct manager *m, const struct sandbox_record *r, struct cay_error *err);
/* Whether previews and lifetime of it are what the owner may choose; sets when it ends at the
 * latest. Takes the lock. */
int policy_limit(struct manager *m, struct sandbox_record *r, struct cay_error *err);
/* Sets whose images the sandbox is made from. Takes the lock. */
void policy_image_owner(struct manager *m, const struct sandbox_record *r, struct image_wish *wish);

/* ---- record/request.c ---- */
int request_complete(struct manager *m, const struct sandbox_record *request,
                     struct sandbox_record *ret, struct cay_error *err);
int request_labels(const struct strv *labels, struct strv *ret, struct cay_error *err);
/* Entries are "KEY=VALUE", and not too many. */
int request_env(const struct strv *env, struct cay_error *err);
int request_name(const char *name, struct cay_error *err);
/* Minutes that are not too many; what names them in the error. */
int request_intervals(const struct sandbox_record *r, struct cay_error *err);
/* The caller releases spec->mounts. */
int request_spec(const struct manager *m, const struct sandbox_record *r, struct sandbox_spec *ret,
                 struct cay_error *err);

/* ---- files/volume.c ---- */
int volumes_load(struct manager *m, struct cay_error *err); /* before anybody else is there */
/* "NAME:BOX[:ro]" of an owner as "ID:BOX[:ro]", added to ret. Takes the lock. */
int volumes_resolve(struct manager *m, const char *owner, const char *text, struct strv *ret,
                    struct cay_error *err);
/* Are those of a new sandbox still there? With the lock held. */
int volumes_check(const struct manager *m, const struct sandbox_record *r, struct cay_error *err);
/* Its file system has so many errors. With the lock held. */
void volumes_note_errors(struct manager *m, const char *id, uint64_t count);
/* Undoes creations that were cut short. Takes the lock. */
void volumes_undo(struct manager *m);

/* ---- manager/failure.c: for who has the turn ---- */

/* It does not run although it should: stopped if that was in peace, else what its policy says.
 * first: as in reconcile. */
int failure_note_end(struct manager *m, struct sandbox *s, bool first, struct cay_error *err);
/* As turn_fail(), for a reason that was logged before. */
void turn_fail_again(struct manager *m, struct sandbox *s, const struct cay_error *why);
/* SANDBOX_ERROR; by its policy with a start to come. */
void failure_plan(struct manager *m, struct sandbox *s, struct cay_error *why);
/* What was planned when the daemon ended, from the row. */
void failure_resume(const struct manager *m, struct sandbox *s);

/* ---- manager/activity.c ---- */

/* Asks the sandbox what goes on in it, for at most a second, and notes when it was last active.
 * False if it does not say, and has not been silent for so long that this is an answer. */
bool activity_learn(struct manager *m, struct sandbox *s);
