#include <errno.h>

#include "base/error.h"
#include "base/str.h"
#include "manager/db_internal.h"

/* Lists of words are blobs of NUL-terminated strings. AUTOINCREMENT, so that `number` orders by age
 * and the file remembers that it has ever been used. A step that has been released never changes:
 * what comes later is a further step. */
static const char *const steps[] = {
    "CREATE TABLE sandbox ("
    " number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " id TEXT NOT NULL UNIQUE,"
    " name TEXT NOT NULL UNIQUE,"
    " state TEXT NOT NULL,"
    " reason TEXT NOT NULL,"
    " remedy TEXT NOT NULL,"
    " image_name TEXT NOT NULL,"
    " image TEXT NOT NULL,"
    " user TEXT NOT NULL,"
    " work_dir TEXT NOT NULL,"
    " memory_bytes INTEGER NOT NULL,"
    " disk_bytes INTEGER NOT NULL,"
    " cpu_quota_us INTEGER NOT NULL,"
    " pids INTEGER NOT NULL,"
    " tier TEXT NOT NULL,"
    " profile TEXT NOT NULL,"
    " read_only INTEGER NOT NULL,"
    " env BLOB NOT NULL,"
    " labels BLOB NOT NULL,"
    " volumes BLOB NOT NULL,"
    " created_ms INTEGER NOT NULL,"
    " updated_ms INTEGER NOT NULL,"
    " active_ms INTEGER NOT NULL,"
    " auto_stop_minutes INTEGER NOT NULL,"
    " auto_delete_minutes INTEGER NOT NULL"
    ") STRICT;",
};
const struct db_steps db_layout = {steps, ARRAY_LEN(steps)};

static int read_version(sqlite3 *sql, int *ret, struct cay_error *err) {
    sqlite3_stmt *q = NULL;
    int r = sqlite3_prepare_v2(sql, "PRAGMA user_version", -1, &q, NULL);
    if (r == SQLITE_OK)
        r = sqlite3_step(q);
    if (r == SQLITE_ROW)
        *ret = sqlite3_column_int(q, 0);
    int result = r == SQLITE_ROW ? 0 : db_fail(sql, err, "reading the version of the database");
    (void)sqlite3_finalize(q);
    return result;
}

static int take_step(sqlite3 *sql, const char *step, int version, struct cay_error *err) {
    char stamp[64];
    int r = str_format(stamp, sizeof stamp, "PRAGMA user_version = %d; COMMIT", version);
    if (r < 0)
        return error_sys(err, -r, "formatting a version");
    r = db_run(sql, "BEGIN IMMEDIATE", "beginning to change the database's layout", err);
    if (r < 0)
        return r;
    r = db_run(sql, step, "changing the database's layout", err);
    if (r == 0)
        r = db_run(sql, stamp, "changing the database's version", err);
    if (r < 0) /* whatever it says: closing the connection undoes it too */
        (void)sqlite3_exec(sql, "ROLLBACK", NULL, NULL, NULL);
    return r;
}

int db_migrate(sqlite3 *sql, const char *path, const struct db_steps *to, struct cay_error *err) {
    int version = 0;
    int r = read_version(sql, &version, err);
    if (r < 0)
        return r;
    if (version > to->count || version < 0) {
        error_set(err, CAY_UNSUPPORTED,
                  "database '%s' has layout %d, this version of cay knows up to %d", path, version,
                  to->count);
        return error_remedy(err, "install the version of cay that was used last, or a newer one");
    }
    for (; r == 0 && version < to->count; version++)
        r = take_step(sql, to->steps[version], version + 1, err);
    return r < 0 ? error_prefix(err, "database '%s'", path) : 0;
}
