/* The formats are those of https://www.sqlite.org/walformat.html. */
#include "manager/db_wal.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

enum { HEADER = 32, FRAME = 24, SUMMED = 24, PAGE_MIN = 512, PAGE_MAX = 65536 };
enum { MAGIC = 0x377f0682, WAL_MAX = 64 << 20 };

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

struct sum {
    uint32_t a, b;
};

static uint32_t big(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t little(const unsigned char *p) {
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/* Over a multiple of 8 bytes; the magic says in which order their words are. */
static struct sum add(struct sum s, bool is_big, const unsigned char *p, size_t len) {
    for (size_t i = 0; i < len; i += 8) {
        s.a += (is_big ? big(p + i) : little(p + i)) + s.b;
        s.b += (is_big ? big(p + i + 4) : little(p + i + 4)) + s.a;
    }
    return s;
}

static bool fits(struct sum s, const unsigned char *stored) {
    return s.a == big(stored) && s.b == big(stored + 4);
}

/* ---- the log ---- */

static bool has_head(const unsigned char *wal, const unsigned char *salt, uint32_t page) {
    struct sum sum = add((struct sum){0}, (wal[3] & 1) != 0, wal, SUMMED);
    return (big(wal) & ~UINT32_C(1)) == MAGIC && fits(sum, wal + SUMMED) && page >= PAGE_MIN &&
           page <= PAGE_MAX && page % 8 == 0 && memcmp(wal + 16, salt, DB_WAL_SALT) == 0;
}

uint32_t db_wal_count(const unsigned char *wal, size_t len, const unsigned char salt[DB_WAL_SALT]) {
    if (len < HEADER)
        return 0;
    bool is_big = (wal[3] & 1) != 0;
    uint32_t page = big(wal + 8), number = 0, count = 0;
    if (!has_head(wal, salt, page))
        return 0;
    struct sum sum = {big(wal + SUMMED), big(wal + SUMMED + 4)};
    for (size_t at = HEADER; len - at >= FRAME + (size_t)page; at += FRAME + page) {
        const unsigned char *f = wal + at;
        sum = add(add(sum, is_big, f, 8), is_big, f + FRAME, page);
        if (memcmp(f + 8, salt, DB_WAL_SALT) != 0 || !fits(sum, f + 16))
            break;
        number++;
        if (big(f + 4) != 0) /* the end of a transaction */
            count = number;
    }
    return count;
}

/* ---- the index ---- */

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

bool db_wal_has_lost(const char *database) {
    char path[PATH_MAX];
    struct db_wal_promise promise;
    if (!find_promise(database, &promise) || promise.committed <= promise.copied ||
        str_format(path, sizeof path, "%s-wal", database) < 0)
        return false;
    _cleanup_(buf_free) struct buf text = BUF_INIT(WAL_MAX + 1);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_size > WAL_MAX || fd_read_to_end(fd, &text) < 0))
        return false; /* it cannot be judged here: SQLite does */
    return db_wal_count((const unsigned char *)buf_text(&text), text.len, promise.salt) <
           promise.committed;
}
