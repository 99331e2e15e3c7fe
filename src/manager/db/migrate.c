#include <errno.h>

#include "base/error.h"
#include "base/str.h"
#include "manager/db/internal.h"

/* The layouts of the database. The first one that was released is LAYOUT_FIRST; the numbers below
 * it were used before. A step that has been released never changes: what comes later is a further
 * step. The columns of a sandbox need none: db_add_columns() adds what fields.c has.
 *
 * Lists of words are blobs of NUL-terminated strings. AUTOINCREMENT, so that `number` orders by age
 * and the file remembers that it has ever been used. */
enum { LAYOUT_FIRST = 9 };

static const char *const steps[] = {
    /* Of a sandbox only what keys and triggers name; a name is unique for its owner. */
    "CREATE TABLE sandbox ("
    " number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " id TEXT NOT NULL UNIQUE,"
    " owner TEXT NOT NULL,"
    " name TEXT NOT NULL,"
    " state TEXT NOT NULL,"
    " reason TEXT NOT NULL,"
    " updated_ms INTEGER NOT NULL,"
    " UNIQUE (owner, name)"
    ") STRICT;"
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
    " expires_ms INTEGER NOT NULL,"
    " max_volumes INTEGER NOT NULL DEFAULT 0,"
    " max_pids INTEGER NOT NULL DEFAULT 0,"
    " max_commands INTEGER NOT NULL DEFAULT 0,"
    " max_python_runs INTEGER NOT NULL DEFAULT 0,"
    " max_pulls INTEGER NOT NULL DEFAULT 0,"
    " max_builds INTEGER NOT NULL DEFAULT 0,"
    " max_connections INTEGER NOT NULL DEFAULT 0,"
    " max_proxy_connections INTEGER NOT NULL DEFAULT 0,"
    " max_event_viewers INTEGER NOT NULL DEFAULT 0"
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
    " size_bytes INTEGER NOT NULL DEFAULT 0,"
    " is_made INTEGER NOT NULL DEFAULT 1,"
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
    "END;"
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

    /* Organisations are rows of keys without a text. */
    ("ALTER TABLE key ADD COLUMN organization TEXT NOT NULL DEFAULT '';"
     "ALTER TABLE key ADD COLUMN is_organization INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE key ADD COLUMN max_waiting INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE volume ADD COLUMN made_by TEXT NOT NULL DEFAULT '';"),
};
const struct db_steps db_layout = {steps, ARRAY_LEN(steps), LAYOUT_FIRST};

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

static int refuse_layout(const char *path, int version, const struct db_steps *to,
                         struct cay_error *err) {
    if (version < to->first) {
        error_set(err, CAY_UNSUPPORTED,
                  "database '%s' has layout %d, of a version before the first release", path,
                  version);
        return error_remedy(err, "start with a new state folder; the old one can be kept aside");
    }
    error_set(err, CAY_UNSUPPORTED,
              "database '%s' has layout %d, this version of cay knows up to %d", path, version,
              db_layout_last(to));
    return error_remedy(err, "install the version of cay that was used last, or a newer one");
}

int db_migrate(sqlite3 *sql, const char *path, const struct db_steps *to, struct cay_error *err) {
    int version = 0;
    int r = read_version(sql, &version, err);
    if (r < 0)
        return r;
    if (version != 0 && (version < to->first || version > db_layout_last(to)))
        return refuse_layout(path, version, to, err);
    for (int next = version == 0 ? to->first : version + 1; next <= db_layout_last(to); next++) {
        r = take_step(sql, to->steps[next - to->first], next, err);
        if (r < 0)
            return error_prefix(err, "database '%s'", path);
    }
    return 0;
}
