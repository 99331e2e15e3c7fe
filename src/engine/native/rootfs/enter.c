/* Assembling a sandbox's file tree, in its first process, before it has given up its rights. That
 * process shares memory with its maker, so there is no malloc and no stdio here. Nothing of the
 * sandbox runs yet, but the image may have been made by an attacker: mount points are opened
 * without following symlinks, and mounts are put in place by descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "confine/mounts.h"
#include "confine/syscalls.h"
#include "engine/native/rootfs/overlay.h"
#include "engine/native/rootfs/rootfs.h"
#include "image/host.h"

/* What tells of the host or of other sandboxes; fs, locks and partitions show the disks, journals
 * and id ranges of the neighbours. Files that only their owner, the host's root, may read are left
 * as they are: nobody inside is that. */
static const char *const masked[] = {
    "acpi",      "asound",        "bootconfig",  "cmdline",      "config.gz",
    "diskstats", "dynamic_debug", "fs",          "interrupts",   "iomem",
    "ioports",   "kallsyms",      "kcore",       "key-users",    "keys",
    "kmsg",      "kpagecgroup",   "kpagecount",  "kpageflags",   "latency_stats",
    "locks",     "mdstat",        "modules",     "pagetypeinfo", "partitions",
    "pressure",  "sched_debug",   "scsi",        "slabinfo",     "softirqs",
    "swaps",     "timer_list",    "timer_stats", "vmallocinfo",
};
/* Where the box is until it is covered; seen from the root. */
#define BOX_PLACE "dev/shm"

/* Read-only where the sandbox's root owns it (a user namespace that owns the other namespaces). */
static const char *const read_only[] = {"bus", "fs", "irq", "sys"};

static int fail(struct cay_error *err, int r, const char *what) {
    return error_sys(err, -r, "%s", what);
}

/* ---- the root ---- */

/* Kernels that take overlay layers by name only: they are attached to the staging folder for a
 * moment. Returns a descriptor of the overlay's root. */
