/* Bringing changes to the disk: many share one wait for it. SQLite appends each change to its log
 * without waiting (synchronous = NORMAL); whoever needs it on the disk waits here until the log's
 * file is written through. The first who comes does that; others who come meanwhile wait for the
 * next time, which is then for all of them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "manager/db/internal.h"

void db_flush_init(struct db *db) {
    db->flusher.log = -1;
    (void)pthread_mutex_init(&db->flusher.lock, NULL);
    (void)pthread_cond_init(&db->flusher.moved, NULL);
}

int db_flush_open(struct db *db, const char *path, struct cay_error *err) {
    char log[PATH_MAX];
    if (str_format(log, sizeof log, "%s-wal", path) < 0)
        return error_sys(err, ENAMETOOLONG, "opening the log of database '%s'", path);
    db->flusher.log = open(log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return db->flusher.log < 0 ? error_errno(err, "opening the database's log '%s'", log) : 0;
}

void db_flush_close(struct db *db) {
    fd_close(&db->flusher.log);
    (void)pthread_cond_destroy(&db->flusher.moved);
    (void)pthread_mutex_destroy(&db->flusher.lock);
}

void db_flush_owe(struct db *db) {
    (void)atomic_fetch_add(&db->flusher.written, 1);
}

/* After a failure the kernel may take pages for written that are not: the log on the disk may have
 * a hole, behind which nothing counts. A checkpoint moves everything into the database. */
static int checkpoint(struct db *db, struct cay_error *err) {
    (void)pthread_mutex_lock(&db->lock);
    int r = sqlite3_wal_checkpoint_v2(db->sql, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) ==
                    SQLITE_OK
                ? 0
                : db_fail(db->sql, err, "writing the database to the disk");
    db->has_failed = r < 0;
    (void)pthread_mutex_unlock(&db->lock);
    return r;
}

/* Without the flusher's lock. */
static int write_through(struct db *db, bool *suspect, struct cay_error *err) {
    if (!*suspect && fdatasync(db->flusher.log) == 0)
        return 0;
    int r = checkpoint(db, err);
    *suspect = r < 0;
    return r;
}

/* With the flusher's lock, which is released while the disk works. */
static int flush_once(struct db *db, struct cay_error *err) {
    struct db_flusher *f = &db->flusher;
    bool suspect = f->is_suspect;
    f->is_under_way = true;
    (void)pthread_mutex_unlock(&f->lock);
    uint64_t written = atomic_load(&f->written); /* all of these are in the file */
    int r = write_through(db, &suspect, err);
    (void)pthread_mutex_lock(&f->lock);
    f->is_under_way = false;
    f->is_suspect = suspect;
    if (r == 0)
        f->flushed = written;
    (void)pthread_cond_broadcast(&f->moved);
    return r;
}

int db_flush(struct db *db, struct cay_error *err) {
    struct db_flusher *f = &db->flusher;
    uint64_t wanted = atomic_load(&f->written);
    int r = 0;
    (void)pthread_mutex_lock(&f->lock);
    while (r == 0 && f->flushed < wanted) {
        if (f->is_under_way)
            (void)pthread_cond_wait(&f->moved, &f->lock);
        else
            r = flush_once(db, err);
    }
    (void)pthread_mutex_unlock(&f->lock);
    return r;
}
