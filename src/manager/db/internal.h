/* What the files of the database share. Only they know SQLite. */
#pragma once

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/buf.h"
#include "manager/db/db.h"
#include "manager/record/hash.h"

enum db_query {
    DB_ADD,
    DB_UPDATE,
    DB_REMOVE,
    DB_LIST,
    DB_KEY_ADD,
    DB_KEY_REMOVE,
    DB_KEY_LIST,
    DB_VOLUME_ADD,
    DB_VOLUME_UPDATE,
    DB_VOLUME_REMOVE,
    DB_VOLUME_LIST,
    DB_EVENT_ADD,
    DB_EVENT_LIST,
    DB_SECRET_ADD,
    DB_SECRET_CHANGE,
    DB_SECRET_GET,
    DB_AUDIT_ADD,
    DB_AUDIT_NEXT,
    DB_AUDIT_LAST,
    DB_QUERIES
};

/* What db/flush.c keeps. */
struct db_flusher {
    pthread_mutex_t lock; /* of what follows but the first; never held while waiting for the disk */
    pthread_cond_t moved;
    _Atomic uint64_t written; /* changes so far that are in the log, */
    uint64_t flushed;         /* and how many of them are on the disk */
    bool is_under_way;
    bool is_suspect; /* the disk refused some of the log: only a checkpoint makes that good */
    int log;         /* the log's file */
};

struct db {
    pthread_mutex_t lock; /* of the statements: one use at a time; recursive */
    sqlite3 *sql;
    sqlite3_stmt *queries[DB_QUERIES];
    bool has_failed;      /* the last change, by no fault of what was to be written */
    int64_t audit_number; /* of the audit's last row, */
    unsigned char audit_chain[HASH_SIZE];
    bool is_open; /* a transaction of db_begin(), before which the audit's end was: */
    int64_t audit_number_before;
    unsigned char audit_chain_before[HASH_SIZE];
    struct db_flusher flusher;
};

/* Fills err from the connection's last failure: its class, its text and what to do. */
int db_fail(sqlite3 *sql, struct cay_error *err, const char *doing);
/* The same for a file that is damaged, which err->sys says: EUCLEAN. */
int db_fail_damaged(const char *path, const char *found, struct cay_error *err);
/* Runs statements that answer nothing. */
int db_run(sqlite3 *sql, const char *text, const char *doing, struct cay_error *err);

/* A prepared statement, with the lock; db_give_back releases both. */
sqlite3_stmt *db_take(struct db *db, enum db_query which);
void db_give_back(struct db *db, sqlite3_stmt *q);
/* Runs what is bound (with the result `bound`). */
int db_step_row(struct db *db, sqlite3_stmt *q, int bound, const char *doing,
                struct cay_error *err);
/* The same, and gives it back; *ret_changed is how many rows there were. */
int db_write_row(struct db *db, sqlite3_stmt *q, int bound, enum db_flush flush, int *ret_changed,
                 const char *doing, struct cay_error *err);

/* ---- db/flush.c ---- */
void db_flush_init(struct db *db);
/* Once the log exists. */
int db_flush_open(struct db *db, const char *path, struct cay_error *err);
void db_flush_close(struct db *db);
/* A change was written to the log, and is not on the disk yet. With the lock held. */
void db_flush_owe(struct db *db);

/* The layouts: steps[0] makes layout `first` of an empty file, each further one the next number;
 * each in its own transaction. */
struct db_steps {
    const char *const *steps;
    int count;
    int first;
};
static inline int db_layout_last(const struct db_steps *s) {
    return s->first + s->count - 1;
}
extern const struct db_steps db_layout;
int db_migrate(sqlite3 *sql, const char *path, const struct db_steps *to, struct cay_error *err);

/* ---- db/row.c ---- */
/* The columns of a sandbox, in the order in which the next ones bind and read them. */
void db_row_columns(struct buf *b);
/* The text of DB_ADD, DB_UPDATE or DB_LIST. */
void db_row_query(enum db_query which, struct buf *ret);
/* Adds the columns of a sandbox that the file does not have. */
int db_add_columns(sqlite3 *sql, struct cay_error *err);
int db_bind_record(sqlite3_stmt *q, const struct sandbox_record *r);
int db_read_record(sqlite3_stmt *q, struct sandbox_record *ret, struct cay_error *err);

/* The columns of a key. */
#define DB_KEY_COLUMNS                                                                             \
    "id, name, hash, scopes, max_sandboxes, max_memory_bytes, max_disk_bytes, "                    \
    "max_cpu_quota_us, created_ms, expires_ms, max_volumes, max_pids, max_commands, "              \
    "max_python_runs, max_pulls, max_builds, max_connections, max_proxy_connections, "             \
    "max_event_viewers, max_waiting, organization, is_organization"

/* False if the row makes no sense. */
bool db_read_key(sqlite3_stmt *q, struct key *ret);

#define DB_VOLUME_COLUMNS "id, owner, name, created_ms, size_bytes, is_made, made_by"
bool db_read_volume(sqlite3_stmt *q, struct volume *ret);

/* Puts what can be read of the database into a new one in its place, and its files into folder;
 * says so in the file `mark`, with what was found. */
int db_salvage(const char *path, const char *folder, const char *mark, const char *found,
               struct cay_error *err);

/* Finds the end of the audit. */
int db_audit_open(struct db *db, struct cay_error *err);
#define DB_AUDIT_COLUMNS "number, time_ms, who, action, object, result, detail, chain"
