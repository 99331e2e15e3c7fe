/* The manager's memory: SQLite, write-ahead log, one writer. A change survives the death of this
 * process when the function returns. The one place that knows SQLite. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "manager/record/hash.h"
#include "manager/record/record.h"

struct audit_row;
struct cay_error;
struct db;
struct key;
struct volume;

/* Opens or makes the file at path, bringing an older layout up to date in one transaction. A newer
 * layout, or a damaged file, is refused with what to do. Any thread may use it. */
int db_open(const char *path, struct db **ret, struct cay_error *err);
/* The same; but what can be read of a damaged file is put into a new one, and the file, with its
 * log, is kept in `folder`. Then `mark` is a file that says in words what was found and saved; it
 * is there before the new database is. err is not NULL. */
int db_open_or_salvage(const char *path, const char *folder, const char *mark, struct db **ret,
                       struct cay_error *err);
/* Closes the file; whatever needs it fails from then on. */
void db_release(struct db *db);
void db_close(struct db *db);

/* Whether it can be used: its file is there, can be read, and, if the last change failed, can be
 * written to again. */
int db_check(struct db *db, struct cay_error *err);

/* When a change survives the death of the machine too: when the function returns, for what somebody
 * is promised next; or with the next one that does, which saves the wait for the disk. */
enum db_flush { DB_FLUSH, DB_FLUSH_LATER };

/* Waits until everything that this thread has written is on the disk. Whoever waits at the same
 * time shares one write to the disk. If it fails, what was written may be lost with the machine. */
int db_flush(struct db *db, struct cay_error *err);

/* A transaction: what this thread writes between db_begin() and db_commit() is written as a whole,
 * by the time db_commit() returns; on the disk it is after a db_flush() behind db_end(). db_end()
 * takes back what was not, and lets others in again; it follows every db_begin() that did not fail.
 */
int db_begin(struct db *db);
int db_commit(struct db *db);
void db_end(struct db *db);

/* -CAY_CONFLICT if the name or id is taken. */
int db_add(struct db *db, const struct sandbox_record *r, enum db_flush flush,
           struct cay_error *err);
/* All columns of the row with this id; -CAY_NOT_FOUND if it is gone. */
int db_update(struct db *db, const struct sandbox_record *r, enum db_flush flush,
              struct cay_error *err);
int db_remove(struct db *db, const char *id, enum db_flush flush, struct cay_error *err);
/* Every sandbox, oldest first; the caller releases each and the array. */
int db_list(struct db *db, struct sandbox_record **ret, size_t *ret_count, struct cay_error *err);

/* True if no sandbox was ever recorded: a new file, perhaps in place of one that was lost. */
bool db_is_unused(struct db *db);

/* Keys. They are on the disk when the function returns. -CAY_CONFLICT if the name is taken. */
int db_key_add(struct db *db, const struct key *k, struct cay_error *err);
int db_key_remove(struct db *db, const char *id, struct cay_error *err);
/* Every key, oldest first; ends with the first negative result, which is returned. */
typedef int (*db_key_visit)(void *user, const struct key *k, struct cay_error *err);
int db_key_list(struct db *db, db_key_visit visit, void *user, struct cay_error *err);

/* Named volumes, as keys. */
int db_volume_add(struct db *db, const struct volume *v, struct cay_error *err);
/* Its size, and that it is made. */
int db_volume_update(struct db *db, const struct volume *v, struct cay_error *err);
int db_volume_remove(struct db *db, const char *id, struct cay_error *err);
typedef int (*db_volume_visit)(void *user, const struct volume *v, struct cay_error *err);
int db_volume_list(struct db *db, db_volume_visit visit, void *user, struct cay_error *err);

/* What became of a sandbox: every state with its reason is recorded with the row, and these notes
 * between them. The last 200 of each sandbox are kept. */
struct db_event {
    int64_t number; /* ever growing */
    int64_t time_ms;
    const char *state, *text;
};
int db_event_add(struct db *db, const char *id, int64_t time_ms, const char *text,
                 struct cay_error *err);
/* Those of a sandbox behind the number `after`, oldest first; texts are valid during the call. */
typedef int (*db_event_visit)(void *user, const struct db_event *e, struct cay_error *err);
int db_event_list(struct db *db, const char *id, int64_t after, db_event_visit visit, void *user,
                  struct cay_error *err);

/* Secrets of sandboxes, which go with them. db_secret_set leaves one that is there as it is, unless
 * it is to be replaced; db_secret_get is -CAY_NOT_FOUND if there is none. */
int db_secret_set(struct db *db, const char *id, const char *kind, const char *text, bool replace,
                  struct cay_error *err);
int db_secret_get(struct db *db, const char *id, const char *kind, char *text, size_t size,
                  struct cay_error *err);

/* The audit. Fills in the number and the chain of a row, and adds it. */
int db_audit_add(struct db *db, struct audit_row *row, struct cay_error *err);
/* Rows since a time, oldest first: those behind the row `after`, or the last if it is negative. */
int db_audit_page(struct db *db, int64_t since_ms, int64_t after, struct audit_row *rows,
                  size_t max, size_t *ret_count, struct cay_error *err);
/* The last number that was given, and its chain. */
int64_t db_audit_head(struct db *db, unsigned char chain[static HASH_SIZE]);
/* What the first row follows: number 0 and zeros if nothing was trimmed. */
int db_audit_anchor(struct db *db, int64_t *ret_number, unsigned char ret_chain[static HASH_SIZE],
                    struct cay_error *err);
/* Removes rows up to this one, which becomes the anchor. */
int db_audit_trim(struct db *db, int64_t through, struct cay_error *err);
