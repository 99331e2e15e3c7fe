#include "manager/record/audit.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "manager/access/audit_segment.h"
#include "manager/access/intent.h"
#include "manager/internal.h"

enum {
    ENCODED_MAX = 2048,
    HEAD_EVERY = 256,  /* rows between two heads in the log */
    REFUSALS_MAX = 20, /* in a minute; the rest is counted */
    REFUSALS_MS = 60 * 1000,
    VERIFY_PAGE = 1000,
    VERIFY_TRIES = 3,
};

/* ---- the chain ---- */

static void put_number(struct buf *b, uint64_t value) {
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(value >> (56 - 8 * i));
    (void)buf_append(b, bytes, sizeof bytes);
}

/* With its length before it, so that no two rows are encoded the same. */
static void put_text(struct buf *b, const char *text) {
    put_number(b, strlen(text));
    (void)buf_puts(b, text);
}

void audit_chain(const unsigned char before[static HASH_SIZE], const struct audit_row *row,
                 unsigned char ret[static HASH_SIZE]) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(ENCODED_MAX);
    (void)buf_append(&b, before, HASH_SIZE);
    put_number(&b, (uint64_t)row->number);
    put_number(&b, (uint64_t)row->time_ms);
    put_text(&b, row->who);
    put_text(&b, row->action);
    put_text(&b, row->object);
    put_text(&b, row->result);
    put_text(&b, row->detail);
    hash_of(buf_text(&b), b.len, ret);
}

