#include "engine/volume/convert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/disk/disk.h"
#include "engine/volume/copy.h"
#include "image/store.h"

enum { FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

static int fail_to_copy(int sys, uint64_t bytes, struct cay_error *err) {
    char size[32];
    if (sys == ENOSPC || sys == EDQUOT) {
        error_set(err, CAY_RESOURCE_EXHAUSTED, "what the volume holds does not fit into %s",
                  str_bytes(bytes, size));
        return error_remedy(err, "choose a larger size, or remove files from it");
    }
    error_sys(err, sys, "copying the files of the volume");
    return error_remedy(err, sys == ELOOP
                                 ? "its folders are nested more than 256 deep: remove some"
                                 : "the volume is as it was; try again while nobody uses it");
}

/* All of it is on the disk of the host before the disk gets its name. */
static int fill(int from, int folder, uint64_t bytes, struct cay_error *err) {
    int r = disk_make(folder, bytes, IMAGE_IDS_FIRST, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int disk = disk_open(folder, err);
    if (disk < 0)
        return disk;
    _cleanup_(closep) int to = openat(disk, "fs", FOLDER_FLAGS);
    if (to < 0)
        return error_errno(err, "opening the new disk of a volume");
    r = volume_copy(from, to);
    if (r == 0 && syncfs(to) < 0)
        r = -errno;
    return r < 0 ? fail_to_copy(-r, bytes, err) : 0;
}

static int open_new(int disks, const char *fresh, struct cay_error *err) {
    int r = path_remove_tree(disks, fresh); /* of a try that was killed */
    if (r == 0 && mkdirat(disks, fresh, 0700) < 0)
        r = -errno;
    _cleanup_(closep) int folder = r < 0 ? -1 : openat(disks, fresh, FOLDER_FLAGS);
    if (r == 0 && (folder < 0 || flock(folder, LOCK_EX | LOCK_NB) < 0))
        r = -errno;
    return r < 0 ? error_storage(err, -r, "making the disk of a volume") : TAKE_FD(folder);
}

int volume_convert(const struct volume_rules *rules, const char *id, uint64_t bytes,
                   struct cay_error *err) {
    char fresh[ID_SIZE + sizeof VOLUME_NEW_PREFIX];
    (void)snprintf(fresh, sizeof fresh, VOLUME_NEW_PREFIX "%s", id);
    _cleanup_(closep) int store = volume_open_store(rules, err);
    _cleanup_(closep) int disks = store < 0 ? store : volume_open_disks(rules, err);
    if (disks < 0)
        return disks;
    _cleanup_(closep) int from = openat(store, id, FOLDER_FLAGS);
    if (from < 0)
        return error_errno(err, "opening volume %s", id);
    _cleanup_(closep) int folder = open_new(disks, fresh, err);
    if (folder < 0)
        return folder;
    int r = fill(from, folder, bytes, err);
    if (r == 0 && (renameat(disks, fresh, disks, id) < 0 || fsync(disks) < 0))
        r = error_errno(err, "naming the disk of volume %s", id);
    if (r == 0)
        return volume_drop_folder(rules, id, err);
    (void)path_remove_tree(disks, fresh); /* or the next launcher does */
    return r;
}

int volume_drop_folder(const struct volume_rules *rules, const char *id, struct cay_error *err) {
    _cleanup_(closep) int store = volume_open_store(rules, err);
    int r = store < 0 ? store : path_remove_tree(store, id);
    return r < 0 && store >= 0 ? error_sys(err, -r, "removing the old folder of volume %s", id) : r;
}