static int overlay_by_name(const struct rootfs_entry *e) {
    const struct {
        const char *name;
        int tree;
    } places[] = {
        {"l", e->root->lower}, {"b", e->root->box}, {"d", e->root->disk}, {"s", e->root->shift}};
    _cleanup_(closep) int stage = mounts_tmpfs(65536, 16, "0700", 0);
    if (stage < 0)
        return stage;
    if (move_mount(stage, "", AT_FDCWD, e->staging, MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
        fchdir(stage) < 0 || mkdirat(stage, "m", 0700) < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (places[i].tree >= 0 &&
            (mkdirat(stage, places[i].name, 0700) < 0 ||
             move_mount(places[i].tree, "", stage, places[i].name, MOVE_MOUNT_F_EMPTY_PATH) < 0))
            return -errno;
    return rootfs_overlay(e->root, e->trees, e->base, e->own_userns, "m");
}

/* Attaches the overlay somewhere in this mount namespace; returns a descriptor of its root. */
static int attach_root(const struct rootfs_entry *e) {
    if (!e->lean && !e->own_userns && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -errno;
    if (e->root->overlay < 0)
        return overlay_by_name(e);
    const char *at = e->lean ? "/" : e->staging;
    if (move_mount(e->root->overlay, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    int root = fcntl(e->root->overlay, F_DUPFD_CLOEXEC, 3);
    return root < 0 ? -errno : root;
}

/* Where nothing but an empty read-only tmpfs lies below, covering it is as good as pivoting, and
 * does not cost a walk over every process of the host. */
static int switch_root(bool lean) {
    if (lean)
        return chroot(".") < 0 ? -errno : 0;
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
        return -errno;
    return chdir("/") < 0 ? -errno : 0;
}

/* ---- folders of the image ---- */

static int attach_bind(const struct image_trees *t, size_t i, int root) {
    if (!t->shared)
        return mounts_attach(t->binds[i].fd, root, t->binds[i].target);
    _cleanup_(closep) int clone = mounts_clone(t->binds[i].fd, IMAGE_TREES_HELD, true, 0, -1);
    return clone < 0 ? clone : mounts_attach(clone, root, t->binds[i].target);
}

/* What a clone of something in e->root->nothing still lacks: the tree that is shared has it all. */
static unsigned hiding_attributes(const struct rootfs_entry *e) {
    return e->root->nothing == e->root->box ? ROOTFS_NOTHING_ATTRIBUTES : 0;
}

/* Over a folder that the image hides: an empty one, or one that the sandbox may write to. */
static int attach_mask(const struct rootfs_entry *e, const struct host_mask *m, int root) {
    unsigned attributes = e->spec->read_only ? MOUNT_ATTR_RDONLY : 0;
    if (!m->writable)
        return mounts_attach_clone(e->root->nothing, "void", root, m->path, hiding_attributes(e));
    if (e->root->local >= 0)
        return mounts_attach(e->root->local, root, m->path);
    int from = e->root->disk >= 0 ? e->root->disk : e->root->box;
    return mounts_attach_clone(from, "local", root, m->path, attributes);
}

static int attach_binds(const struct rootfs_entry *e, int root) {
    for (size_t i = 0; i < e->trees->bind_count; i++) {
        int r = attach_bind(e->trees, i, root);
        if (r < 0)
            return r;
    }
    size_t masks = e->trees->image != NULL ? e->trees->image->mask_count : 0;
    for (size_t i = 0; i < masks; i++) {
        const struct host_mask *m = &e->trees->image->masks[i];
        bool hidden_already = e->trees->shared && !m->writable;
        int r = hidden_already ? 0 : attach_mask(e, m, root);
        if (r < 0 && r != -ENOENT)
            return r;
    }
    return 0;
}

/* ---- /dev ---- */

/* In a user namespace nodes cannot be made, only bound. */
static int bind_nodes(int dev) {
    static const char *const nodes[] = {"null", "zero", "full", "random", "urandom", "tty"};
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
        char source[32];
        (void)snprintf(source, sizeof source, "/dev/%s", nodes[i]);
        int fd = openat(dev, nodes[i], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0)
            return -errno;
        (void)close(fd);
        int r = mounts_attach_clone(AT_FDCWD, source, dev, nodes[i],
                                    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
        if (r < 0)
            return r;
    }
    return 0;
}

/* A descriptor of it, attached. */
static int make_own_dev(int root) {
    _cleanup_(closep) int dev =
        mounts_tmpfs(65536, 64, "0755", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    if (dev < 0)
        return dev;
    int r = rootfs_make_dev_links(dev);
    if (r == 0)
        r = mounts_attach(dev, root, "dev");
    if (r == 0)
        r = bind_nodes(dev);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    if (r == 0 && mount_setattr(dev, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        r = -errno;
    return r < 0 ? r : TAKE_FD(dev);
}

/* The one that was made before, or a clone of it. */
static int attach_made_dev(const struct rootfs_entry *e, int root) {
    _cleanup_(closep) int dev =
        e->share_dev ? mounts_clone(e->dev, "", false, 0, -1) : fcntl(e->dev, F_DUPFD_CLOEXEC, 3);
    if (dev < 0)
        return e->share_dev ? dev : -errno;
    int r = mounts_attach(dev, root, "dev");
    return r < 0 ? r : TAKE_FD(dev);
}

/* A mount that was never attached costs a grace period of the kernel when its last descriptor is
 * closed; one that goes with its namespace does not. So the box itself goes below /dev/shm, and
 * cover_box() covers it with the folder of it that is meant to be there. */
static int attach_shm(const struct rootfs_entry *e, int dev) {
    bool detached = e->root->overlay >= 0;
    if (detached)
        return mounts_attach(e->root->box, dev, "shm");
    return mounts_attach_clone(e->root->box, "shm", dev, "shm", MOUNT_ATTR_NOEXEC);
}

/* Meanwhile files of the box can be bound by name, which is half the work of a clone that is made
 * detached. Both names are in our own /dev, where nobody could have put a symlink. The work folder
 * is the root. */
static int cover_box(const struct rootfs_entry *e) {
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOEXEC};
    if (e->root->overlay < 0)
        return 0;
    if (mount(BOX_PLACE "/shm", BOX_PLACE, NULL, MS_BIND, NULL) < 0 ||
        mount_setattr(AT_FDCWD, BOX_PLACE, 0, &attr, sizeof attr) < 0)
        return -errno;
    return 0;
}

static int attach_dev(const struct rootfs_entry *e, int root) {
    _cleanup_(closep) int dev = e->dev < 0 ? make_own_dev(root) : attach_made_dev(e, root);
    if (dev < 0)
        return dev;
    int r = mounts_attach(e->root->pts, dev, "pts");
    return r < 0 ? r : attach_shm(e, dev);
}

/* ---- /proc ---- */

void rootfs_find_masks(struct proc_masks *ret) {
    _Static_assert(ARRAY_LEN(masked) <= ROOTFS_MASKS_MAX, "more masks than there is room for");
    ret->count = 0;
    for (size_t i = 0; i < ARRAY_LEN(masked); i++) {
        char path[64];
        struct stat st;
        (void)snprintf(path, sizeof path, "/proc/%s", masked[i]);
        if (lstat(path, &st) < 0 || (st.st_mode & 0077) == 0)
            continue;
        ret->entry[ret->count].name = masked[i];
        ret->entry[ret->count++].is_dir = S_ISDIR(st.st_mode);
    }
}

/* Names in /proc are the kernel's own: no symlink can be in the way. */
static int mask_with(int from, const char *with, unsigned attributes, int proc, const char *name) {
    _cleanup_(closep) int tree = mounts_clone(from, with, false, attributes, -1);
    if (tree < 0)
        return tree;
    return move_mount(tree, "", proc, name, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

/* The sandbox's boot id is where the kernel has room for a text of each UTS namespace that nobody
 * has use for; nobody inside may write it. */
static int mask_boot_id(void) {
    return mount("sys/kernel/domainname", "sys/kernel/random/boot_id", NULL, MS_BIND, NULL) < 0
               ? -errno
               : 0;
}

/* The first file and the first folder get a clone of what hides, the others a bind of that one: it
 * is in this namespace already, so it needs no tree and no descriptor of its own. The work folder
 * is /proc meanwhile. */
static int mask_proc(const struct rootfs_entry *e, int proc) {
    const char *first[2] = {NULL, NULL};
    if (fchdir(proc) < 0)
        return -errno;
    for (size_t i = 0; i < e->masks->count; i++) {
        const char *name = e->masks->entry[i].name;
        bool is_dir = e->masks->entry[i].is_dir;
        if (first[is_dir] == NULL) {
            int r = mask_with(e->root->nothing, is_dir ? "void" : "none", hiding_attributes(e),
                              proc, name);
            if (r < 0)
                return r;
            first[is_dir] = name;
        } else if (mount(first[is_dir], name, NULL, MS_BIND, NULL) < 0) {
            return -errno;
        }
    }
    return mask_boot_id();
}

static int protect_proc(int proc) {
    for (size_t i = 0; i < ARRAY_LEN(read_only); i++) {
        _cleanup_(closep) int tree = mounts_clone(
            proc, read_only[i], true, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, -1);
        int r = tree == -ENOENT ? 0 : tree < 0 ? tree : mounts_attach(tree, proc, read_only[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

static int open_proc(int root) {
    int fd = openat(root, "proc", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The one mount that is not made detached first, which would be more work: it is of use here only.
 * A descriptor of it. */
static int mount_proc(int root) {
    _cleanup_(closep) int at = open_proc(root);
    if (at < 0)
        return at;
    if (fchdir(at) < 0 || mount("proc", ".", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return -errno;
    return open_proc(root);
}

static int attach_proc(const struct rootfs_entry *e, int root) {
    _cleanup_(closep) int proc = mount_proc(root);
    if (proc < 0)
        return proc;
    int r = mask_proc(e, proc);
    if (r == 0 && fchdir(root) < 0)
        r = -errno;
    return r == 0 && e->own_userns ? protect_proc(proc) : r;
}

/* ---- volumes ---- */

/* Makes the mount point with the rights of the sandbox's root, so that nothing is created where it
 * could not create it itself. */
static int make_target(int root, const char *target, bool is_dir) {
    char parent[SPEC_PATH_SIZE];
    if (is_dir)
        return path_make_dirs(root, target + 1);
    size_t len = (size_t)(strrchr(target, '/') - target);
    memcpy(parent, target, len);
    parent[len] = '\0';
    _cleanup_(closep) int dir = path_make_dirs(root, len == 0 ? "" : parent + 1);
    if (dir < 0)
        return dir;
    int fd = openat(dir, target + len + 1, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : fd;
}

static int attach_volume(const struct rootfs_entry *e, int root, size_t i) {
    const char *target = e->spec->mounts[i].target;
    (void)setfsgid(e->base);
    (void)setfsuid(e->base);
    _cleanup_(closep) int made = make_target(root, target, e->root->volumes[i].is_dir);
    (void)setfsuid(geteuid());
    (void)setfsgid(getegid());
    if (made < 0 && made != -EEXIST)
        return made;
    return mounts_attach(e->root->volumes[i].fd, root, target);
}

static int attach_volumes(const struct rootfs_entry *e, int root, struct cay_error *err) {
    for (size_t i = 0; i < e->root->volume_count; i++) {
        int r = attach_volume(e, root, i);
        if (r == 0)
            continue;
        error_sys(err, -r, "volume target '%.200s'", e->spec->mounts[i].target);
        if (r == -ELOOP || r == -ENOTDIR)
            return error_remedy(err, "a part of it is a symlink or a file inside the sandbox; name "
                                     "the real folder");
        if (r == -EISDIR)
            return error_remedy(err, "there is a folder inside, but the source is a file: name the "
                                     "file inside too");
        return error_remedy(err, "choose a target below a writable folder of the sandbox, such as "
                                 "/workspace");
    }
    return 0;
}

/* ---- a read-only root ---- */

static int make_read_only(const struct rootfs_entry *e, int root) {
    static const struct {
        const char *name, *path;
    } writable[] = {{"tmp", "tmp"}, {"tmp", "var/tmp"}, {"run", "run"}, {"work", "workspace"}};
    for (size_t i = 0; i < ARRAY_LEN(writable); i++) {
        int r = mounts_attach_clone(e->root->box, writable[i].name, root, writable[i].path, 0);
        if (r < 0 && r != -ENOENT)
            return r;
    }
    return 0;
}

static int remount_read_only(int root) {
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    return mount_setattr(root, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0 ? -errno : 0;
}

/* The sandbox's own group would be charged for what the kernel remembers of the first look, and the
 * kernel keeps lists of each file system for each group that has something there: 3 KB. */
static void look_up_proc(int root) {
    struct stat st;
    (void)fstatat(root, "proc", &st, AT_SYMLINK_NOFOLLOW); /* whoever mounts there will see */
}

int rootfs_assemble(const struct rootfs_entry *e, struct rootfs *root) {
    int r = root->overlay < 0 ? -EINVAL : attach_binds(e, root->overlay);
    if (r == -EINVAL)
        return 0;
    if (r == 0)
        r = attach_dev(e, root->overlay);
    if (r == 0)
        look_up_proc(root->overlay);
    root->assembled = r == 0;
    return r;
}

int rootfs_enter(const struct rootfs_entry *e, struct cay_error *err) {
    _cleanup_(closep) int root = attach_root(e);
    if (root < 0)
        return fail(err, root, "mounting the root file system");
    int r = fchdir(root) < 0 ? -errno : 0;
    if (r == 0 && !e->root->assembled)
        r = attach_binds(e, root);
    if (r < 0)
        return fail(err, r, "mounting the image's folders");
    r = e->root->assembled ? 0 : attach_dev(e, root);
    if (r < 0)
        return fail(err, r, "mounting /dev");
    r = attach_proc(e, root);
    if (r < 0)
        return fail(err, r, "mounting /proc");
    r = cover_box(e);
    if (r < 0)
        return fail(err, r, "mounting /dev/shm");
    r = e->spec->read_only ? make_read_only(e, root) : 0;
    if (r < 0)
        return fail(err, r, "making the writable folders");
    r = attach_volumes(e, root, err);
    if (r < 0)
        return r;
    r = e->spec->read_only ? remount_read_only(root) : 0;
    if (r < 0)
        return fail(err, r, "making the root read-only");
    r = switch_root(e->lean);
    return r < 0 ? fail(err, r, "switching to the new root") : 0;
}
