/* The audit's rows. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "manager/db/internal.h"
#include "manager/record/audit.h"

/* ---- the head: what the next row follows ---- */

static int read_head(sqlite3 *sql, const char *text, int64_t *number, unsigned char *chain) {
    sqlite3_stmt *q = NULL;
    int r = sqlite3_prepare_v2(sql, text, -1, &q, NULL);
    if (r == SQLITE_OK)
        r = sqlite3_step(q);
    if (r == SQLITE_ROW) {
        const void *blob = sqlite3_column_blob(q, 1);
        *number = sqlite3_column_int64(q, 0);
        if (chain != NULL && blob != NULL && sqlite3_column_bytes(q, 1) == HASH_SIZE)
            memcpy(chain, blob, HASH_SIZE);
    }
    (void)sqlite3_finalize(q);
    return r == SQLITE_ROW || r == SQLITE_DONE ? 0 : -1;
}

/* Numbers are never used again, also if the last rows are gone: then the gap shows. */
int db_audit_open(struct db *db, struct cay_error *err) {
    int64_t used = 0;
    if (read_head(db->sql, "SELECT number, chain FROM audit_anchor", &db->audit_number,
                  db->audit_chain) < 0 ||
        read_head(db->sql, "SELECT number, chain FROM audit ORDER BY number DESC LIMIT 1",
                  &db->audit_number, db->audit_chain) < 0 ||
        read_head(db->sql, "SELECT seq FROM sqlite_sequence WHERE name = 'audit'", &used, NULL) < 0)
        return db_fail(db->sql, err, "reading the audit");
    db->audit_number = MAX(db->audit_number, used);
    return 0;
}

int64_t db_audit_head(struct db *db, unsigned char chain[static HASH_SIZE]) {
    (void)pthread_mutex_lock(&db->lock);
    int64_t number = db->audit_number;
    memcpy(chain, db->audit_chain, HASH_SIZE);
    (void)pthread_mutex_unlock(&db->lock);
    return number;
}

/* ---- adding ---- */

static int bind_row(sqlite3_stmt *q, const struct audit_row *row) {
    const char *const texts[] = {row->who, row->action, row->object, row->result, row->detail};
    int e = sqlite3_bind_int64(q, 1, row->number);
    if (e == SQLITE_OK)
        e = sqlite3_bind_int64(q, 2, row->time_ms);
    for (size_t i = 0; e == SQLITE_OK && i < ARRAY_LEN(texts); i++)
        e = sqlite3_bind_text(q, 3 + (int)i, texts[i], -1, SQLITE_TRANSIENT);
    return e == SQLITE_OK ? sqlite3_bind_blob(q, 8, row->chain, HASH_SIZE, SQLITE_TRANSIENT) : e;
}

/* The head moves only if the row was written: what follows it must fit what is there. */
int db_audit_add(struct db *db, struct audit_row *row, struct cay_error *err) {
    sqlite3_stmt *q = db_take(db, DB_AUDIT_ADD);
    row->number = db->audit_number + 1;
    audit_chain(db->audit_chain, row, row->chain);
    int r = db_step_row(db, q, bind_row(q, row), "writing the audit", err);
    if (r == 0) {
        db->audit_number = row->number;
        memcpy(db->audit_chain, row->chain, HASH_SIZE);
    }
    db_give_back(db, q);
    return r;
}

/* ---- reading ---- */

/* False if it is not whole: ours are never longer, and have no zero byte. */
static bool read_text(sqlite3_stmt *q, int at, char *out, size_t size) {
    const char *text = (const char *)sqlite3_column_text(q, at);
    (void)snprintf(out, size, "%s", text == NULL ? "" : text);
    return strlen(out) == (size_t)sqlite3_column_bytes(q, at);
}

/* What we cannot have written gets a chain that fits nothing. */
static void read_row(sqlite3_stmt *q, struct audit_row *ret) {
    const void *chain = sqlite3_column_blob(q, 7);
    *ret = (struct audit_row){
        .number = sqlite3_column_int64(q, 0),
        .time_ms = sqlite3_column_int64(q, 1),
    };
    bool whole = read_text(q, 2, ret->who, sizeof ret->who);
    whole &= read_text(q, 3, ret->action, sizeof ret->action);
    whole &= read_text(q, 4, ret->object, sizeof ret->object);
    whole &= read_text(q, 5, ret->result, sizeof ret->result);
    whole &= read_text(q, 6, ret->detail, sizeof ret->detail);
    if (whole && chain != NULL && sqlite3_column_bytes(q, 7) == HASH_SIZE)
        memcpy(ret->chain, chain, HASH_SIZE);
}

static void turn_round(struct audit_row *rows, size_t count) {
    for (size_t i = 0; i < count / 2; i++) {
        struct audit_row row = rows[i];
        rows[i] = rows[count - 1 - i];
        rows[count - 1 - i] = row;
    }
}

int db_audit_page(struct db *db, int64_t since_ms, int64_t after, struct audit_row *rows,
                  size_t max, size_t *ret_count, struct cay_error *err) {
    int step = SQLITE_DONE, r = 0;
    size_t n = 0;
    sqlite3_stmt *q = db_take(db, after < 0 ? DB_AUDIT_LAST : DB_AUDIT_NEXT);
    if (sqlite3_bind_int64(q, 1, since_ms) != SQLITE_OK ||
        sqlite3_bind_int64(q, 2, after) != SQLITE_OK ||
        sqlite3_bind_int64(q, 3, (sqlite3_int64)max) != SQLITE_OK)
        r = db_fail(db->sql, err, "reading the audit");
    while (r == 0 && n < max && (step = sqlite3_step(q)) == SQLITE_ROW)
        read_row(q, &rows[n++]);
    if (r == 0 && step != SQLITE_DONE && step != SQLITE_ROW)
        r = db_fail(db->sql, err, "reading the audit");
    db_give_back(db, q);
    if (after < 0)
        turn_round(rows, n);
    *ret_count = n;
    return r;
}

int db_audit_anchor(struct db *db, int64_t *ret_number, unsigned char ret_chain[static HASH_SIZE],
                    struct cay_error *err) {
    *ret_number = 0;
    memset(ret_chain, 0, HASH_SIZE);
    (void)pthread_mutex_lock(&db->lock);
    int r = read_head(db->sql, "SELECT number, chain FROM audit_anchor", ret_number, ret_chain);
    if (r < 0)
        r = db_fail(db->sql, err, "reading the audit");
    (void)pthread_mutex_unlock(&db->lock);
    return r;
}

/* ---- trimming ---- */

int db_audit_trim(struct db *db, int64_t through, struct cay_error *err) {
    char text[400];
    long long n = through;
    if (str_format(text, sizeof text,
                   "BEGIN IMMEDIATE;"
                   "INSERT INTO audit_anchor SELECT number, chain FROM audit WHERE number = %lld;"
                   "DELETE FROM audit_anchor WHERE number < %lld;"
                   "DELETE FROM audit WHERE number <= %lld;"
                   "COMMIT",
                   n, n, n) < 0)
        return error_set(err, CAY_INTERNAL, "trimming the audit");
    (void)pthread_mutex_lock(&db->lock);
    int r = db_run(db->sql, text, "trimming the audit", err);
    if (r < 0)
        (void)sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
    (void)pthread_mutex_unlock(&db->lock);
    return r;
}
