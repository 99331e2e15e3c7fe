#include "engine/disk/share.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/disk/image.h"

enum {
    PATH_SIZE = 96,
    NAME_SIZE = ID_SIZE + sizeof DISK_IMAGE + 1,
    BLOCK = 4096,
    WRITING_BYTES = 256 * 1024, /* less is what a file system writes by itself */
    USUAL_PART = 50,            /* what ext4 reserves when it is mounted: 2 %, */
    USUAL_MAX = 4096,           /* but no more */
    STEP_BLOCKS = 64,           /* a smaller change is not worth a write */
};

/* ---- what the kernel shows ---- */

static bool read_number(const char *device, const char *name, uint64_t *ret) {
    char path[PATH_SIZE], text[32];
    if (str_format(path, sizeof path, "/sys/fs/ext4/%s/%s", device, name) < 0 ||
        fd_read_file_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    return str_to_u64(text, UINT64_MAX, ret) == 0;
}

/* The id of whose disk a path is: FOLDER/ID/disk. */
static bool id_of(const char *path, const char *folder, char id[static ID_SIZE]) {
    size_t len = strlen(folder);
    if (strncmp(path, folder, len) != 0 || path[len] != '/')
        return false;
    path += len + 1;
    if (strlen(path) != ID_LEN + sizeof "/" DISK_IMAGE - 1 ||
        !str_equal(path + ID_LEN, "/" DISK_IMAGE))
        return false;
    memcpy(id, path, ID_LEN);
    id[ID_LEN] = '\0';
    return id_is_valid(id);
}

static bool look_at(const char *device, const char *folder, struct disk_share *ret) {
    char path[PATH_SIZE], file[PATH_MAX];
    *ret = (struct disk_share){0};
    if (!str_starts(device, "loop") || str_copy(ret->device, sizeof ret->device, device) < 0 ||
        str_format(path, sizeof path, "/sys/block/%s/loop/backing_file", device) < 0 ||
        fd_read_file_at(AT_FDCWD, path, file, sizeof file) <= 0)
        return false;
    if (!id_of(file, folder, ret->id))
        return false;
    if (!read_number(device, "errors_count", &ret->errors))
        ret->errors = 0; /* it is not mounted, or just not any more */
    return true;
}

/* Grows when the count is a power of two. */
static int add(struct disk_share **all, size_t *count, const struct disk_share *d) {
    if ((*count & (*count - 1)) == 0) {
        struct disk_share *v = reallocarray(*all, MAX(*count * 2, (size_t)1), sizeof *v);
        if (v == NULL)
            return -ENOMEM;
        *all = v;
    }
    (*all)[(*count)++] = *d;
    return 0;
}

int disk_share_list(int folder, struct disk_share **all, size_t *count) {
    char link[32], path[PATH_MAX];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t n = readlink(link, path, sizeof path - 1);
    /* Not /sys/block: the kernel keeps every loop device that there ever was. */
    _cleanup_(closedirp) DIR *d = opendir("/sys/fs/ext4");
    if (d == NULL && errno == ENOENT)
        return 0; /* nothing was ever mounted */
    if (n < 0 || d == NULL)
        return -errno;
    path[n] = '\0';
    const struct dirent *e;
    struct disk_share one;
    while ((e = readdir(d)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own stream */
        if (!look_at(e->d_name, path, &one))
            continue;
        one.folder = folder;
        if (add(all, count, &one) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* ---- one disk ---- */

/* The mount that there is, shared: without one that the sandbox can move or hide. */
static int open_root(const struct disk_share *d) {
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "/dev/%s", d->device);
    _cleanup_(closep) int loop = open(path, O_RDWR | O_CLOEXEC);
    return loop < 0 ? -errno : disk_image_mount(loop);
}

/* Blocks that files have inside may be without one of the host: data that waits in memory, and what
 * fallocate() has set aside. */
static uint64_t promised(const struct statfs *fs, const struct stat *file, uint64_t waiting) {
    uint64_t block = (uint64_t)fs->f_bsize, taken = (uint64_t)file->st_blocks * 512;
    uint64_t used = (uint64_t)(fs->f_blocks - MIN(fs->f_bfree, fs->f_blocks)) * block;
    return MAX(used > taken ? used - taken : 0, waiting * block);
}

static uint64_t usual_blocks(const struct stat *file, uint64_t block) {
    return MIN((uint64_t)file->st_size / block / USUAL_PART, (uint64_t)USUAL_MAX);
}

bool disk_share_measure(struct disk_share *d) {
    char name[NAME_SIZE];
    struct statfs fs;
    struct stat file;
    uint64_t waiting;
    _cleanup_(closep) int root = open_root(d);
    (void)snprintf(name, sizeof name, "%s/" DISK_IMAGE, d->id);
    if (root < 0 || fstatfs(root, &fs) < 0 || fs.f_bsize <= 0 ||
        fstatat(d->folder, name, &file, AT_SYMLINK_NOFOLLOW) < 0 ||
        !read_number(d->device, "reserved_clusters", &d->reserved_blocks) ||
        !read_number(d->device, "delayed_allocation_blocks", &waiting))
        return false;
    d->block_bytes = (uint64_t)fs.f_bsize;
    d->free_blocks = fs.f_bfree;
    d->usual_blocks = usual_blocks(&file, d->block_bytes);
    d->promised_bytes = promised(&fs, &file, waiting);
    d->is_measured = true;
    return true;
}

bool disk_share_is_writing(const struct disk_share *d) {
    return d->is_measured && d->promised_bytes > WRITING_BYTES;
}

void disk_share_divide(struct disk_share *all, size_t count, uint64_t bytes) {
    size_t writing = 0, measured = 0;
    for (size_t i = 0; i < count; i++) {
        measured += all[i].is_measured;
        writing += disk_share_is_writing(&all[i]);
    }
    uint64_t for_all = writing > 0 ? bytes / 2 : bytes;
    for (size_t i = 0; i < count; i++) {
        all[i].share_bytes = measured > 0 ? for_all / measured : 0;
        if (disk_share_is_writing(&all[i]))
            all[i].share_bytes += (bytes - for_all) / writing;
    }
}

static int reserve(const struct disk_share *d, uint64_t blocks) {
    char path[PATH_SIZE], text[32];
    (void)snprintf(path, sizeof path, "/sys/fs/ext4/%s/reserved_clusters", d->device);
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)blocks);
    return fd_write_file_at(AT_FDCWD, path, text);
}

int disk_share_apply(const struct disk_share *d, bool *ret_limited) {
    if (!d->is_measured)
        return -ENODATA;
    uint64_t share = d->share_bytes / d->block_bytes;
    uint64_t blocks = MAX(d->free_blocks > share ? d->free_blocks - share : 0, d->usual_blocks);
    uint64_t change =
        blocks > d->reserved_blocks ? blocks - d->reserved_blocks : d->reserved_blocks - blocks;
    *ret_limited = blocks > d->usual_blocks;
    return change < STEP_BLOCKS && *ret_limited ? 0 : reserve(d, blocks);
}

void disk_share_lift(const struct disk_share *d) {
    char name[NAME_SIZE];
    struct stat file;
    uint64_t reserved;
    (void)snprintf(name, sizeof name, "%s/" DISK_IMAGE, d->id);
    if (fstatat(d->folder, name, &file, AT_SYMLINK_NOFOLLOW) < 0 ||
        !read_number(d->device, "reserved_clusters", &reserved))
        return;
    uint64_t usual = usual_blocks(&file, BLOCK);
    if (reserved > usual)
        (void)reserve(d, usual); /* the next round tries again */
}

int disk_share_flush(const struct disk_share *d) {
    _cleanup_(closep) int root = open_root(d);
    if (root < 0)
        return root;
    _cleanup_(closep) int top = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return top < 0 || syncfs(top) < 0 ? -errno : 0;
}
