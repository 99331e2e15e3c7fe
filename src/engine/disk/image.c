#include "engine/disk/image.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "confine/mounts.h"
#include "confine/syscalls.h"
#include "engine/disk/loop.h"
#include "engine/disk/parts.h"
#include "engine/disk/tool.h"
#include "engine/spec.h"

#define TEMPLATE  ".template-"
#define IMAGE_NEW ".disk-new"
/* Those that every kernel of ours knows. */
static const char features[] =
    "none,has_journal,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,"
    "large_file,huge_file,dir_nlink,extra_isize,metadata_csum";

enum {
    TEMPLATES_MAX = 16,
    NAME_SIZE = 96,
    BLOCK = 4096,
    INODE = 256,
    JOURNAL_MIB = 4, /* the least there is */
    MIB = 1024 * 1024,
    ROUND = 64 * 1024,
    GROUP_BLOCKS = 8 * BLOCK,
    SUPERBLOCK = 1024,
};

/* ---- sizes ---- */

/* What ext4 keeps back, so that it can always write down what it owes: 2 % of all. */
static uint64_t kept_back(uint64_t rest) {
    return MIN(rest / 49, UINT64_C(16) * MIB);
}

/* Inode tables, journal, and for each group its bitmaps, its descriptor and some room for the
 * copies of these. */
uint64_t disk_image_size(uint64_t bytes) {
    uint64_t size = bytes + spec_inodes(bytes) * INODE + JOURNAL_MIB * MIB;
    uint64_t groups = size / (GROUP_BLOCKS * (uint64_t)BLOCK) + 1;
    size += groups * (2 * BLOCK + 12 * 64 + INODE * 16) + ROUND;
    size += kept_back(size);
    return (size + ROUND - 1) / ROUND * ROUND;
}

bool disk_image_is_damaged(int file) {
    enum { STATE = SUPERBLOCK + 0x3a, ERRORS = SUPERBLOCK + 0x194, HAS_ERRORS = 2 };
    uint16_t state;
    uint32_t errors;
    return pread(file, &state, sizeof state, STATE) == sizeof state &&
           pread(file, &errors, sizeof errors, ERRORS) == sizeof errors &&
           ((le16toh(state) & HAS_ERRORS) != 0 || errors != 0);
}

/* The count of blocks lies in two halves in the superblock. */
uint64_t disk_image_capacity(int file) {
    enum { LOW = SUPERBLOCK + 0x4, HIGH = SUPERBLOCK + 0x150 };
    uint32_t low, high;
    if (pread(file, &low, sizeof low, LOW) != sizeof low ||
        pread(file, &high, sizeof high, HIGH) != sizeof high)
        return 0;
    return ((uint64_t)le32toh(high) << 32 | le32toh(low)) * BLOCK;
}

/* ---- mke2fs ---- */

int disk_image_probe(struct cay_error *err) {
    return disk_tool_find("mke2fs", err);
}

static int make_file_system(int file, uint64_t inodes, struct cay_error *err) {
    char count[24];
    (void)snprintf(count, sizeof count, "%llu", (unsigned long long)inodes);
    const char *const words[] = {
        "-q", "-F",     "-b", "4096", /* bytes of a block */
        "-I", "256",                  /* of an inode */
        "-N", count,    "-m", "0",    /* nothing for root alone */
        "-J", "size=4", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
        "-O", features, NULL,
    };
    return disk_tool_run("mke2fs", words, file, err);
}

/* ---- mounting ---- */

/* Inode tables are not zeroed in the background, which would fill the file; what is deleted inside
 * is given back to the host. */
