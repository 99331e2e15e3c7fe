#include "manager/db/db.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "manager/db/internal.h"
#include "manager/db/wal.h"

enum { BUSY_MS = 5000 };

/* Those of sandboxes are made by db/row.c. */
static const char *const query_texts[DB_QUERIES] = {
    [DB_REMOVE] = "DELETE FROM sandbox WHERE id = ?1",
    [DB_KEY_ADD] = "INSERT INTO key (" DB_KEY_COLUMNS ") VALUES"
                   " (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,"
                   " ?17, ?18, ?19, ?20, ?21, ?22)",
    [DB_KEY_REMOVE] = "DELETE FROM key WHERE id = ?1",
    [DB_KEY_LIST] = "SELECT " DB_KEY_COLUMNS " FROM key ORDER BY created_ms, name",
    [DB_VOLUME_ADD] = "INSERT INTO volume (" DB_VOLUME_COLUMNS ") VALUES"
                      " (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [DB_VOLUME_UPDATE] = "UPDATE volume SET size_bytes = ?2, is_made = ?3 WHERE id = ?1",
    [DB_VOLUME_REMOVE] = "DELETE FROM volume WHERE id = ?1",
    [DB_VOLUME_LIST] = "SELECT " DB_VOLUME_COLUMNS " FROM volume ORDER BY created_ms, id",
    [DB_EVENT_ADD] = "INSERT INTO event (sandbox, time_ms, state, text)"
                     " SELECT id, ?2, state, ?3 FROM sandbox WHERE id = ?1",
    [DB_EVENT_LIST] = "SELECT number, time_ms, state, text FROM event"
                      " WHERE sandbox = ?1 AND number > ?2 ORDER BY number",
    [DB_SECRET_ADD] = "INSERT OR IGNORE INTO secret (sandbox, kind, text)"
                      " SELECT id, ?2, ?3 FROM sandbox WHERE id = ?1",
    [DB_SECRET_CHANGE] = "INSERT OR REPLACE INTO secret (sandbox, kind, text)"
                         " SELECT id, ?2, ?3 FROM sandbox WHERE id = ?1",
    [DB_SECRET_GET] = "SELECT text FROM secret WHERE sandbox = ?1 AND kind = ?2",
    [DB_AUDIT_ADD] = "INSERT INTO audit (" DB_AUDIT_COLUMNS ") VALUES"
                     " (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [DB_AUDIT_NEXT] = "SELECT " DB_AUDIT_COLUMNS " FROM audit WHERE time_ms >= ?1 AND number > ?2"
                      " ORDER BY number LIMIT ?3",
    [DB_AUDIT_LAST] = "SELECT " DB_AUDIT_COLUMNS " FROM audit WHERE time_ms >= ?1 AND number > ?2"
                      " ORDER BY number DESC LIMIT ?3",
};

/* ---- failures ---- */

int db_fail_damaged(const char *path, const char *found, struct cay_error *err) {
    error_set(err, CAY_INTERNAL, "database '%s' is damaged (%s)", path, found);
    if (err != NULL)
        err->sys = EUCLEAN; /* how db_open_or_salvage knows it */
    return error_remedy(err, "restart the daemon: it keeps the file aside, saves what can be read, "
                             "and serves that without changes; or restore a backup");
}

/* The errno of the last failure, or 0. A commit that fails leaves it with the file that it wrote
 * to: the log. */
static int last_errno(sqlite3 *sql) {
    int sys = sqlite3_system_errno(sql);
    sqlite3_file *log = NULL;
    if (sys == 0 &&
        sqlite3_file_control(sql, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK &&
        log != NULL && log->pMethods != NULL)
        (void)log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &sys);
    return sys;
}

static int no_access(sqlite3 *sql, const char *doing, const char *text, struct cay_error *err) {
    int sys = last_errno(sql);
    return sys != 0 ? error_storage(err, sys, "%s: %s", doing, text)
                    : error_set(err, CAY_INTERNAL, "%s: %s", doing, text);
}

