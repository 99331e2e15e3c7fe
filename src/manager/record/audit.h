/* The audit: who did what to which object, when, and how it ended. Rows are only added. Each
 * carries the SHA-256 of the chain of the row before and of its own columns, so that a row that was
 * changed, removed, inserted or moved does not fit any more. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "manager/record/hash.h"

struct cay_error;
struct manager;
struct sandbox_record;

enum {
    AUDIT_WHO_SIZE = 72,
    AUDIT_ACTION_SIZE = 48,
    AUDIT_OBJECT_SIZE = 72,
    AUDIT_RESULT_SIZE = 24,
    AUDIT_DETAIL_SIZE = 200,
    AUDIT_PAGE_MAX = 10000,
};

struct audit_row {
    int64_t number, time_ms;
    char who[AUDIT_WHO_SIZE];       /* the name of a key, "admin", "uid:N", "cay" itself, "-" */
    char action[AUDIT_ACTION_SIZE]; /* "sandbox.start" */
    char object[AUDIT_OBJECT_SIZE]; /* an id or a name */
    char result[AUDIT_RESULT_SIZE]; /* "ok", or the name of the error's class */
    char detail[AUDIT_DETAIL_SIZE];
    unsigned char chain[HASH_SIZE];
};

/* The chain of a row whose other columns are set, behind the one before. */
void audit_chain(const unsigned char before[static HASH_SIZE], const struct audit_row *row,
                 unsigned char ret[static HASH_SIZE]);

/* Adds a row; number, time and chain are filled in, texts cut to what fits. What cannot be written
 * is logged, and holds up nobody: a full disk must not keep a sandbox from being removed. */
void manager_audit(struct manager *m, const char *who, const char *action, const char *object,
                   const char *result, const char *detail);
/* The same for a refusal, of which a flood is counted, not written down. */
void manager_audit_refusal(struct manager *m, const char *who, const char *action,
                           const char *object, const char *result, const char *detail);

/* What somebody is about to do. If it succeeds, its row is written with the change, in one
 * transaction, and is_written says so; else the row is his to write, by manager_audit(). */
struct audit_intent {
    const char *who, *action;
    const char *detail; /* as it is when the change is written */
    bool is_written;
};
/* For what this thread does from now on; NULL ends it. */
void manager_audit_announce(struct audit_intent *intent);
/* The detail of a creation. */
void audit_describe(const struct sandbox_record *r, char out[static AUDIT_DETAIL_SIZE]);

/* Rows since a time, oldest first, in an array that the caller releases: the first behind the row
 * `after`, or the last ones if that is negative; at most limit (up to AUDIT_PAGE_MAX). */
int manager_audit_list(struct manager *m, int64_t since_ms, int64_t after, size_t limit,
                       struct audit_row **ret, size_t *ret_count, struct cay_error *err);

struct audit_verdict {
    bool ok;
    int64_t rows, first, last; /* numbers; 0 if there is no row */
    unsigned char head[HASH_SIZE];
    int64_t bad; /* the first row that does not fit */
    char why[160];
};
/* Compares a row with the one before, of which v has number and chain. */
void audit_verify_row(struct audit_verdict *v, const struct audit_row *row);

/* How much of the audit is kept; 0 is no limit. */
struct audit_retention {
    int64_t rows;       /* in the database; the older half of more is sealed in a segment */
    int64_t keep_ms;    /* a segment, since it was sealed */
    uint64_t max_bytes; /* of all segments */
};
/* Seals rows and removes segments as this says. Negative if that could not be done. */
int manager_audit_retain(struct manager *m, const struct audit_retention *keep,
                         struct cay_error *err);

/* Recomputes all, segments included. A negative result means that it could not be done. */
int manager_audit_verify(struct manager *m, struct audit_verdict *ret, struct cay_error *err);

/* Removes the rows up to this number, which must not be the last. The chain of that row stays, as
 * what the next one follows, and a row says who did it. */
int manager_audit_trim(struct manager *m, int64_t through, const char *who, struct cay_error *err);
