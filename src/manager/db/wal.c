/* The format of the index is that of https://www.sqlite.org/walformat.html. */
#include "manager/db/wal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/str.h"

/* Of the index, which has its head twice: whoever reads it while it is written sees two that
 * differ. Numbers are in the order of this machine. */
enum {
    INDEX_VERSION = 3007000,
    INDEX_HEAD = 48,
    INDEX_READY = 12,
    INDEX_FRAMES = 16,
    INDEX_SALT = 32,
    INDEX_COPIED = 96,
};

static uint32_t native(const unsigned char *p) {
    uint32_t number;
    memcpy(&number, p, sizeof number);
    return number;
}

/* Heads that differ were being written when the writer died: what the newer one says had not been
 * promised yet. */
bool db_wal_read_promise(const unsigned char *index, size_t len, struct db_wal_promise *ret) {
    const unsigned char *other = index + INDEX_HEAD;
    if (len < DB_WAL_INDEX_SIZE || native(index) != INDEX_VERSION ||
        native(other) != INDEX_VERSION || index[INDEX_READY] == 0 ||
        memcmp(index + INDEX_SALT, other + INDEX_SALT, DB_WAL_SALT) != 0)
        return false;
    uint32_t first = native(index + INDEX_FRAMES), second = native(other + INDEX_FRAMES);
    ret->committed = MIN(first, second);
    ret->copied = native(index + INDEX_COPIED);
    memcpy(ret->salt, index + INDEX_SALT, DB_WAL_SALT);
    return true;
}

static int64_t boot_ms(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_BOOTTIME, &t) < 0)
        return 0;
    return clock_wall_ms() - (int64_t)t.tv_sec * 1000;
}

static bool find_promise(const char *database, struct db_wal_promise *ret) {
    char path[PATH_MAX];
    unsigned char index[DB_WAL_INDEX_SIZE];
    struct stat st;
    if (str_format(path, sizeof path, "%s-shm", database) < 0)
        return false;
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && fstat(fd, &st) == 0 && (int64_t)st.st_mtim.tv_sec * 1000 >= boot_ms() &&
           pread(fd, index, sizeof index, 0) == (ssize_t)sizeof index &&
           db_wal_read_promise(index, sizeof index, ret);
}

/* Has SQLite read the log, under other names so that the index stays as it is; a connection that
 * only reads, and does not tidy up when it is closed, writes to neither file. False if there was no
 * room for another index, which says nothing about the log. */
static bool read_log(const char *database) {
    sqlite3 *sql = NULL;
    int r = sqlite3_open_v2(database, &sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (r == SQLITE_OK) {
        (void)sqlite3_db_config(sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        (void)sqlite3_exec(sql, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
        r = sqlite3_extended_errcode(sql);
    }
    (void)sqlite3_close(sql);
    return r != SQLITE_FULL && r != SQLITE_IOERR_SHMOPEN && r != SQLITE_IOERR_SHMSIZE &&
           r != SQLITE_IOERR_SHMMAP;
}

static void remove_look(const char *look) {
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char path[PATH_MAX];
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++)
        if (str_format(path, sizeof path, "%s%s", look, suffixes[i]) == 0)
            (void)unlink(path); /* not there is fine */
}

bool db_wal_has_lost(const char *database) {
    char look[PATH_MAX], log[PATH_MAX], look_log[PATH_MAX];
    struct db_wal_promise promise, kept;
    if (!find_promise(database, &promise) || promise.committed <= promise.copied ||
        str_format(look, sizeof look, "%s.look", database) < 0 ||
        str_format(log, sizeof log, "%s-wal", database) < 0 ||
        str_format(look_log, sizeof look_log, "%s-wal", look) < 0)
        return false;
    remove_look(look); /* of a process that was killed */
    if (link(database, look) < 0 || (link(log, look_log) < 0 && errno != ENOENT)) {
        remove_look(look);
        return false; /* it cannot be judged here: SQLite drops what is damaged */
    }
    bool is_read = read_log(look);
    bool is_whole = !is_read || (find_promise(look, &kept) &&
                                 memcmp(kept.salt, promise.salt, DB_WAL_SALT) == 0 &&
                                 kept.committed >= promise.committed);
    remove_look(look);
    return !is_whole;
}