int db_fail(sqlite3 *sql, struct cay_error *err, const char *doing) {
    const char *text = sqlite3_errmsg(sql);
    switch (sqlite3_errcode(sql)) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return db_fail_damaged(sqlite3_db_filename(sql, "main"), text, err);
    case SQLITE_FULL:
    case SQLITE_TOOBIG:
    case SQLITE_NOMEM:
        return error_storage(err, ENOSPC, "%s: %s", doing, text);
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return no_access(sql, doing, text, err);
    case SQLITE_CONSTRAINT:
        return error_set(err, CAY_CONFLICT, "%s: %s", doing, text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        error_set(err, CAY_UNAVAILABLE, "%s: %s", doing, text);
        return error_remedy(err, "end the other program that uses the database");
    case SQLITE_READONLY:
        return error_storage(err, EROFS, "%s: %s", doing, text);
    default:
        return error_set(err, CAY_INTERNAL, "%s: %s", doing, text);
    }
}

int db_run(sqlite3 *sql, const char *text, const char *doing, struct cay_error *err) {
    return sqlite3_exec(sql, text, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_fail(sql, err, doing);
}

/* ---- opening ---- */

static int check_whole(sqlite3 *sql, const char *path, struct cay_error *err) {
    char found[200] = "";
    sqlite3_stmt *q = NULL;
    int r = sqlite3_prepare_v2(sql, "PRAGMA quick_check(1)", -1, &q, NULL);
    if (r == SQLITE_OK)
        r = sqlite3_step(q);
    if (r == SQLITE_ROW)
        (void)str_escape(found, sizeof found, (const char *)sqlite3_column_text(q, 0));
    int result = 0;
    if (r != SQLITE_ROW)
        result = db_fail(sql, err, "checking the database");
    else if (!str_equal(found, "ok"))
        result = db_fail_damaged(path, found, err);
    (void)sqlite3_finalize(q);
    return result;
}

static int prepare_query(struct db *db, enum db_query which, struct cay_error *err) {
    _cleanup_(buf_free) struct buf made = BUF_INIT(4096);
    const char *text = query_texts[which];
    if (text == NULL) {
        db_row_query(which, &made);
        text = buf_text(&made);
    }
    return sqlite3_prepare_v3(db->sql, text, -1, SQLITE_PREPARE_PERSISTENT, &db->queries[which],
                              NULL) == SQLITE_OK
               ? 0
               : db_fail(db->sql, err, "preparing the database");
}

static int prepare(struct db *db, struct cay_error *err) {
    int r = db_run(db->sql,
                   /* what has to be on the disk at once is brought there by db/flush.c */
                   "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                   "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;"
                   /* in KiB; else the audit, which is hardly read, fills 2 MB */
                   "PRAGMA cache_size = -512",
                   "setting up the database", err);
    const char *path = sqlite3_db_filename(db->sql, "main"); /* absolute */
    if (r == 0)
        r = check_whole(db->sql, path, err);
    if (r == 0)
        r = db_migrate(db->sql, path, &db_layout, err);
    if (r == 0)
        r = db_add_columns(db->sql, err);
    for (enum db_query i = 0; r == 0 && i < DB_QUERIES; i++)
        r = prepare_query(db, i, err);
    if (r == 0)
        r = db_audit_open(db, err);
    return r < 0 ? r : db_flush_open(db, path, err);
}

/* SQLite makes files with the umask's mode; what is in there is the owner's business alone. */
static int make_file(const char *path, struct cay_error *err) {
    _cleanup_(closep) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "opening database '%s'", path);
    return 0;
}

static void db_closep(struct db **db) {
    db_close(*db);
}