int disk_image_mount(int loop) {
    char source[32];
    (void)snprintf(source, sizeof source, "/proc/self/fd/%d", loop);
    const char *options[] = {"source", source,    "errors", "remount-ro", "noinit_itable",
                             NULL,     "discard", NULL,     NULL};
    return mounts_simple("ext4", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

/* ---- templates ---- */

static int fill(int file, uid_t owner, struct cay_error *err) {
    _cleanup_(closep) int loop = loop_attach(file, err);
    if (loop < 0)
        return loop;
    _cleanup_(closep) int root = disk_image_mount(loop);
    int r = root < 0 ? root : disk_parts_make(root, owner);
    if (r == 0)
        return 0;
    error_sys(err, -r, "mounting a new file system");
    return error_remedy(err, "the kernel needs ext4 (modprobe ext4)");
}

static int build(int file, uint64_t bytes, uid_t owner, struct cay_error *err) {
    if (ftruncate(file, (off_t)disk_image_size(bytes)) < 0)
        return error_errno(err, "making the file of a disk");
    int r = make_file_system(file, spec_inodes(bytes), err);
    if (r == 0)
        r = fill(file, owner, err);
    if (r == 0 && fsync(file) < 0)
        r = error_errno(err, "writing the file of a disk");
    return r;
}

struct tidying {
    const char *spared;
    unsigned count;
};

static int count_template(void *arg, int folder, const char *name) {
    struct tidying *t = arg;
    (void)folder;
    t->count += str_starts(name, TEMPLATE);
    return 0;
}

static int remove_template(void *arg, int folder, const char *name) {
    const struct tidying *t = arg;
    if (str_starts(name, TEMPLATE) && strcmp(name, t->spared) != 0)
        (void)unlinkat(folder, name, 0); /* the next one tries again */
    return 0;
}

/* Users choose sizes, and every size leaves one. */
static void tidy(int above, const char *spared) {
    struct tidying t = {.spared = spared};
    _cleanup_(closep) int folder = openat(above, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0 && path_each(folder, count_template, &t) == 0 && t.count > TEMPLATES_MAX)
        (void)path_each(folder, remove_template, &t);
}

/* It has no name until it is finished; one that another has made meanwhile is as good. */
static int make_template(int above, const char *name, uint64_t bytes, uid_t owner,
                         struct cay_error *err) {
    char link[32];
    _cleanup_(closep) int file = openat(above, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0) {
        error_errno(err, "making the file of a disk");
        return error_remedy(err, "put the state folder on ext4, xfs or btrfs");
    }
    int r = build(file, bytes, owner, err);
    if (r < 0)
        return r;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (linkat(AT_FDCWD, link, above, name, AT_SYMLINK_FOLLOW) < 0 && errno != EEXIST)
        return error_errno(err, "naming the file of a disk");
    tidy(above, name);
    int made = openat(above, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return made < 0 ? error_errno(err, "opening the file of a disk") : made;
}

static int open_template(int folder, uint64_t bytes, uid_t owner, struct cay_error *err) {
    char name[NAME_SIZE];
    _cleanup_(closep) int above = openat(folder, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0)
        return error_errno(err, "opening the folder of sandboxes");
    (void)snprintf(name, sizeof name, TEMPLATE "1-%llu-%u", (unsigned long long)bytes, owner);
    int file = openat(above, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file >= 0 || errno != ENOENT)
        return file >= 0 ? file : error_errno(err, "opening the file of a disk");
    return make_template(above, name, bytes, owner, err);
}

/* ---- copying ---- */

static int copy_range(int from, int to, off_t at, off_t end) {
    char data[65536];
    while (at < end) {
        ssize_t n = pread(from, data, MIN((size_t)(end - at), sizeof data), at);
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        ssize_t written = pwrite(to, data, (size_t)n, at);
        if (written != n)
            return written < 0 ? -errno : -ENOSPC;
        at += n;
    }
    return 0;
}

/* Holes stay holes. */
static int copy_sparse(int from, int to) {
    struct stat st;
    if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
        return -errno;
    off_t at = 0;
    for (;;) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0)
            return errno == ENXIO ? 0 : -errno;
        off_t hole = lseek(from, data, SEEK_HOLE);
        int r = hole < 0 ? -errno : copy_range(from, to, data, hole);
        if (r < 0)
            return r;
        at = hole;
    }
}

/* It need not be flushed: mounting does, before anything is promised. */
int disk_image_make(int folder, uint64_t bytes, uid_t owner, struct cay_error *err) {
    _cleanup_(closep) int from = open_template(folder, bytes, owner, err);
    if (from < 0)
        return from;
    _cleanup_(closep) int to =
        openat(folder, IMAGE_NEW, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = to < 0 ? -errno : copy_sparse(from, to);
    if (r == 0 && renameat(folder, IMAGE_NEW, folder, DISK_IMAGE) < 0)
        r = -errno;
    if (r == 0)
        return 0;
    (void)unlinkat(folder, IMAGE_NEW, 0); /* its folder goes anyway */
    return error_storage(err, -r, "making the file of a disk");
}
