/* Secrets of sandboxes as rows. */
#include "base/error.h"
#include "base/str.h"
#include "manager/db/internal.h"

int db_secret_set(struct db *db, const char *id, const char *kind, const char *text, bool replace,
                  struct cay_error *err) {
    int changed;
    sqlite3_stmt *q = db_take(db, replace ? DB_SECRET_CHANGE : DB_SECRET_ADD);
    int bound = sqlite3_bind_text(q, 1, id, -1, SQLITE_TRANSIENT);
    if (bound == SQLITE_OK)
        bound = sqlite3_bind_text(q, 2, kind, -1, SQLITE_TRANSIENT);
    if (bound == SQLITE_OK)
        bound = sqlite3_bind_text(q, 3, text, -1, SQLITE_TRANSIENT);
    return db_write_row(db, q, bound, DB_FLUSH, &changed, "recording a secret", err);
}

static int read_row(struct db *db, sqlite3_stmt *q, const char *id, char *text, size_t size,
                    struct cay_error *err) {
    int step = sqlite3_step(q);
    if (step == SQLITE_DONE)
        return error_set(err, CAY_NOT_FOUND, "sandbox %s has no such secret", id);
    if (step != SQLITE_ROW)
        return db_fail(db->sql, err, "reading a secret");
    const char *found = (const char *)sqlite3_column_text(q, 0);
    if (found == NULL || str_copy(text, size, found) < 0)
        return db_fail_damaged(sqlite3_db_filename(db->sql, "main"), "a secret makes no sense",
                               err);
    return 0;
}

int db_secret_get(struct db *db, const char *id, const char *kind, char *text, size_t size,
                  struct cay_error *err) {
    sqlite3_stmt *q = db_take(db, DB_SECRET_GET);
    int bound = sqlite3_bind_text(q, 1, id, -1, SQLITE_TRANSIENT);
    if (bound == SQLITE_OK)
        bound = sqlite3_bind_text(q, 2, kind, -1, SQLITE_TRANSIENT);
    int r = bound == SQLITE_OK ? read_row(db, q, id, text, size, err)
                               : db_fail(db->sql, err, "reading a secret");
    db_give_back(db, q);
    return r;
}
