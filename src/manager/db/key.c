/* Keys as rows. */
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "manager/db/internal.h"
#include "manager/record/key.h"

static int bind_key(sqlite3_stmt *q, const struct key *k) {
    const sqlite3_int64 numbers[] = {k->scopes,
                                     k->max_sandboxes,
                                     (sqlite3_int64)k->max_memory_bytes,
                                     (sqlite3_int64)k->max_disk_bytes,
                                     (sqlite3_int64)k->max_cpu_quota_us,
                                     k->created_ms,
                                     k->expires_ms,
                                     k->max_volumes,
                                     (sqlite3_int64)k->max_pids,
                                     (sqlite3_int64)k->max_commands,
                                     (sqlite3_int64)k->max_python_runs,
                                     (sqlite3_int64)k->max_pulls,
                                     (sqlite3_int64)k->max_builds,
                                     (sqlite3_int64)k->max_connections,
                                     (sqlite3_int64)k->max_proxy_connections,
                                     (sqlite3_int64)k->max_event_viewers,
                                     (sqlite3_int64)k->max_waiting};
    const int after = 4 + (int)ARRAY_LEN(numbers);
    int e = sqlite3_bind_text(q, 1, k->id, -1, SQLITE_TRANSIENT);
    if (e == SQLITE_OK)
        e = sqlite3_bind_text(q, 2, k->name, -1, SQLITE_TRANSIENT);
    if (e == SQLITE_OK)
        e = sqlite3_bind_blob(q, 3, k->hash, HASH_SIZE, SQLITE_TRANSIENT);
    for (size_t i = 0; e == SQLITE_OK && i < ARRAY_LEN(numbers); i++)
        e = sqlite3_bind_int64(q, 4 + (int)i, numbers[i]);
    if (e == SQLITE_OK)
        e = sqlite3_bind_text(q, after, k->organization, -1, SQLITE_TRANSIENT);
    return e == SQLITE_OK ? sqlite3_bind_int(q, after + 1, k->is_organization) : e;
}

int db_key_add(struct db *db, const struct key *k, struct cay_error *err) {
    int changed;
    sqlite3_stmt *q = db_take(db, DB_KEY_ADD);
    return db_write_row(db, q, bind_key(q, k), DB_FLUSH, &changed, "recording a key", err);
}

int db_key_remove(struct db *db, const char *id, struct cay_error *err) {
    int changed;
    sqlite3_stmt *q = db_take(db, DB_KEY_REMOVE);
    int bound = sqlite3_bind_text(q, 1, id, -1, SQLITE_TRANSIENT);
    return db_write_row(db, q, bound, DB_FLUSH, &changed, "removing a key", err);
}

bool db_read_key(sqlite3_stmt *q, struct key *ret) {
    const char *id = (const char *)sqlite3_column_text(q, 0);
    const char *name = (const char *)sqlite3_column_text(q, 1);
    const void *hash = sqlite3_column_blob(q, 2);
    if (id == NULL || name == NULL || hash == NULL || sqlite3_column_bytes(q, 2) != HASH_SIZE ||
        str_copy(ret->id, sizeof ret->id, id) < 0 || id[0] == '\0' ||
        str_copy(ret->name, sizeof ret->name, name) < 0)
        return false;
    memcpy(ret->hash, hash, HASH_SIZE);
    ret->scopes = (unsigned)sqlite3_column_int(q, 3);
    ret->max_sandboxes = sqlite3_column_int64(q, 4);
    ret->max_memory_bytes = (uint64_t)sqlite3_column_int64(q, 5);
    ret->max_disk_bytes = (uint64_t)sqlite3_column_int64(q, 6);
    ret->max_cpu_quota_us = (uint64_t)sqlite3_column_int64(q, 7);
    ret->created_ms = sqlite3_column_int64(q, 8);
    ret->expires_ms = sqlite3_column_int64(q, 9);
    ret->max_volumes = sqlite3_column_int64(q, 10);
    uint64_t *const later[] = {&ret->max_pids,
                               &ret->max_commands,
                               &ret->max_python_runs,
                               &ret->max_pulls,
                               &ret->max_builds,
                               &ret->max_connections,
                               &ret->max_proxy_connections,
                               &ret->max_event_viewers,
                               &ret->max_waiting};
    for (size_t i = 0; i < ARRAY_LEN(later); i++)
        *later[i] = (uint64_t)sqlite3_column_int64(q, 11 + (int)i);
    const int after = 11 + (int)ARRAY_LEN(later);
    const char *organization = (const char *)sqlite3_column_text(q, after);
    ret->is_organization = sqlite3_column_int(q, after + 1) != 0;
    return organization != NULL &&
           str_copy(ret->organization, sizeof ret->organization, organization) == 0;
}

int db_key_list(struct db *db, db_key_visit visit, void *user, struct cay_error *err) {
    sqlite3_stmt *q = db_take(db, DB_KEY_LIST);
    int step, r = 0;
    while (r == 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
        struct key k = {0};
        if (step != SQLITE_ROW)
            r = db_fail(db->sql, err, "reading the keys");
        else if (!db_read_key(q, &k))
            r = db_fail_damaged(sqlite3_db_filename(db->sql, "main"), "a key makes no sense", err);
        else
            r = visit(user, &k, err);
    }
    db_give_back(db, q);
    return r;
}
