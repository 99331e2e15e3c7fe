#include "engine/volume/named.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "confine/mounts.h"
#include "confine/syscalls.h"
#include "engine/disk/disk.h"
#include "engine/volume/convert.h"
#include "image/store.h"

/* The volume, on its disk. */
#define FILES "fs"

enum { FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

static int open_store(const struct volume_rules *rules, const char *name, struct cay_error *err) {
    if (mkdirat(rules->state_dir, name, 0700) < 0 && errno != EEXIST)
        return error_storage(err, errno, "making the folder of volumes");
    int fd = openat(rules->state_dir, name, FOLDER_FLAGS);
    return fd < 0 ? error_storage(err, errno, "opening the folder of volumes") : fd;
}

int volume_open_store(const struct volume_rules *rules, struct cay_error *err) {
    return open_store(rules, VOLUMES_FOLDER, err);
}

int volume_open_disks(const struct volume_rules *rules, struct cay_error *err) {
    return open_store(rules, VOLUME_DISKS_FOLDER, err);
}

/* The folder of its disk; -ENOENT for a volume that has none. */
static int open_disk_folder(const struct volume_rules *rules, const char *id) {
    _cleanup_(closep) int store = openat(rules->state_dir, VOLUME_DISKS_FOLDER, FOLDER_FLAGS);
    int fd = store < 0 ? -1 : openat(store, id, FOLDER_FLAGS);
    return fd < 0 ? -errno : fd;
}

/* ---- making ---- */

/* Made under another name first, so that none is ever seen with another owner. */
static int make_folder(const struct volume_rules *rules, int store, const char *id) {
    char fresh[ID_SIZE + sizeof ".new-"];
    (void)snprintf(fresh, sizeof fresh, ".new-%s", id);
    if (mkdirat(store, fresh, 0755) < 0 && errno != EEXIST)
        return -errno;
    if (!rules->own_userns &&
        fchownat(store, fresh, IMAGE_IDS_FIRST, IMAGE_IDS_FIRST, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (fchmodat(store, fresh, 0755, 0) < 0 || renameat(store, fresh, store, id) < 0)
        return -errno;
    return 0;
}

static int make_plain(const struct volume_rules *rules, const char *id, struct cay_error *err) {
    struct stat st;
    _cleanup_(closep) int store = volume_open_store(rules, err);
    if (store < 0)
        return store;
    if (fstatat(store, id, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    int r = errno == ENOENT ? make_folder(rules, store, id) : -errno;
    return r < 0 ? error_storage(err, -r, "making volume %s", id) : 0;
}

static int make_disk(const struct volume_rules *rules, const char *id, uint64_t bytes,
                     struct cay_error *err) {
    _cleanup_(closep) int store = volume_open_disks(rules, err);
    if (store < 0)
        return store;
    if (mkdirat(store, id, 0700) < 0 && errno != EEXIST)
        return error_storage(err, errno, "making volume %s", id);
    _cleanup_(closep) int folder = openat(store, id, FOLDER_FLAGS);
    if (folder < 0)
        return error_errno(err, "opening volume %s", id);
    int r = disk_look(folder) == DISK_BOUNDED ? 0 : disk_make(folder, bytes, IMAGE_IDS_FIRST, err);
    if (r < 0)
        (void)unlinkat(store, id, AT_REMOVEDIR); /* an empty folder more, at worst */
    return r;
}

int volume_make(const struct volume_rules *rules, const char *id, uint64_t bytes,
                struct cay_error *err) {
    if (bytes == 0)
        return make_plain(rules, id, err);
    int r = spec_check_volume_size(bytes, err);
    return r < 0 ? r : make_disk(rules, id, bytes, err);
}

int volume_grow(const struct volume_rules *rules, const char *id, uint64_t bytes,
                struct cay_error *err) {
    int r = spec_check_volume_size(bytes, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int folder = open_disk_folder(rules, id);
    if (folder == -ENOENT)
        return volume_convert(rules, id, bytes, err);
    if (folder < 0)
        return error_sys(err, -folder, "opening volume %s", id);
    r = disk_grow(folder, bytes, err);
    return r < 0 ? r : volume_drop_folder(rules, id, err);
}

/* ---- a detached mount of a folder on a detached mount ---- */

/* In a process with our descriptors and a mount namespace of its own, which ends with it: `disk` is
 * attached there, so that `from` can be cloned. Exits with 0 or an errno. */
static _noreturn_ void clone_there(int disk, int from, int to) {
    int r = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? errno : 0;
    if (r == 0 && move_mount(disk, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        r = errno;
    int tree = r != 0 ? -1 : mounts_clone(from, "", false, 0, -1);
    if (r == 0 && tree < 0)
        r = -tree;
    if (r == 0 && dup3(tree, to, O_CLOEXEC) < 0)
        r = errno;
    if (tree >= 0)
        (void)close(tree); /* in our table too */
    _exit(r);
}

/* Before 6.15 only what is attached somewhere can be cloned. */
static int clone_attached(int disk, int from) {
    int status = 0;
    _cleanup_(closep) int to = open("/dev/null", O_RDONLY | O_CLOEXEC); /* its number */
    if (to < 0)
        return -errno;
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_FILES | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        clone_there(disk, from, to);
    if (pid < 0)
        return -errno;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
    return TAKE_FD(to);
}

static int clone_folder(int disk, int from) {
    int tree = mounts_clone(from, "", false, 0, -1);
    return tree == -EINVAL ? clone_attached(disk, from) : tree;
}

/* ---- opening ---- */

/* A folder in a volume, made if it is not there. Sandboxes write above it, perhaps at this moment:
 * each part is opened by itself, and no link is followed. Only we make folders that belong to the
 * host's root, so that nothing but ours is given away. */
static int step_into(const struct volume_rules *rules, int dir, const char *name) {
    struct stat st;
    if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    _cleanup_(closep) int fd = openat(dir, name, FOLDER_FLAGS);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!rules->own_userns && st.st_uid == 0 && fchown(fd, IMAGE_IDS_FIRST, IMAGE_IDS_FIRST) < 0)
        return -errno;
    return TAKE_FD(fd);
}

static int refuse_part(const char *source, int sys, struct cay_error *err) {
    char shown[200];
    (void)str_escape(shown, sizeof shown, source + ID_LEN);
    error_sys(err, sys, "opening '%s' in volume %.*s", shown, ID_LEN, source);
    return error_remedy(err, sys == ENOSPC || sys == EDQUOT
                                 ? "remove files from the volume, or make it larger: cay volume "
                                   "resize NAME SIZE"
                                 : "name a folder in it, not a file or a link");
}

/* Takes `top`, the volume; "" or "/PATH" of `source` after the id. */
static int follow(const struct volume_rules *rules, int top, const char *source,
                  struct cay_error *err) {
    char parts[SPEC_PATH_SIZE], *rest = parts;
    int fd = top;
    (void)snprintf(parts, sizeof parts, "%s", source + ID_LEN);
    for (const char *name; fd >= 0 && (name = strtok_r(rest, "/", &rest)) != NULL;) {
        int next = step_into(rules, fd, name);
        (void)close(fd);
        fd = next < 0 ? refuse_part(source, -next, err) : next;
    }
    return fd;
}

static int refuse_lost(const char *id, struct cay_error *err) {
    error_set(err, CAY_INTERNAL, "the files of volume %s are missing: they are lost", id);
    return error_remedy(err, "restore the folder of volumes in the state folder, or remove the "
                             "volume and what uses it");
}

static int open_plain(const struct volume_rules *rules, const char *id, const char *source,
                      struct cay_error *err) {
    _cleanup_(closep) int store = volume_open_store(rules, err);
    if (store < 0)
        return store;
    int top = openat(store, id, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top < 0)
        return errno == ENOENT ? refuse_lost(id, err) : error_errno(err, "opening volume %s", id);
    return follow(rules, top, source, err);
}

/* One that sandboxes use stays as it is: its file system is read-only from its first error on. */
static int repair(int folder, const char *id, struct cay_error *err) {
    bool is_thorough;
    int r = disk_repair(folder, &is_thorough, err);
    if (r == 0)
        return 0;
    (void)error_prefix(err, "the file system of volume %s has errors", id);
    return r == -CAY_CONFLICT
               ? error_remedy(err, "stop the sandboxes that use it; the next start repairs it")
               : r;
}

static int open_sound(int folder, const char *id, struct cay_error *err) {
    int r = disk_check(folder, err) == 0 ? 0 : repair(folder, id, err);
    int disk = r < 0 ? r : disk_open(folder, err);
    if (disk >= 0 || err->sys != EUCLEAN)
        return disk;
    r = repair(folder, id, err);
    return r < 0 ? r : disk_open(folder, err);
}

static int open_disk(const struct volume_rules *rules, int folder, const char *id,
                     const char *source, struct cay_error *err) {
    if (rules->own_userns) {
        error_set(err, CAY_UNSUPPORTED, "volume %s is a disk, which only root can mount", id);
        return error_remedy(err, "run the daemon as root, with engine = \"native\"");
    }
    if (disk_look(folder) != DISK_BOUNDED)
        return refuse_lost(id, err);
    _cleanup_(closep) int disk = open_sound(folder, id, err);
    if (disk < 0)
        return disk;
    int top = openat(disk, FILES, FOLDER_FLAGS);
    if (top < 0)
        return error_errno(err, "opening volume %s", id);
    _cleanup_(closep) int fd = follow(rules, top, source, err);
    if (fd < 0)
        return fd;
    int tree = clone_folder(disk, fd);
    return tree < 0 ? error_sys(err, -tree, "mounting volume %s", id) : tree;
}

int volume_open_named(const struct volume_rules *rules, const char *source, bool *ret_is_mount,
                      struct cay_error *err) {
    char id[ID_SIZE];
    (void)snprintf(id, sizeof id, "%s", source);
    _cleanup_(closep) int folder = open_disk_folder(rules, id);
    if (folder < 0 && folder != -ENOENT)
        return error_sys(err, -folder, "opening volume %s", id);
    *ret_is_mount = folder >= 0;
    return folder >= 0 ? open_disk(rules, folder, id, source, err)
                       : open_plain(rules, id, source, err);
}
