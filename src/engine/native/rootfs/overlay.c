#include "engine/native/rootfs/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/path.h"
#include "base/str.h"
#include "confine/mounts.h"
#include "confine/syscalls.h"
#include "engine/native/rootfs/shift.h"
#include "image/image.h"

enum { LOWERS_MAX = RECORD_LAYERS_MAX + 2, OPTIONS_SIZE = 4096 };

/* Opened without following a symlink: whoever owns the store's files could have put one there. */
struct layers {
    int lowers[LOWERS_MAX]; /* topmost first */
    size_t count;
    int upper, work;
    unsigned flags; /* OVERLAY_… */
};

static void layers_close(struct layers *l) {
    while (l->count > 0)
        (void)close(l->lowers[--l->count]);
    fd_close(&l->upper);
    fd_close(&l->work);
}

static int open_folder(int dir, const char *path) {
    return path_open_no_symlinks(dir, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
}

static int add_lower(struct layers *l, int dir, const char *path) {
    int fd = open_folder(dir, path);
    if (fd < 0)
        return fd;
    l->lowers[l->count++] = fd;
    return 0;
}

static int add_image(struct layers *l, const struct rootfs *root, const struct image_trees *trees) {
    if (trees->store == NULL)
        return add_lower(l, root->lower, ".");
    const struct image_record *record = trees->store->record;
    int r = 0;
    for (size_t i = record->layer_count; r == 0 && i > 0; i--) {
        char path[HEX_SIZE + sizeof "/fs"];
        (void)snprintf(path, sizeof path, "%s/fs", record->layers[i - 1].chain);
        r = add_lower(l, root->lower, path);
    }
    return r;
}

static int set_upper(struct layers *l, int dir, const char *upper, const char *work) {
    l->upper = open_folder(dir, upper);
    if (l->upper < 0)
        return l->upper;
    l->work = open_folder(dir, work);
    return MIN(l->work, 0);
}

/* ---- mounting ---- */

int overlay_write_lowers(const int *fds, size_t count, char *out, size_t size) {
    size_t len = 0;
    int r = str_format(out, size, "lowerdir=");
    for (size_t i = 0; r == 0 && i < count; i++) {
        len += strlen(out + len);
        r = str_format(out + len, size - len, "%s/proc/self/fd/%d", i > 0 ? ":" : "", fds[i]);
    }
    return r;
}

static int write_options(const struct layers *l, char *out, size_t size) {
    int r = overlay_write_lowers(l->lowers, l->count, out, size);
    size_t len = r < 0 ? 0 : strlen(out);
    return r < 0 ? r
                 : str_format(out + len, size - len,
                              ",upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d%s%s", l->upper,
                              l->work, (l->flags & OVERLAY_USER_XATTR) != 0 ? ",userxattr" : "",
                              (l->flags & OVERLAY_METACOPY) != 0 ? ",metacopy=on" : "");
}

static int mount_on(const struct layers *l, const char *at) {
    char options[OPTIONS_SIZE];
    int r = write_options(l, options, sizeof options);
    if (r < 0)
        return r;
    if (mount("overlay", at, "overlay", MS_NOSUID | MS_NODEV, options) < 0)
        return -errno;
    int root = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root < 0 ? -errno : root;
}

static int make(const struct layers *l, const char *at) {
    if (at != NULL)
        return mount_on(l, at);
    return mounts_overlay(l->lowers, l->count, l->upper, l->work, l->flags);
}

/* An overlay works with the identity of whoever mounted it. Root of the host does not exist on an
 * id-mapped folder, so there it must be root of the sandbox, with the capabilities of the host's.
 */
static int make_as(uid_t base, const struct layers *l, const char *at) {
    int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
    if (bits < 0 || prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
        return -errno;
    (void)setfsgid(base);
    (void)setfsuid(base);
    int fd = make(l, at);
    (void)setfsuid(geteuid());
    (void)setfsgid(getegid());
    if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0 && fd >= 0) {
        (void)close(fd);
        return -errno;
    }
    return fd;
}

/* ---- owners ---- */

/* A layer of changed owners over the image's. */
static int shift(const struct rootfs *root, const struct image_trees *trees, uid_t base,
                 const char *at) {
    _cleanup_(layers_close) struct layers l = {.upper = -1, .work = -1, .flags = OVERLAY_METACOPY};
    int r = add_image(&l, root, trees);
    if (r == 0)
        r = set_upper(&l, root->shift, "u", "w");
    if (r < 0)
        return r;
    _cleanup_(closep) int merged = make(&l, at);
    if (merged < 0)
        return merged;
    r = shift_owners(merged, base);
    if (at != NULL && umount2(at, MNT_DETACH) < 0 && r == 0)
        r = -errno;
    return r;
}

int rootfs_overlay(const struct rootfs *root, const struct image_trees *trees, uid_t base,
                   bool own_userns, const char *at) {
    bool on_disk = root->disk >= 0, shifted = root->shift >= 0;
    int r = shifted ? shift(root, trees, base, at) : 0;
    _cleanup_(layers_close) struct layers l = {.upper = -1, .work = -1};
    if (own_userns || on_disk)
        l.flags |= OVERLAY_USER_XATTR;
    if (shifted)
        l.flags |= OVERLAY_METACOPY;
    /* Where the disk keeps what is written, what is ours lies below it, so that it is not kept. */
    if (r == 0 && on_disk)
        r = add_lower(&l, root->box, "u");
    if (r == 0 && shifted)
        r = add_lower(&l, root->shift, "u");
    if (r == 0)
        r = add_image(&l, root, trees);
    if (r == 0)
        r = on_disk ? set_upper(&l, root->disk, "fs", "work") : set_upper(&l, root->box, "u", "w");
    if (r < 0)
        return r;
    return on_disk && !own_userns ? make_as(base, &l, at) : make(&l, at);
}
