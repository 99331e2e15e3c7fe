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

    /* A name is unique for its owner now, which SQLite changes by a new table only; the old one's
     * numbers go on. */
    "ALTER TABLE sandbox RENAME TO sandbox_1;"
    "CREATE TABLE sandbox ("
    " number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " id TEXT NOT NULL UNIQUE,"
    " name TEXT NOT NULL,"
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
    " auto_delete_minutes INTEGER NOT NULL,"
    " auto_archive_minutes INTEGER NOT NULL,"
    " owner TEXT NOT NULL,"
    " on_failure TEXT NOT NULL,"
    " pooled INTEGER NOT NULL,"
    " archive_bytes INTEGER NOT NULL,"
    " UNIQUE (owner, name)"
    ") STRICT;"
    "INSERT INTO sandbox SELECT *, 0, '', 'keep', 0, 0 FROM sandbox_1;"
    /* A limit was written down, but nothing enforced it. */
    "UPDATE sandbox SET disk_bytes = 0;"
    "DELETE FROM sqlite_sequence WHERE name = 'sandbox';"
    "UPDATE sqlite_sequence SET name = 'sandbox' WHERE name = 'sandbox_1';"
    "DROP TABLE sandbox_1;"
    /* The key itself is nowhere: 32 bytes of SHA-256. Of the limits 0 is none. */
    "CREATE TABLE key ("
    " id TEXT NOT NULL PRIMARY KEY,"
    " name TEXT NOT NULL UNIQUE,"
    " hash BLOB NOT NULL UNIQUE,"
    " scopes INTEGER NOT NULL,"
    " max_sandboxes INTEGER NOT NULL,"
    " max_memory_bytes INTEGER NOT NULL,"
    " max_disk_bytes INTEGER NOT NULL,"
    " max_cpu_quota_us INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL,"
    " expires_ms INTEGER NOT NULL"
    ") STRICT;"
    /* Each row's chain is the SHA-256 of the one before and of its own columns. */
    "CREATE TABLE audit ("
    " number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " time_ms INTEGER NOT NULL,"
    " who TEXT NOT NULL,"
    " action TEXT NOT NULL,"
    " object TEXT NOT NULL,"
    " result TEXT NOT NULL,"
    " detail TEXT NOT NULL,"
    " chain BLOB NOT NULL"
    ") STRICT;"
    /* What the first row of the audit follows, if rows before it were trimmed. */
    "CREATE TABLE audit_anchor (number INTEGER PRIMARY KEY, chain BLOB NOT NULL) STRICT;"
    "CREATE TABLE volume ("
    " id TEXT NOT NULL PRIMARY KEY,"
    " owner TEXT NOT NULL,"
    " name TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL,"
    " UNIQUE (owner, name)"
    ") STRICT;"
    /* What became of each sandbox, the last 200 of it. By triggers, so that whoever writes a state
     * writes its event with it, and whoever removes a sandbox leaves none. */
    "CREATE TABLE event ("
    " number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " sandbox TEXT NOT NULL,"
    " time_ms INTEGER NOT NULL,"
    " state TEXT NOT NULL,"
    " text TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX event_of ON event (sandbox, number);"
    "CREATE TRIGGER event_new AFTER INSERT ON sandbox BEGIN"
    " INSERT INTO event (sandbox, time_ms, state, text)"
    "  VALUES (NEW.id, NEW.updated_ms, NEW.state, NEW.reason);"
    "END;"
    "CREATE TRIGGER event_change AFTER UPDATE ON sandbox"
    " WHEN OLD.state <> NEW.state OR OLD.reason <> NEW.reason BEGIN"
    " INSERT INTO event (sandbox, time_ms, state, text)"
    "  VALUES (NEW.id, NEW.updated_ms, NEW.state, NEW.reason);"
    "END;"
    "CREATE TRIGGER event_gone AFTER DELETE ON sandbox BEGIN"
    " DELETE FROM event WHERE sandbox = OLD.id;"
    "END;"
    "CREATE TRIGGER event_old AFTER INSERT ON event BEGIN"
    " DELETE FROM event WHERE sandbox = NEW.sandbox AND number <="
    "  (SELECT number FROM event WHERE sandbox = NEW.sandbox"
    "   ORDER BY number DESC LIMIT 1 OFFSET 200);"
    "END;",

    /* What signs URLs of a sandbox, one of each kind. It is kept as it is, since both sides of a
     * signature need it. */
    "CREATE TABLE secret ("
    " sandbox TEXT NOT NULL,"
    " kind TEXT NOT NULL,"
    " text TEXT NOT NULL,"
    " PRIMARY KEY (sandbox, kind)"
    ") STRICT;"
    "CREATE TRIGGER secret_gone AFTER DELETE ON sandbox BEGIN"
    " DELETE FROM secret WHERE sandbox = OLD.id;"
    "END;",

    ("ALTER TABLE sandbox ADD COLUMN is_public INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE sandbox ADD COLUMN destroy_ms INTEGER NOT NULL DEFAULT 0;"),

    ("ALTER TABLE sandbox ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE sandbox ADD COLUMN failed_ms INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE sandbox ADD COLUMN recover_ms INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE key ADD COLUMN max_volumes INTEGER NOT NULL DEFAULT 0;"),

    "ALTER TABLE sandbox ADD COLUMN network TEXT NOT NULL DEFAULT 'none';",

    /* What makes it; '' where nobody wrote it down: there was one engine for all then. */
    "ALTER TABLE sandbox ADD COLUMN engine TEXT NOT NULL DEFAULT '';",

    /* The rest of a key's budget. */
    ("ALTER TABLE key ADD COLUMN max_pids INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE key ADD COLUMN max_commands INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE key ADD COLUMN max_python_runs INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE key ADD COLUMN max_pulls INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE key ADD COLUMN max_builds INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE key ADD COLUMN max_connections INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE key ADD COLUMN max_proxy_connections INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE key ADD COLUMN max_event_viewers INTEGER NOT NULL DEFAULT 0;"),

    /* The volumes that there were are folders without a limit. */
    ("ALTER TABLE volume ADD COLUMN size_bytes INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE volume ADD COLUMN is_made INTEGER NOT NULL DEFAULT 1;"),

    /* Organisations are rows of keys without a text. */
    ("ALTER TABLE key ADD COLUMN organization TEXT NOT NULL DEFAULT '';"
     "ALTER TABLE key ADD COLUMN is_organization INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE key ADD COLUMN max_waiting INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE sandbox ADD COLUMN made_by TEXT NOT NULL DEFAULT '';"
     "ALTER TABLE volume ADD COLUMN made_by TEXT NOT NULL DEFAULT '';"),
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
