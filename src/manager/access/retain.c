/* How long the audit is kept: rows leave the database for sealed segments, and these are removed
 * when they are old or too many. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "manager/access/audit_segment.h"
#include "manager/internal.h"

/* The older half goes, so that the database is not trimmed for every row. */
static int seal_rows(struct manager *m, int64_t anchor, int64_t head, struct cay_error *err) {
    char object[AUDIT_OBJECT_SIZE], hex[HASH_HEX_SIZE];
    unsigned char chain[HASH_SIZE];
    int64_t through = anchor + (head - anchor) / 2;
    int r = audit_segment_seal(m->db, through, chain, err);
    if (r < 0)
        return r;
    hash_hex(chain, hex);
    (void)snprintf(object, sizeof object, "rows %lld to %lld", (long long)anchor + 1,
                   (long long)through);
    manager_audit(m, "cay", "audit.seal", object, "ok", hex);
    return 0;
}

/* The row that tells of it keeps the chain of the last row, which the next segment follows. */
static int remove_segment(struct manager *m, const struct audit_segment *s, struct cay_error *err) {
    char object[AUDIT_OBJECT_SIZE], hex[HASH_HEX_SIZE];
    unsigned char chain[HASH_SIZE];
    int r = audit_segment_remove(s, chain, err);
    if (r < 0)
        return r;
    hash_hex(chain, hex);
    (void)snprintf(object, sizeof object, "rows %lld to %lld", (long long)s->first,
                   (long long)s->last);
    manager_audit(m, "cay", "audit.expire", object, "ok", hex);
    return 0;
}

static bool is_expired(const struct audit_segment *s, uint64_t total,
                       const struct audit_retention *keep) {
    return (keep->keep_ms > 0 && s->sealed_ms < clock_wall_ms() - keep->keep_ms) ||
           (keep->max_bytes > 0 && total > keep->max_bytes);
}

static int expire(struct manager *m, int64_t anchor, const struct audit_retention *keep,
                  struct cay_error *err) {
    struct audit_segment *v;
    size_t count;
    uint64_t total = 0;
    int r = audit_segment_list(anchor, &v, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        total += v[i].bytes;
    for (size_t i = 0; r == 0 && i < count && is_expired(&v[i], total, keep); i++) {
        r = remove_segment(m, &v[i], err);
        total -= v[i].bytes;
    }
    free(v);
    return r;
}

int manager_audit_retain(struct manager *m, const struct audit_retention *keep,
                         struct cay_error *err) {
    unsigned char ignored[HASH_SIZE];
    int64_t anchor, head = db_audit_head(m->db, ignored);
    struct cay_error rescue;
    if (manager_check_rescue(m, &rescue) < 0)
        return 0; /* nothing is changed then */
    int r = db_audit_anchor(m->db, &anchor, ignored, err);
    if (r == 0 && keep->rows > 0 && head - anchor > keep->rows) {
        r = seal_rows(m, anchor, head, err);
        anchor += (head - anchor) / 2;
    }
    return r < 0 ? r : expire(m, anchor, keep, err);
}