int db_open(const char *path, struct db **ret, struct cay_error *err) {
    _cleanup_(db_closep) struct db *db = calloc(1, sizeof *db);
    if (db == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    pthread_mutexattr_t attr;
    (void)pthread_mutexattr_init(&attr);
    (void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&db->lock, &attr);
    (void)pthread_mutexattr_destroy(&attr);
    db_flush_init(db);
    int r = make_file(path, err);
    if (r < 0)
        return r;
    enum { FLAGS = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW };
    if (sqlite3_open_v2(path, &db->sql, FLAGS, NULL) != SQLITE_OK)
        return db->sql == NULL ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory")
                               : db_fail(db->sql, err, "opening the database");
    (void)sqlite3_busy_timeout(db->sql, BUSY_MS);
    r = prepare(db, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(db);
    return 0;
}

static int check_log(const char *path, struct cay_error *err) {
    if (!db_wal_has_lost(path))
        return 0;
    return db_fail_damaged(path, "changes in its log cannot be read", err);
}

int db_open_or_salvage(const char *path, const char *folder, const char *mark, struct db **ret,
                       struct cay_error *err) {
    int r = check_log(path, err);
    if (r == 0)
        r = db_open(path, ret, err);
    if (r == 0 || err->sys != EUCLEAN)
        return r;
    struct cay_error found = *err;
    r = db_salvage(path, folder, mark, found.message, err);
    return r < 0 ? error_prefix(err, "saving what can be read of a damaged database")
                 : db_open(path, ret, err);
}

void db_release(struct db *db) {
    (void)pthread_mutex_lock(&db->lock);
    for (int i = 0; i < DB_QUERIES; i++)
        (void)sqlite3_finalize(TAKE_PTR(db->queries[i]));
    (void)sqlite3_close(TAKE_PTR(db->sql));
    (void)pthread_mutex_unlock(&db->lock);
}

void db_close(struct db *db) {
    if (db == NULL)
        return;
    db_release(db);
    db_flush_close(db);
    (void)pthread_mutex_destroy(&db->lock);
    free(db);
}

/* ---- rows ---- */

sqlite3_stmt *db_take(struct db *db, enum db_query which) {
    (void)pthread_mutex_lock(&db->lock);
    return db->queries[which];
}

void db_give_back(struct db *db, sqlite3_stmt *q) {
    (void)sqlite3_reset(q);
    (void)sqlite3_clear_bindings(q);
    (void)pthread_mutex_unlock(&db->lock);
}

int db_step_row(struct db *db, sqlite3_stmt *q, int bound, const char *doing,
                struct cay_error *err) {
    if (bound == SQLITE_TOOBIG)
        return error_set(err, CAY_INVALID_ARGUMENT, "%s: too much environment or too many labels",
                         doing);
    bool done = bound == SQLITE_OK && sqlite3_step(q) == SQLITE_DONE;
    if (done && !db->is_open)
        db_flush_owe(db);
    db->has_failed = !done && sqlite3_errcode(db->sql) != SQLITE_CONSTRAINT;
    return done ? 0 : db_fail(db->sql, err, doing);
}

int db_begin(struct db *db) {
    (void)pthread_mutex_lock(&db->lock);
    if (sqlite3_exec(db->sql, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK) {
        (void)pthread_mutex_unlock(&db->lock);
        return -1;
    }
    db->is_open = true;
    db->audit_number_before = db->audit_number;
    memcpy(db->audit_chain_before, db->audit_chain, HASH_SIZE);
    return 0;
}

int db_commit(struct db *db) {
    if (sqlite3_exec(db->sql, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        return -1;
    db->is_open = false;
    db_flush_owe(db);
    return 0;
}

void db_end(struct db *db) {
    if (db->is_open) {
        db->is_open = false;
        (void)sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL); /* or SQLite has done so */
        db->audit_number = db->audit_number_before;
        memcpy(db->audit_chain, db->audit_chain_before, HASH_SIZE);
    }
    (void)pthread_mutex_unlock(&db->lock);
}

/* With the lock held. */
static int try_writing(struct db *db, struct cay_error *err) {
    char text[64];
    (void)snprintf(text, sizeof text, "PRAGMA user_version = %d", db_layout_last(&db_layout));
    int r = db_run(db->sql, text, "writing to the database", err);
    db->has_failed = r < 0;
    return r;
}

int db_check(struct db *db, struct cay_error *err) {
    int moved = 0, r = 0;
    (void)pthread_mutex_lock(&db->lock);
    if (sqlite3_file_control(db->sql, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK &&
        moved != 0) {
        error_set(err, CAY_INTERNAL, "the file of the database is not there any more");
        r = error_remedy(err, "restart the daemon with the file, or a backup of it, in its place");
    }
    if (r == 0)
        r = db_run(db->sql, "SELECT id FROM sandbox LIMIT 1", "reading the database", err);
    if (r == 0 && db->has_failed)
        r = try_writing(db, err);
    (void)pthread_mutex_unlock(&db->lock);
    return r;
}

int db_write_row(struct db *db, sqlite3_stmt *q, int bound, enum db_flush flush, int *ret_changed,
                 const char *doing, struct cay_error *err) {
    int r = db_step_row(db, q, bound, doing, err);
    if (r == 0)
        *ret_changed = sqlite3_changes(db->sql);
    bool flushes = r == 0 && flush == DB_FLUSH && !db->is_open;
    db_give_back(db, q);
    return flushes ? db_flush(db, err) : r;
}

int db_add(struct db *db, const struct sandbox_record *r, enum db_flush flush,
           struct cay_error *err) {
    int changed = 0;
    sqlite3_stmt *q = db_take(db, DB_ADD);
    int e =
        db_write_row(db, q, db_bind_record(q, r), flush, &changed, "recording a new sandbox", err);
    if (e == -CAY_CONFLICT) {
        error_set(err, CAY_CONFLICT, "a sandbox with the name '%s' exists", r->name);
        return error_remedy(err, "choose another name");
    }
    return e;
}

int db_update(struct db *db, const struct sandbox_record *r, enum db_flush flush,
              struct cay_error *err) {
    int changed = 0;
    sqlite3_stmt *q = db_take(db, DB_UPDATE);
    int e = db_write_row(db, q, db_bind_record(q, r), flush, &changed, "recording a change", err);
    if (e == 0 && changed == 0)
        return error_set(err, CAY_NOT_FOUND, "sandbox %s is not in the database", r->id);
    if (e == -CAY_CONFLICT) {
        error_set(err, CAY_CONFLICT, "a sandbox with the name '%s' exists", r->name);
        return error_remedy(err, "choose another name");
    }
    return e;
}

int db_remove(struct db *db, const char *id, enum db_flush flush, struct cay_error *err) {
    int changed = 0;
    sqlite3_stmt *q = db_take(db, DB_REMOVE);
    int bound = sqlite3_bind_text(q, 1, id, -1, SQLITE_TRANSIENT);
    int e = db_write_row(db, q, bound, flush, &changed, "removing a record", err);
    if (e == 0 && changed == 0)
        return error_set(err, CAY_NOT_FOUND, "sandbox %s is not in the database", id);
    return e;
}

struct list {
    struct sandbox_record *v;
    size_t len, cap;
};

static void list_free(struct list *l) {
    for (size_t i = 0; i < l->len; i++)
        sandbox_record_free(&l->v[i]);
    free(l->v);
}

static int list_add(struct list *l, sqlite3_stmt *q, struct cay_error *err) {
    if (l->len == l->cap) {
        size_t cap = MAX(2 * l->cap, (size_t)16);
        struct sandbox_record *v = reallocarray(l->v, cap, sizeof *v);
        if (v == NULL)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        l->v = v;
        l->cap = cap;
    }
    int r = db_read_record(q, &l->v[l->len], err);
    if (r == 0)
        l->len++;
    return r;
}

int db_list(struct db *db, struct sandbox_record **ret, size_t *ret_count, struct cay_error *err) {
    struct list l = {0};
    sqlite3_stmt *q = db_take(db, DB_LIST);
    int step, r = 0;
    while (r == 0 && (step = sqlite3_step(q)) != SQLITE_DONE)
        r = step == SQLITE_ROW ? list_add(&l, q, err)
                               : db_fail(db->sql, err, "reading the sandboxes");
    db_give_back(db, q);
    if (r < 0) {
        list_free(&l);
        return r;
    }
    *ret = l.v;
    *ret_count = l.len;
    return 0;
}

bool db_is_unused(struct db *db) {
    (void)pthread_mutex_lock(&db->lock);
    sqlite3_stmt *q = NULL;
    bool used = sqlite3_prepare_v2(db->sql, "SELECT 1 FROM sqlite_sequence WHERE name = 'sandbox'",
                                   -1, &q, NULL) == SQLITE_OK &&
                sqlite3_step(q) == SQLITE_ROW;
    (void)sqlite3_finalize(q);
    (void)pthread_mutex_unlock(&db->lock);
    return !used;
}
