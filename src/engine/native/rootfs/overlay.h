/* The overlay that a sandbox's root is: which layers, in which order, made by descriptor or, on
 * kernels before 6.13, by name. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "engine/native/rootfs/rootfs.h"

/* Writes "lowerdir=…". The names are those of our descriptors, so that nothing can be exchanged
 * under them, and the mount table shows no path of the host. */
int overlay_write_lowers(const int *fds, size_t count, char *out, size_t size);

/* Makes the overlay, moving owners first where the image could not be id-mapped. Returns a
 * descriptor of its root or -errno; no memory is allocated.
 *
 * With at NULL it is detached (-EINVAL or -EOPNOTSUPP where the kernel knows no layers by
 * descriptor). Otherwise it is mounted on that folder, and every tree of root must be attached in
 * the caller's own mount namespace. */
int rootfs_overlay(const struct rootfs *root, const struct image_trees *trees, uid_t base,
                   bool own_userns, const char *at);
