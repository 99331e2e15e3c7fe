#include "engine/disk/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/disk/image.h"
#include "engine/disk/loop.h"
#include "engine/disk/parts.h"
#include "engine/disk/tool.h"
#include "engine/privileged.h"
#include "image/store.h"

/* No header has it; linux/ext4.h came with 6.0 only. */
#define RESIZE_FS _IOW('f', 16, uint64_t)

enum { BUSY_MS = 2000, BLOCK = 4096 };

int disk_probe(struct cay_error *err) {
    if (!engine_is_privileged()) {
        error_set(err, CAY_UNSUPPORTED, "an ordinary user has no loop devices");
        return error_remedy(err, "run the daemon as root, or use a file system with quotas");
    }
    int r = loop_probe(err);
    return r < 0 ? r : disk_image_probe(err);
}

enum disk_kind disk_look(int folder) {
    struct stat st;
    if (fstatat(folder, DISK_IMAGE, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return DISK_BOUNDED;
    return disk_parts_exist(folder) ? DISK_PLAIN : DISK_NONE;
}

/* ---- making and removing ---- */

static int make_plain(int folder, uid_t owner, struct cay_error *err) {
    int r = disk_parts_make(folder, owner);
    if (r == 0)
        return 0;
    (void)disk_parts_remove(folder); /* what is left is used again */
    return error_storage(err, -r, "making the disk of a sandbox");
}

int disk_make(int folder, uint64_t bytes, uid_t owner, struct cay_error *err) {
    if (bytes == 0)
        return make_plain(folder, owner, err);
    int r = disk_probe(err);
    if (r == 0)
        r = disk_image_make(folder, bytes, owner, err);
    return r < 0 ? error_prefix(err, "a disk limit cannot be had") : 0;
}

int disk_remove(int folder, struct cay_error *err) {
    int r = unlinkat(folder, DISK_IMAGE, 0) < 0 && errno != ENOENT ? -errno : 0;
    if (r == 0)
        r = disk_parts_remove(folder);
    return r < 0 ? error_sys(err, -r, "removing the disk of a sandbox") : 0;
}

/* ---- opening ---- */

static int open_image(int folder) {
    int file = openat(folder, DISK_IMAGE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    return file < 0 ? -errno : file;
}

static void name_folder(int folder, char path[static PATH_MAX]) {
    char link[32];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[MAX(n, (ssize_t)0)] = '\0';
}

static int fail_to_mount(int folder, int sys, struct cay_error *err) {
    char path[PATH_MAX];
    name_folder(folder, path);
    if (sys == ENODEV) {
        error_set(err, CAY_UNSUPPORTED, "the kernel knows no ext4");
        return error_remedy(err, "modprobe ext4");
    }
    bool is_damaged = sys == EINVAL || sys == EUCLEAN || sys == EBADMSG;
    (void)error_sys(err, is_damaged ? EUCLEAN : sys, "the disk of a sandbox cannot be mounted");
    if (err != NULL && is_damaged)
        err->code = CAY_INTERNAL; /* not for what was asked for */
    return error_remedy(err, "if it is damaged, repair it: e2fsck -f %s/" DISK_IMAGE, path);
}

/* A mount that is just going is waited for. */
static int mount_image(int folder, int loop, struct cay_error *err) {
    for (struct clock_patience patience = clock_patience_of(BUSY_MS);;) {
        int root = disk_image_mount(loop);
        if (root >= 0)
            return root;
        if (root != -EBUSY || clock_patience_ends(&patience))
            return fail_to_mount(folder, -root, err);
        (void)nanosleep(&(struct timespec){.tv_nsec = 2 * 1000 * 1000}, NULL);
    }
}

static int check_image(int file, struct cay_error *err) {
    struct stat st;
    if (fstat(file, &st) == 0 && S_ISREG(st.st_mode))
        return 0;
    error_set(err, CAY_CONFLICT, "the disk of a sandbox is no file");
    return error_remedy(err, "remove the sandbox");
}

int disk_open(int folder, struct cay_error *err) {
    _cleanup_(closep) int file = open_image(folder);
    if (file == -ENOENT) {
        int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? error_errno(err, "opening the disk of a sandbox") : fd;
    }
    if (file < 0)
        return error_sys(err, -file, "opening the disk of a sandbox");
    int r = check_image(file, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int loop = loop_attach(file, err);
    return loop < 0 ? loop : mount_image(folder, loop, err);
}

/* ---- repairing ---- */

int disk_check(int folder, struct cay_error *err) {
    _cleanup_(closep) int file = open_image(folder);
    if (file < 0 || !disk_image_is_damaged(file))
        return 0; /* opening tells what else there is */
    (void)error_sys(err, EUCLEAN, "the file system of the sandbox has errors");
    if (err != NULL)
        err->code = CAY_INTERNAL;
    return -CAY_INTERNAL;
}

/* What e2fsck exits with, by bits. */
enum { FSCK_REPAIRED = 1, FSCK_REBOOT = 2 };

static int run_fsck(int file, const char *how, struct cay_error *err) {
    const char *const words[] = {"-f", how, NULL};
    int status = disk_tool_run_confined("e2fsck", words, file, IMAGE_IDS_FIRST, err);
    return status < 0 ? status : status & ~(FSCK_REPAIRED | FSCK_REBOOT);
}

int disk_repair(int folder, bool *ret_thorough, struct cay_error *err) {
    _cleanup_(closep) int file = open_image(folder);
    *ret_thorough = false;
    if (file < 0)
        return error_sys(err, -file, "opening the disk of a sandbox");
    int r = check_image(file, err);
    if (r < 0)
        return r;
    if (flock(file, LOCK_EX | LOCK_NB) < 0) {
        error_set(err, CAY_CONFLICT, "the disk is in use");
        return error_remedy(err, "stop what uses it first");
    }
    r = run_fsck(file, "-p", err);
    *ret_thorough = r > 0;
    if (r > 0)
        r = run_fsck(file, "-y", err);
    if (r == 0 && fsync(file) < 0)
        r = error_errno(err, "writing the file of a disk");
    if (r <= 0)
        return r;
    char path[PATH_MAX];
    name_folder(folder, path);
    error_set(err, CAY_INTERNAL, "the file system of the sandbox cannot be repaired (e2fsck: %d)",
              r);
    return error_remedy(
        err, "restore its backup, remove it, or try by hand: e2fsck -f %s/" DISK_IMAGE, path);
}

/* ---- growing ---- */

/* True if there is something to do. A file may be larger than its file system, if growing failed
 * before. */
static bool must_grow(int file, uint64_t size, struct cay_error *err, int *ret) {
    struct stat st;
    uint64_t now = disk_image_capacity(file);
    *ret = 0;
    if (now == size)
        return false;
    if (now > size) {
        error_set(err, CAY_CONFLICT, "a disk cannot become smaller");
        *ret = error_remedy(err, "ask for more than it has, or create another sandbox");
    } else if (fstat(file, &st) < 0 ||
               ((uint64_t)st.st_size < size && ftruncate(file, (off_t)size) < 0)) {
        *ret = error_errno(err, "making the file of a disk larger");
    }
    return *ret == 0;
}

/* The file system fills its device. */
static int grow_mounted(int loop, int root, uint64_t size) {
    uint64_t blocks = size / BLOCK;
    int r = loop_grow(loop);
    if (r < 0)
        return r;
    _cleanup_(closep) int top = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return top < 0 || ioctl(top, RESIZE_FS, &blocks) < 0 ? -errno : 0;
}

static int grow_by_kernel(int folder, int file, uint64_t size, struct cay_error *err) {
    _cleanup_(closep) int loop = loop_attach(file, err);
    _cleanup_(closep) int root = loop < 0 ? loop : mount_image(folder, loop, err);
    if (root < 0)
        return root;
    int r = grow_mounted(loop, root, size);
    return r < 0 ? error_sys(err, -r, "making the file system of a disk larger") : 0;
}

static int resize_confined(const char *const *words, int file, struct cay_error *err) {
    int status = disk_tool_run_confined("resize2fs", words, file, IMAGE_IDS_FIRST, err);
    if (status <= 0)
        return status;
    error_set(err, CAY_INTERNAL, "resize2fs failed (exit code %d)", status);
    return error_remedy(err, "the state folder needs room, and e2fsprogs 1.43 or later");
}

/* Where root has no CAP_SYS_RESOURCE, as in many containers: when nobody uses it. */
static int grow_by_tool(int folder, struct cay_error *err) {
    static const char *const words[] = {"-f", NULL};
    _cleanup_(closep) int file = open_image(folder);
    if (file < 0)
        return error_sys(err, -file, "opening the disk of a sandbox");
    if (flock(file, LOCK_EX | LOCK_NB) == 0)
        return resize_confined(words, file, err);
    error_set(err, CAY_UNSUPPORTED, "a disk cannot grow while it is in use here");
    return error_remedy(
        err, "stop the sandboxes that use it first; or give the daemon CAP_SYS_RESOURCE");
}

int disk_grow(int folder, uint64_t bytes, struct cay_error *err) {
    uint64_t size = disk_image_size(bytes);
    _cleanup_(closep) int file = open_image(folder);
    if (file == -ENOENT) {
        error_set(err, CAY_UNSUPPORTED, "this sandbox has no disk limit");
        return error_remedy(err, "one that is created as root has");
    }
    if (file < 0)
        return error_sys(err, -file, "opening the disk of a sandbox");
    int r;
    if (!must_grow(file, size, err, &r))
        return r;
    struct cay_error first;
    r = grow_by_kernel(folder, file, size, &first);
    fd_close(&file);
    if (r < 0 && first.sys == EPERM)
        return grow_by_tool(folder, err);
    if (r < 0 && err != NULL)
        *err = first;
    return r;
}

/* ---- measuring ---- */

/* The root of a sandbox tells how full the file system below it is. */
static bool used_inside(pid_t pid, uint64_t *ret) {
    char path[32];
    struct statfs fs;
    (void)snprintf(path, sizeof path, "/proc/%d/root", pid);
    _cleanup_(closep) int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || fstatfs(root, &fs) < 0 || fs.f_blocks < fs.f_bfree)
        return false;
    *ret = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    return true;
}

bool disk_used(int folder, pid_t pid, uint64_t *ret) {
    struct stat st;
    if (fstatat(folder, DISK_IMAGE, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (pid > 0 && used_inside(pid, ret))
        return true;
    *ret = (uint64_t)st.st_blocks * 512;
    return true;
}
