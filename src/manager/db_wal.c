/* Damage of a write-ahead log. SQLite takes the first frame that does not add up for the end of the
 * log, as it is after a crash, and says nothing of committed changes behind it. */
#include "manager/db_wal.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"

enum { HEADER = 32, FRAME = 24, SUMMED = 24, PAGE_MIN = 512, PAGE_MAX = 65536 };
enum { MAGIC = 0x377f0682, WAL_MAX = 64 << 20 };

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

bool db_wal_is_cut(const unsigned char *wal, size_t len) {
    if (len < HEADER + FRAME + PAGE_MIN)
        return false;
    bool is_big = (wal[3] & 1) != 0;
    uint32_t page = big(wal + 8);
    struct sum sum = add((struct sum){0}, is_big, wal, SUMMED);
    if ((big(wal) & ~UINT32_C(1)) != MAGIC || !fits(sum, wal + SUMMED) || page < PAGE_MIN ||
        page > PAGE_MAX || page % 8 != 0)
        return true;
    bool has_ended = false;
    for (size_t at = HEADER; len - at >= FRAME + (size_t)page; at += FRAME + page) {
        const unsigned char *f = wal + at;
        bool is_ours = memcmp(f + 8, wal + 16, 8) == 0; /* else left by the log before this one */
        if (has_ended && is_ours && big(f + 4) != 0)
            return true;
        sum = add(add(sum, is_big, f, 8), is_big, f + FRAME, page);
        has_ended = has_ended || !is_ours || !fits(sum, f + 16);
    }
    return false;
}

static int64_t boot_ms(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_BOOTTIME, &t) < 0)
        return 0;
    return clock_wall_ms() - (int64_t)t.tv_sec * 1000;
}

bool db_wal_has_lost(const char *path) {
    struct stat st;
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > WAL_MAX ||
        (int64_t)st.st_mtim.tv_sec * 1000 < boot_ms())
        return false;
    _cleanup_(buf_free) struct buf text = BUF_INIT(WAL_MAX + 1);
    return fd_read_to_end(fd, &text) == 0 &&
           db_wal_is_cut((const unsigned char *)buf_text(&text), text.len);
}
