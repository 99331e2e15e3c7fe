#include "imager/layer/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "confine/syscalls.h"
#include "engine/native/rootfs/overlay.h"

enum { OPTIONS_SIZE = 4096, FD_PATH_SIZE = 32 };

/* What an overlay is made of. */
struct stack {
    int lowers[RECORD_LAYERS_MAX]; /* topmost first */
    size_t count;
    int upper, work;
};

static void stack_close(struct stack *s) {
    while (s->count > 0)
        (void)close(s->lowers[--s->count]);
    fd_close(&s->upper);
    fd_close(&s->work);
}

static int stack_open(const struct image_store *store, const struct record_layer *below,
                      size_t count, int dir, struct stack *s) {
    if (count > RECORD_LAYERS_MAX)
        return -E2BIG;
    while (s->count < count) {
        int fd = image_store_open_layer(store, below[count - 1 - s->count].chain, NULL);
        if (fd < 0)
            return fd;
        s->lowers[s->count++] = fd;
    }
    s->upper = openat(dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    s->work = openat(dir, "work", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return s->upper < 0 || s->work < 0 ? -errno : 0;
}

/* ---- mounting ---- */

/* The overlay keeps its notes in user.overlay.…, as it must in a user namespace, and leaves it to
 * the store when files reach the disk: an unmount would wait for all that this machine has written.
 */
static int configure(int fs, const struct stack *s) {
    static const char *const flags[] = {"userxattr", "volatile"};
    static const char *const options[][2] = {{"redirect_dir", "nofollow"}, {"index", "off"}};
    for (size_t i = 0; i < s->count; i++)
        if (fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, s->lowers[i]) < 0)
            return -errno;
    if (fsconfig(fs, FSCONFIG_SET_FD, "upperdir", NULL, s->upper) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FD, "workdir", NULL, s->work) < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        if (fsconfig(fs, FSCONFIG_SET_FLAG, flags[i], NULL, 0) < 0)
            return -errno;
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        if (fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0) < 0)
            return -errno;
    return fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 ? -errno : 0;
}

/* The mount has no place, and ends with its descriptor. */
static int mount_detached(const struct stack *s) {
    _cleanup_(closep) int fs = fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    int r = configure(fs, s);
    if (r < 0)
        return r;
    int mnt = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return mnt < 0 ? -errno : mnt;
}

static int write_options(const struct stack *s, char *out, size_t size) {
    int r = overlay_write_lowers(s->lowers, s->count, out, size);
    size_t len = r < 0 ? 0 : strlen(out);
    return r < 0 ? r
                 : str_format(out + len, size - len,
                              ",upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d,userxattr,"
                              "volatile,redirect_dir=nofollow,index=off",
                              s->upper, s->work);
}

/* For kernels before 6.13: mounted on the folder `merged`, and taken off it again at once, which
 * leaves a copy of the mount. The current folder, which all threads share, is not used. */
static int mount_by_name(const struct stack *s, int dir) {
    char options[OPTIONS_SIZE], at[FD_PATH_SIZE];
    _cleanup_(closep) int place = openat(dir, "merged", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = place < 0 ? -errno : write_options(s, options, sizeof options);
    if (r < 0)
        return r;
    (void)snprintf(at, sizeof at, "/proc/self/fd/%d", place);
    if (mount("overlay", at, "overlay", MS_NOSUID | MS_NODEV, options) < 0)
        return -errno;
    _cleanup_(closep) int root = openat(dir, "merged", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    int mnt = open_tree(root, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    int saved = errno;
    (void)snprintf(at, sizeof at, "/proc/self/fd/%d", root);
    if (umount2(at, MNT_DETACH) < 0 && mnt >= 0) {
        saved = errno;
        fd_close(&mnt);
    }
    return mnt < 0 ? -saved : mnt;
}

/* What the overlay shows as its root is the upper's own folder: it starts as the one below. */
static int copy_root_attributes(const struct stack *s) {
    struct stat st;
    if (fstat(s->lowers[0], &st) < 0 || fchmod(s->upper, st.st_mode & 07777) < 0)
        return -errno;
    if (fchown(s->upper, st.st_uid, st.st_gid) < 0 && errno != EINVAL && errno != EPERM)
        return -errno;
    const struct timespec times[2] = {st.st_mtim, st.st_mtim};
    return futimens(s->upper, times) < 0 ? -errno : 0;
}

static int mount_merged(const struct image_store *store, const struct record_layer *below,
                        size_t count, int dir) {
    _cleanup_(stack_close) struct stack s = {.upper = -1, .work = -1};
    int r = stack_open(store, below, count, dir, &s);
    if (r == 0)
        r = copy_root_attributes(&s);
    if (r < 0)
        return r;
    int mnt = mount_detached(&s);
    if (mnt == -EINVAL || mnt == -EOPNOTSUPP || mnt == -ENOSYS || mnt == -EBADF)
        mnt = mount_by_name(&s, dir);
    return mnt;
}

/* ---- layers ---- */

static int keep_lowers(struct layer *layer, const struct record_layer *below, size_t count) {
    layer->below = count;
    if (count == 0)
        return 0;
    layer->lowers = calloc(count, sizeof *below);
    if (layer->lowers == NULL)
        return -ENOMEM;
    memcpy(layer->lowers, below, count * sizeof *below);
    return 0;
}

static int open_root(const struct image_store *store, struct layer *layer) {
    int dir = layer->work.dir;
    if (layer->below > 0) {
        layer->mount = mount_merged(store, layer->lowers, layer->below, dir);
        if (layer->mount < 0)
            return layer->mount;
    }
    int root = layer->below > 0
                   ? openat(layer->mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                   : openat(dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return root < 0 ? -errno : root;
}

int layer_begin(const struct image_store *store, const struct record_layer *below, size_t count,
                struct layer *ret, struct cay_error *err) {
    struct layer layer = LAYER_NONE;
    int r = image_store_begin_layer(store, &layer.work, err);
    if (r < 0)
        return r;
    r = keep_lowers(&layer, below, count);
    if (r == 0)
        layer.root = r = open_root(store, &layer);
    if (r < 0) {
        layer_abandon(store, &layer);
        error_sys(err, -r, "putting a new layer over %zu others", count);
        return error_remedy(err,
                            "an overlay in a user namespace needs Linux 5.11 and a file "
                            "system with user attributes for the state folder; see cay doctor");
    }
    *ret = layer;
    return 0;
}

static void release(struct layer *layer) {
    fd_close(&layer->root);
    fd_close(&layer->mount);
    free(layer->lowers);
    *layer = (struct layer){.work = layer->work, .root = -1, .mount = -1};
}

int layer_settle(const struct image_store *store, struct layer *layer, struct cay_error *err) {
    fd_close(&layer->root);
    fd_close(&layer->mount); /* ends the overlay */
    if (layer->below == 0)
        return 0;
    _cleanup_(closep) int fs =
        openat(layer->work.dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fs < 0 ? error_errno(err, "opening a new layer")
                  : layer_tidy(store, fs, layer->lowers, layer->below, err);
}

int layer_commit(const struct image_store *store, struct layer *layer, const char *chain,
                 struct cay_error *err) {
    int r = layer_settle(store, layer, err);
    if (r == 0)
        r = image_store_commit_layer(store, &layer->work, chain, err);
    if (r == 0)
        release(layer);
    return r;
}

void layer_abandon(const struct image_store *store, struct layer *layer) {
    release(layer);
    image_store_abandon_layer(store, &layer->work);
}
