/* The parts of an image that a sandbox's tree is made of. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "confine/mounts.h"
#include "confine/syscalls.h"
#include "engine/native/rootfs/rootfs.h"
#include "image/host.h"
#include "image/image.h"

static void close_binds(struct image_trees *t) {
    for (size_t i = 0; i < t->bind_count; i++)
        fd_close(&t->binds[i].fd);
    t->bind_count = 0;
    t->shared = false;
}

void image_trees_close_used(struct image_trees *t) {
    if (!t->shared)
        close_binds(t);
}

void image_trees_close(struct image_trees *t) {
    fd_close(&t->lower);
    close_binds(t);
}

/* Id-mapped if possible. Without, what is readable for everybody works all the same: it only seems
 * to belong to nobody. Mounts below a host folder are not taken along, but in a user namespace the
 * kernel refuses to reveal what they cover. */
static int clone_bind(const char *source, int userns) {
    int fd = mounts_clone(AT_FDCWD, source, false, MOUNTS_BIND_ATTRIBUTES, userns);
    if (fd < 0 && userns >= 0)
        fd = mounts_clone(AT_FDCWD, source, false, MOUNTS_BIND_ATTRIBUTES, -1);
    if (fd == -EINVAL)
        fd = mounts_clone(AT_FDCWD, source, true, MOUNTS_BIND_ATTRIBUTES, -1);
    return fd;
}

static int clone_root(struct image_trees *t, int userns, struct cay_error *err) {
    unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    t->lower = mounts_clone(t->image->root_fd, "", false, attributes, userns);
    if (t->lower < 0 && userns < 0)
        return error_sys(err, -t->lower, "cloning the image's root");
    if (t->lower < 0)
        t->lower = -1; /* cannot be id-mapped */
    return 0;
}

static int clone_binds(struct image_trees *t, int userns, struct cay_error *err) {
    const struct host_image *image = t->image;
    for (size_t i = 0; i < image->bind_count; i++) {
        int fd = clone_bind(image->binds[i].source, userns);
        if (fd < 0)
            return error_sys(err, -fd, "cloning the host's %s", image->binds[i].source);
        t->binds[t->bind_count].fd = fd;
        t->binds[t->bind_count++].target = image->binds[i].target;
    }
    return 0;
}

int image_trees_open(const struct host_image *image, int userns, struct image_trees *t,
                     struct cay_error *err) {
    t->image = image;
    t->lower_raw = image->root_fd;
    int r = t->lower >= 0 ? 0 : clone_root(t, userns, err);
    if (r == 0 && !t->shared)
        r = clone_binds(t, userns, err);
    if (r < 0)
        image_trees_close(t);
    return r;
}

/* The folder that has this path, and where in it that is. */
static int find_bind(const struct image_trees *t, const char *path, const char **ret_rest) {
    for (size_t i = 0; i < t->bind_count; i++) {
        size_t len = strlen(t->binds[i].target);
        if (strncmp(path, t->binds[i].target, len) == 0 && path[len] == '/') {
            *ret_rest = path + len + 1;
            return t->binds[i].fd;
        }
    }
    return -ENOTDIR;
}

/* Since what is cloned from the host's mounts can only be cloned again among these, it is put into
 * a tree that was not: over a folder of a clone of `nothing`. */
static int hold(int nothing, int *tree) {
    int holder = mounts_clone(nothing, "", false, 0, -1);
    if (holder < 0)
        return holder;
    int r = mounts_attach(*tree, holder, IMAGE_TREES_HELD);
    (void)close(r < 0 ? holder : *tree);
    *tree = r < 0 ? *tree : holder;
    return r;
}

int image_trees_share(struct image_trees *t, int nothing) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < t->image->mask_count; i++) {
        const char *rest;
        if (t->image->masks[i].writable) /* the sandbox's own */
            continue;
        int folder = find_bind(t, t->image->masks[i].path, &rest);
        r = folder < 0 ? folder : mounts_attach_clone(nothing, "void", folder, rest, 0);
        if (r == -ENOENT)
            r = 0;
    }
    for (size_t i = 0; r == 0 && i < t->bind_count; i++)
        r = hold(nothing, &t->binds[i].fd);
    t->shared = r == 0;
    return r;
}

int image_trees_open_store(const struct image *image, int idmap, struct image_trees *t,
                           struct cay_error *err) {
    t->store = image;
    t->lower_raw = image->layers;
    /* One clone for all layers: each is a folder in it. */
    t->lower = mounts_clone(image->layers, "", false, MOUNTS_BIND_ATTRIBUTES, idmap);
    if (t->lower < 0 && idmap < 0)
        return error_sys(err, -t->lower, "cloning the image store");
    if (t->lower < 0)
        t->lower = -1; /* cannot be id-mapped */
    return 0;
}
