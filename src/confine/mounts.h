/* Mounts by descriptor: every mount of a sandbox is made detached, configured, and only then put in
 * its place, which is opened without following a symlink. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Of every clone of the host's folders that a sandbox only reads. */
#define MOUNTS_BIND_ATTRIBUTES (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* A detached tmpfs limited in bytes and inodes. An fd or -errno. */
int mounts_tmpfs(uint64_t bytes, uint64_t inodes, const char *mode, unsigned attributes);

/* A detached, private clone of the tree at path (relative to dirfd; "" for dirfd itself) with more
 * attributes (MOUNT_ATTR_…); idmap is the user namespace of an id-mapped clone, or -1. An fd or
 * -errno; -EINVAL or -EOPNOTSUPP where the file system cannot be id-mapped. */
int mounts_clone(int dirfd, const char *path, bool recursive, unsigned attributes, int idmap);
/* Gives the same to a detached mount that nobody else has. 0 or -errno. */
int mounts_set(int tree, unsigned attributes, int idmap);

/* A detached overlay of lowers, topmost first, and an upper with its work folder, all by
 * descriptor. -EINVAL or -EOPNOTSUPP from kernels that do not know layers by descriptor (before
 * 6.13). */
enum {
    OVERLAY_USER_XATTR = 1, /* the overlay's own attributes are user.overlay.… */
    OVERLAY_METACOPY = 2,   /* a file whose owner changes is not copied */
};
int mounts_overlay(const int *lowers, size_t count, int upper, int work, unsigned flags);

/* A detached instance of a file system that has few options ("proc", "devpts"). Pairs of option
 * and value, or of option and NULL for one without; NULL-terminated. */
int mounts_simple(const char *type, const char *const *options, unsigned attributes);

/* Puts a detached mount at path below root; no component may be a symlink. 0 or -errno. */
int mounts_attach(int tree, int root, const char *path);

/* mounts_clone and mounts_attach of something that exists below `from`. */
int mounts_attach_clone(int from, const char *name, int root, const char *path,
                        unsigned attributes);