static void put_hex(const unsigned char chain[static HASH_SIZE],
                    char out[static 2 * HASH_SIZE + 1]) {
    for (size_t i = 0; i < HASH_SIZE; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", chain[i]);
}

/* ---- adding ---- */

/* Where the end is stands in another place too, since rows that are missing there leave no gap. */
static void log_head(int64_t number, const unsigned char chain[static HASH_SIZE]) {
    char hex[2 * HASH_SIZE + 1];
    put_hex(chain, hex);
    log_event(LOG_LEVEL_INFO, "audit head", "head", "%lld %s", (long long)number, hex);
}

void audit_log_head(struct manager *m) {
    unsigned char chain[HASH_SIZE];
    int64_t number = db_audit_head(m->db, chain);
    if (number > 0)
        log_head(number, chain);
}

static void note_failure(struct manager *m, const struct audit_row *row,
                         const struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    m->audit_failures++;
    (void)pthread_mutex_unlock(&m->lock);
    log_event(LOG_LEVEL_ERROR, "not in the audit", "why", "%s %s %s: %s", row->who, row->action,
              row->object, err->message);
}

void audit_fill(struct audit_row *row, const char *who, const char *action, const char *object,
                const char *result, const char *detail) {
    *row = (struct audit_row){.time_ms = clock_wall_ms()};
    (void)str_escape(row->who, sizeof row->who, who);
    (void)str_escape(row->action, sizeof row->action, action);
    (void)str_escape(row->object, sizeof row->object, object);
    (void)str_escape(row->result, sizeof row->result, result);
    (void)str_escape(row->detail, sizeof row->detail, detail);
}

void audit_report_head(const struct audit_row *row) {
    if (row->number % HEAD_EVERY == 0)
        log_head(row->number, row->chain);
}

void manager_audit(struct manager *m, const char *who, const char *action, const char *object,
                   const char *result, const char *detail) {
    struct cay_error err;
    struct audit_row row;
    audit_fill(&row, who, action, object, result, detail);
    if (db_audit_add(m->db, &row, &err) < 0)
        note_failure(m, &row, &err);
    else
        audit_report_head(&row);
}

/* True if this one is written down, with how many before it were not. */
static bool may_note(struct manager *m, size_t *ret_left_out) {
    (void)pthread_mutex_lock(&m->lock);
    int64_t now = clock_ms();
    if (m->refusals == 0 || now - m->refusals_since >= REFUSALS_MS) {
        m->refusals_since = now;
        m->refusals = 0;
    }
    bool may = m->refusals < REFUSALS_MAX;
    if (may)
        m->refusals++;
    *ret_left_out = m->refusals_left_out;
    m->refusals_left_out = may ? 0 : m->refusals_left_out + 1;
    (void)pthread_mutex_unlock(&m->lock);
    return may;
}

void manager_audit_refusal(struct manager *m, const char *who, const char *action,
                           const char *object, const char *result, const char *detail) {
    size_t left_out;
    char text[AUDIT_DETAIL_SIZE];
    if (!may_note(m, &left_out))
        return;
    if (left_out > 0)
        (void)snprintf(text, sizeof text, "%.120s (%zu more before)", detail, left_out);
    manager_audit(m, who, action, object, result, left_out > 0 ? text : detail);
}

/* ---- looking ---- */

int manager_audit_list(struct manager *m, int64_t since_ms, int64_t after, size_t limit,
                       struct audit_row **ret, size_t *ret_count, struct cay_error *err) {
    limit = MIN(limit, (size_t)AUDIT_PAGE_MAX);
    _cleanup_(freep) struct audit_row *rows = calloc(limit + 1, sizeof *rows);
    if (rows == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    int r = db_audit_page(m->db, since_ms, after, rows, limit, ret_count, err);
    if (r == 0)
        *ret = TAKE_PTR(rows);
    return r;
}

/* ---- verifying ---- */

static void find_gap(struct audit_verdict *v, int64_t from, int64_t to) {
    v->ok = false;
    v->bad = from;
    (void)snprintf(v->why, sizeof v->why, "rows %lld to %lld are missing", (long long)from,
                   (long long)to);
}

void audit_verify_row(struct audit_verdict *v, const struct audit_row *row) {
    unsigned char chain[HASH_SIZE];
    if (row->number != v->last + 1) {
        find_gap(v, v->last + 1, row->number - 1);
        return;
    }
    audit_chain(v->head, row, chain);
    if (!hash_equal(chain, row->chain)) {
        v->ok = false;
        v->bad = row->number;
        (void)snprintf(v->why, sizeof v->why,
                       "row %lld does not fit the one before it: it was changed, inserted or moved",
                       (long long)row->number);
        return;
    }
    v->first = v->rows == 0 ? row->number : v->first;
    v->rows++;
    v->last = row->number;
    memcpy(v->head, chain, HASH_SIZE);
}

/* In pages, so that others can write meanwhile. */
static int verify_rows(struct manager *m, struct audit_row *page, struct audit_verdict *v,
                       struct cay_error *err) {
    size_t count = VERIFY_PAGE;
    while (v->ok && count == VERIFY_PAGE) {
        int r = db_audit_page(m->db, INT64_MIN, v->last, page, VERIFY_PAGE, &count, err);
        if (r < 0)
            return r;
        for (size_t i = 0; v->ok && i < count; i++)
            audit_verify_row(v, &page[i]);
    }
    return 0;
}

/* The segments, which have to end where the database begins. */
static int verify_segments(int64_t anchor, const unsigned char chain[static HASH_SIZE],
                           struct audit_verdict *v, struct cay_error *err) {
    struct audit_segment *all;
    size_t count;
    int r = audit_segment_list(anchor, &all, &count, err);
    for (size_t i = 0; r == 0 && v->ok && i < count; i++)
        r = audit_segment_verify(&all[i], v, err);
    free(all);
    if (r < 0 || !v->ok)
        return r;
    if (count > 0 && v->last != anchor)
        find_gap(v, v->last + 1, anchor);
    else if (count > 0 && !hash_equal(v->head, chain))
        find_gap(v, anchor, anchor);
    v->last = v->ok ? anchor : v->last;
    memcpy(v->head, chain, HASH_SIZE);
    return 0;
}

static int verify_once(struct manager *m, struct audit_row *page, int64_t *ret_anchor,
                       struct audit_verdict *ret, struct cay_error *err) {
    unsigned char chain[HASH_SIZE];
    *ret = (struct audit_verdict){.ok = true};
    int64_t end = db_audit_head(m->db, chain); /* first: more may be added while we look */
    int r = db_audit_anchor(m->db, ret_anchor, chain, err);
    if (r == 0)
        r = verify_segments(*ret_anchor, chain, ret, err);
    if (r == 0)
        r = verify_rows(m, page, ret, err);
    if (r == 0 && ret->ok && ret->last < end)
        find_gap(ret, ret->last + 1, end);
    return r;
}

int manager_audit_verify(struct manager *m, struct audit_verdict *ret, struct cay_error *err) {
    unsigned char ignored[HASH_SIZE];
    int64_t anchor, now;
    _cleanup_(freep) struct audit_row *page = calloc(VERIFY_PAGE, sizeof *page);
    if (page == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    for (int tries = 0;; tries++) {
        int r = verify_once(m, page, &anchor, ret, err);
        if ((r == 0 && ret->ok) || tries == VERIFY_TRIES)
            return r;
        /* Rows that were sealed or trimmed meanwhile are missing where we looked. */
        struct cay_error late;
        if (db_audit_anchor(m->db, &now, ignored, &late) < 0 || now == anchor)
            return r;
    }
}

/* ---- trimming ---- */

/* What was sealed before is older than what is trimmed. */
static int remove_segments(int64_t through, struct cay_error *err) {
    struct audit_segment *all;
    unsigned char ignored[HASH_SIZE];
    size_t count;
    int r = audit_segment_list(through, &all, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = audit_segment_remove(&all[i], ignored, err);
    free(all);
    return r;
}

int manager_audit_trim(struct manager *m, int64_t through, const char *who, struct cay_error *err) {
    struct audit_row row;
    char object[AUDIT_OBJECT_SIZE], hex[2 * HASH_SIZE + 1];
    unsigned char head[HASH_SIZE];
    size_t count = 0;
    int r = db_audit_page(m->db, INT64_MIN, through - 1, &row, 1, &count, err);
    if (r < 0)
        return r;
    if (count == 0 || row.number != through || through >= db_audit_head(m->db, head)) {
        error_set(err, CAY_NOT_FOUND, "the audit has no row %lld that another one follows",
                  (long long)through);
        return error_remedy(err, "see their numbers with: cay audit");
    }
    r = db_audit_trim(m->db, through, err);
    if (r == 0)
        r = remove_segments(through, err);
    if (r < 0)
        return r;
    put_hex(row.chain, hex);
    (void)snprintf(object, sizeof object, "rows up to %lld", (long long)through);
    manager_audit(m, who, "audit.trim", object, "ok", hex);
    return 0;
}
