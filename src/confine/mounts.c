#include "confine/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/path.h"
#include "confine/syscalls.h"

static int set_string(int fs, const char *key, const char *value) {
    return fsconfig(fs, FSCONFIG_SET_STRING, key, value, 0) < 0 ? -errno : 0;
}

static int set_flag(int fs, const char *key) {
    return fsconfig(fs, FSCONFIG_SET_FLAG, key, NULL, 0) < 0 ? -errno : 0;
}

/* Creates the superblock of a configured context and takes its mount. */
static int finish(int fs, unsigned attributes) {
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    int mount = fsmount(fs, FSMOUNT_CLOEXEC, attributes);
    return mount < 0 ? -errno : mount;
}

int mounts_tmpfs(uint64_t bytes, uint64_t inodes, const char *mode, unsigned attributes) {
    char size[24], count[24];
    (void)snprintf(size, sizeof size, "%llu", (unsigned long long)bytes);
    (void)snprintf(count, sizeof count, "%llu", (unsigned long long)inodes);
    _cleanup_(closep) int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    int r = set_string(fs, "size", size);
    if (r == 0)
        r = set_string(fs, "nr_inodes", count);
    if (r == 0)
        r = set_string(fs, "mode", mode);
    return r < 0 ? r : finish(fs, attributes);
}

int mounts_simple(const char *type, const char *const *options, unsigned attributes) {
    _cleanup_(closep) int fs = fsopen(type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    for (; options[0] != NULL; options += 2) {
        int r =
            options[1] == NULL ? set_flag(fs, options[0]) : set_string(fs, options[0], options[1]);
        if (r < 0)
            return r;
    }
    return finish(fs, attributes);
}

static int set_attributes(int tree, unsigned deep, unsigned attributes, int idmap) {
    struct mount_attr attr = {
        .attr_set = attributes | (idmap >= 0 ? MOUNT_ATTR_IDMAP : 0),
        .propagation = MS_PRIVATE,
        .userns_fd = idmap >= 0 ? (uint64_t)idmap : 0,
    };
    return mount_setattr(tree, "", AT_EMPTY_PATH | deep, &attr, sizeof attr) < 0 ? -errno : 0;
}

int mounts_clone(int dirfd, const char *path, bool recursive, unsigned attributes, int idmap) {
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH;
    unsigned deep = recursive ? AT_RECURSIVE : 0;
    _cleanup_(closep) int tree = open_tree(dirfd, path, flags | deep);
    if (tree < 0)
        return -errno;
    if (attributes == 0 && idmap < 0) /* of a mount of ours: private, with the right attributes */
        return TAKE_FD(tree);
    int r = set_attributes(tree, deep, attributes, idmap);
    return r < 0 ? r : TAKE_FD(tree);
}

int mounts_set(int tree, unsigned attributes, int idmap) {
    return set_attributes(tree, 0, attributes, idmap);
}

int mounts_overlay(const int *lowers, size_t count, int upper, int work, unsigned flags) {
    _cleanup_(closep) int fs = fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    for (size_t i = 0; i < count; i++)
        if (fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, lowers[i]) < 0)
            return -errno;
    if (fsconfig(fs, FSCONFIG_SET_FD, "upperdir", NULL, upper) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FD, "workdir", NULL, work) < 0)
        return -errno;
    if ((flags & OVERLAY_USER_XATTR) != 0 && set_flag(fs, "userxattr") < 0)
        return -errno;
    /* Nobody looks for the id that the kernel would make up and write to the upper layer. */
    if (set_string(fs, "uuid", "null") < 0)
        return -errno;
    if ((flags & OVERLAY_METACOPY) != 0 && set_string(fs, "metacopy", "on") < 0)
        return -errno;
    return finish(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

/* The last component is never followed, so what has no other needs no descriptor of its own. */
static bool is_plain_name(const char *path) {
    return path[0] != '\0' && strchr(path, '/') == NULL && strcmp(path, ".") != 0 &&
           strcmp(path, "..") != 0;
}

int mounts_attach(int tree, int root, const char *path) {
    const char *name = path + strspn(path, "/");
    if (is_plain_name(name))
        return move_mount(tree, "", root, name, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
    _cleanup_(closep) int at = path_open_no_symlinks(root, path, O_PATH, 0);
    if (at < 0)
        return at;
    unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    return move_mount(tree, "", at, "", flags) < 0 ? -errno : 0;
}

int mounts_attach_clone(int from, const char *name, int root, const char *path,
                        unsigned attributes) {
    _cleanup_(closep) int tree = mounts_clone(from, name, false, attributes, -1);
    return tree < 0 ? tree : mounts_attach(tree, root, path);
}
