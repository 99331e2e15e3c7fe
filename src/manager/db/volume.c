/* Named volumes as rows. */
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "manager/db/internal.h"
#include "manager/record/volume.h"

int db_volume_add(struct db *db, const struct volume *v, struct cay_error *err) {
    int changed;
    sqlite3_stmt *q = db_take(db, DB_VOLUME_ADD);
    int e = sqlite3_bind_text(q, 1, v->id, -1, SQLITE_TRANSIENT);
    if (e == SQLITE_OK)
        e = sqlite3_bind_text(q, 2, v->owner, -1, SQLITE_TRANSIENT);
    if (e == SQLITE_OK)
        e = sqlite3_bind_text(q, 3, v->name, -1, SQLITE_TRANSIENT);
    if (e == SQLITE_OK)
        e = sqlite3_bind_int64(q, 4, v->created_ms);
    if (e == SQLITE_OK)
        e = sqlite3_bind_int64(q, 5, (sqlite3_int64)v->size_bytes);
    if (e == SQLITE_OK)
        e = sqlite3_bind_int(q, 6, v->is_made);
    if (e == SQLITE_OK)
        e = sqlite3_bind_text(q, 7, v->made_by, -1, SQLITE_TRANSIENT);
    return db_write_row(db, q, e, DB_FLUSH, &changed, "recording a volume", err);
}

int db_volume_update(struct db *db, const struct volume *v, struct cay_error *err) {
    int changed;
    sqlite3_stmt *q = db_take(db, DB_VOLUME_UPDATE);
    int e = sqlite3_bind_text(q, 1, v->id, -1, SQLITE_TRANSIENT);
    if (e == SQLITE_OK)
        e = sqlite3_bind_int64(q, 2, (sqlite3_int64)v->size_bytes);
    if (e == SQLITE_OK)
        e = sqlite3_bind_int(q, 3, v->is_made);
    return db_write_row(db, q, e, DB_FLUSH, &changed, "recording the size of a volume", err);
}

int db_volume_remove(struct db *db, const char *id, struct cay_error *err) {
    int changed;
    sqlite3_stmt *q = db_take(db, DB_VOLUME_REMOVE);
    int bound = sqlite3_bind_text(q, 1, id, -1, SQLITE_TRANSIENT);
    return db_write_row(db, q, bound, DB_FLUSH, &changed, "removing a volume", err);
}

bool db_read_volume(sqlite3_stmt *q, struct volume *ret) {
    const char *id = (const char *)sqlite3_column_text(q, 0);
    const char *owner = (const char *)sqlite3_column_text(q, 1);
    const char *name = (const char *)sqlite3_column_text(q, 2);
    const char *made_by = (const char *)sqlite3_column_text(q, 6);
    sqlite3_int64 size = sqlite3_column_int64(q, 4);
    ret->created_ms = sqlite3_column_int64(q, 3);
    ret->size_bytes = (uint64_t)size;
    ret->is_made = sqlite3_column_int(q, 5) != 0;
    return id != NULL && owner != NULL && name != NULL && id_is_valid(id) && size >= 0 &&
           str_copy(ret->id, sizeof ret->id, id) == 0 &&
           str_copy(ret->owner, sizeof ret->owner, owner) == 0 &&
           str_copy(ret->name, sizeof ret->name, name) == 0 && made_by != NULL &&
           str_copy(ret->made_by, sizeof ret->made_by, made_by) == 0;
}

int db_volume_list(struct db *db, db_volume_visit visit, void *user, struct cay_error *err) {
    sqlite3_stmt *q = db_take(db, DB_VOLUME_LIST);
    int step, r = 0;
    while (r == 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
        struct volume v = {0};
        if (step != SQLITE_ROW)
            r = db_fail(db->sql, err, "reading the volumes");
        else if (!db_read_volume(q, &v))
            r = db_fail_damaged(sqlite3_db_filename(db->sql, "main"), "a volume makes no sense",
                                err);
        else
            r = visit(user, &v, err);
    }
    db_give_back(db, q);
    return r;
}
