/* Sealed segments of the audit: files with rows that are no longer in the database. A segment
 * begins with the chain that its first row follows and ends with that of its last row, which the
 * next segment, or the database, continues. One row is one line, its columns separated by tabs. */
#pragma once

#include <stdint.h>

#include "manager/record/audit.h"

struct db;

#define AUDIT_FOLDER "audit" /* in the daemon's folder */

enum { AUDIT_LINE_SIZE = 1024, AUDIT_SEGMENTS_MAX = 4096 };

struct audit_segment {
    int64_t first, last; /* numbers of rows */
    int64_t sealed_ms;   /* wall clock */
    uint64_t bytes;
};

/* Moves the rows up to `through` from the database into a segment, which is on disk before they are
 * removed. `ret` has its chain. */
int audit_segment_seal(struct db *db, int64_t through, unsigned char ret[static HASH_SIZE],
                       struct cay_error *err);

/* The segments that end at or before the anchor, oldest first; the caller frees the array. Files
 * behind it are of a seal that was cut off: their rows are still in the database. */
int audit_segment_list(int64_t anchor, struct audit_segment **ret, size_t *ret_count,
                       struct cay_error *err);

/* Removes one, and fills in the chain of its last row if it can be read. */
int audit_segment_remove(const struct audit_segment *s, unsigned char ret[static HASH_SIZE],
                         struct cay_error *err);

/* Goes on with v through a segment. v->rows 0: v begins with what the segment says it follows. */
int audit_segment_verify(const struct audit_segment *s, struct audit_verdict *v,
                         struct cay_error *err);
