/* The file tree of a sandbox. Everything that can be made before the sandbox's first process exists
 * is made here, detached, by the caller; rootfs_enter() then assembles it in that process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/spec.h"

struct cay_error;
struct host_image;
struct image;

enum { ROOTFS_TREES_MAX = 8, ROOTFS_MASKS_MAX = 40 };

/* The parts of an image, for one sandbox: clones of its root and of the host folders that belong to
 * it, id-mapped where the file systems can. */
struct image_trees {
    int lower;     /* detached clone of the image's root, or of the folder of all layers; -1: cannot
                    * be id-mapped */
    int lower_raw; /* the same as it is; borrowed */
    struct {
        int fd; /* detached; shared: a tree with the folder at IMAGE_TREES_HELD */
        const char *target;
    } binds[ROOTFS_TREES_MAX];
    size_t bind_count;
    bool shared; /* the folders stay for further sandboxes, which get clones of them */
    const struct host_image *image; /* borrowed, for its masks; NULL: one of the store */
    const struct image *store;      /* borrowed; NULL: the host image */
};

#define IMAGE_TREES_HELD  "void"
#define IMAGE_TREES_EMPTY ((struct image_trees){.lower = -1, .lower_raw = -1})

/* userns is the namespace to map ids by; -1 when the caller is root of its own user namespace.
 * Trees that were opened before and used keep what can be used again. On failure all are closed. */
int image_trees_open(const struct host_image *image, int userns, struct image_trees *t,
                     struct cay_error *err);
/* The same of an image of the store. idmap is a namespace that maps the store's ids to those of the
 * sandbox; -1 as above. */
int image_trees_open_store(const struct image *image, int idmap, struct image_trees *t,
                           struct cay_error *err);
/* Hides in the folders, once for all, what the image hides there, with the empty folder of
 * `nothing` (rootfs_make_nothing). From then on they serve any number of sandboxes. 0 or -errno. */
int image_trees_share(struct image_trees *t, int nothing);
/* The folders, unless they are shared. */
void image_trees_close_used(struct image_trees *t);
void image_trees_close(struct image_trees *t);

#define ROOTFS_NOTHING_ATTRIBUTES                                                                  \
    (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

/* A detached, read-only tree that hides things, to be shared: an empty folder "void" and an empty
 * file "none". -errno. */
int rootfs_make_nothing(void);

/* A detached, read-only /dev with its nodes and nothing else, to be shared; -errno. In a user
 * namespace nodes cannot be made: they are bound from the host's, and the tree is made per sandbox
 * by rootfs_enter. */
int rootfs_make_dev(void);
/* The links and folders of a /dev, without its nodes; for both ways to make one. 0 or -errno. */
int rootfs_make_dev_links(int dev);

/* What a sandbox must not see of /proc, as far as this kernel has it and shows it to everybody. */
struct proc_masks {
    struct {
        const char *name;
        bool is_dir;
    } entry[ROOTFS_MASKS_MAX];
    size_t count;
};
void rootfs_find_masks(struct proc_masks *ret);

/* The tree of one sandbox. */
struct rootfs {
    int box;     /* detached tmpfs: the writable layer "u" and small files, within the quota */
    int overlay; /* detached root, or -1: made by rootfs_enter (kernels before 6.13) */
    int lower;   /* borrowed from the trees, or owned with lower_owned: a copy in the box */
    bool lower_owned;
    int shift;      /* detached tmpfs for changed owners (shift.h); -1: the image is id-mapped */
    int disk;       /* detached mount of the folder that keeps what is written; -1: the box does */
    int local;      /* detached clone of its folder for /usr/local; -1: made from disk when that is
                     * attached, or the box has one */
    int pts;        /* detached devpts */
    int nothing;    /* borrowed: a tree with "void" and "none", which may be the box */
    bool assembled; /* what lies over the overlay is in its place already */
    struct {
        int fd; /* detached, ready to be attached at the mount spec with the same index */
        bool is_dir;
    } volumes[SPEC_MOUNTS_MAX];
    size_t volume_count;
};

#define ROOTFS_EMPTY                                                                               \
    ((struct rootfs){.box = -1,                                                                    \
                     .overlay = -1,                                                                \
                     .lower = -1,                                                                  \
                     .shift = -1,                                                                  \
                     .disk = -1,                                                                   \
                     .local = -1,                                                                  \
                     .pts = -1,                                                                    \
                     .nothing = -1})

/* Who owns what. */
struct rootfs_owner {
    uid_t base;      /* the host id of root inside */
    bool own_userns; /* as for image_trees_open with userns -1 */
    int idmap;       /* as for image_trees_open_store; used for disk and named volumes only */
    int disk;    /* a folder with "fs" and "work" for what is written, or -1; with the host image
                  * "local" too */
    int nothing; /* rootfs_make_nothing, or -1: the box gets its own */
    bool disk_is_mount;                 /* the root of a detached mount: used itself, not cloned */
    const struct volume_rules *volumes; /* NULL: whoever asks has our rights */
};
int rootfs_prepare(const struct sandbox_spec *spec, const struct image_trees *trees,
                   const struct rootfs_owner *owner, struct rootfs *ret, struct cay_error *err);
void rootfs_close(struct rootfs *r);

/* What rootfs_enter needs; plain data, since it runs in a child that shares memory. */
struct rootfs_entry {
    const struct sandbox_spec *spec;
    const struct image_trees *trees;
    const struct rootfs *root;
    const struct proc_masks *masks;
    int dev; /* a prepared /dev, or -1 to make one by binding the host's nodes */
    uid_t base;
    bool own_userns;
    bool share_dev;      /* dev stays for other sandboxes: attach a clone of it */
    bool lean;           /* the mount namespace holds nothing: cover "/" instead of pivoting */
    const char *staging; /* not lean: a folder of the host to assemble on (the state folder) */
};

/* Puts in their places what can be put there while the tree is still detached, so that entering it
 * is quicker; leaves it to rootfs_enter on kernels that cannot (before 6.15). */
int rootfs_assemble(const struct rootfs_entry *e, struct rootfs *root);

/* Builds the tree in the calling process's own, new mount namespace and makes it the root. */
int rootfs_enter(const struct rootfs_entry *e, struct cay_error *err);
