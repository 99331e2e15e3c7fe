#include "engine/native/rootfs/shift.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "confine/mounts.h"
#include "confine/syscalls.h"
#include "image/store.h"

enum {
    SHIFT_BYTES = 64 * 1024 * 1024, /* folders and links; the content of files stays below */
    SHIFT_INODES = 4 * 1000 * 1000,
    DEPTH_MAX = 300, /* deeper than what is unpacked */
    LIST_SIZE = 16 * 1024,
};

int shift_make(void) {
    _cleanup_(closep) int fd =
        mounts_tmpfs(SHIFT_BYTES, SHIFT_INODES, "0755", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (fd < 0)
        return fd;
    if (mkdirat(fd, "u", 0755) < 0 || mkdirat(fd, "w", 0700) < 0)
        return -errno;
    return TAKE_FD(fd);
}

/* An id of the store becomes one of the sandbox; any other is left, and is nobody inside. */
static uint32_t shifted(uint32_t id, uid_t base) {
    return id - IMAGE_IDS_FIRST < IMAGE_IDS_COUNT ? id - IMAGE_IDS_FIRST + base : (uint32_t)-1;
}

static int shift_entry(int dir, const char *name, const struct stat *st, uid_t base) {
    if (fchownat(dir, name, shifted(st->st_uid, base), shifted(st->st_gid, base),
                 AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
        return -errno;
    /* Changing the owner took the set-id bits away; what asks for them should see them. */
    if (S_ISREG(st->st_mode) && (st->st_mode & 06000) != 0 &&
        fchmodat(dir, name, st->st_mode & 07777, 0) < 0)
        return -errno;
    return 0;
}

/* A walk without recursion or memory: the open folders are the stack, and each one's own file
 * offset says where to go on. */
struct walk {
    int dirs[DEPTH_MAX];
    unsigned depth;
    char list[LIST_SIZE] __attribute__((aligned(8)));
};

struct kernel_dirent {
    uint64_t ino;
    int64_t off;
    unsigned short len;
    unsigned char type;
    char name[];
};

static int enter(struct walk *w, int dir, const char *name) {
    if (w->depth == DEPTH_MAX)
        return -ELOOP;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    w->dirs[w->depth++] = fd;
    return 0;
}

static bool is_dot(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Changes one entry. 1 if it is a folder, which is the next to walk. */
static int visit(struct walk *w, const struct kernel_dirent *e, uid_t base) {
    int dir = w->dirs[w->depth - 1];
    struct stat st;
    if (is_dot(e->name))
        return 0;
    if (fstatat(dir, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    int r = shift_entry(dir, e->name, &st, base);
    if (r < 0 || !S_ISDIR(st.st_mode))
        return r;
    /* What was listed behind it is listed again, later. */
    if (lseek(dir, e->off, SEEK_SET) < 0)
        return -errno;
    r = enter(w, dir, e->name);
    return r < 0 ? r : 1;
}

/* Reads on in the innermost folder, until its end or until there is a folder in it. */
static int step(struct walk *w, uid_t base) {
    long n = syscall(SYS_getdents64, w->dirs[w->depth - 1], w->list, sizeof w->list);
    if (n < 0)
        return -errno;
    if (n == 0)
        (void)close(w->dirs[--w->depth]);
    for (long at = 0; at < n;) {
        const struct kernel_dirent *e = (const struct kernel_dirent *)(w->list + at);
        int r = visit(w, e, base);
        if (r != 0)
            return MIN(r, 0);
        at += e->len;
    }
    return 0;
}

int shift_owners(int root, uid_t base) {
    struct walk w = {.depth = 0};
    struct stat st;
    if (fstat(root, &st) < 0)
        return -errno;
    int r = enter(&w, root, ".");
    if (r == 0)
        r = shift_entry(w.dirs[0], "", &st, base);
    while (r == 0 && w.depth > 0)
        r = step(&w, base);
    while (w.depth > 0)
        (void)close(w.dirs[--w.depth]);
    return r;
}
