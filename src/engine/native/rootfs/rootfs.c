/* Preparing a sandbox's file tree; entering it is rootfs/enter.c. */
#include "engine/native/rootfs/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "confine/idrange.h"
#include "confine/mounts.h"
#include "confine/syscalls.h"
#include "confine/userns.h"
#include "engine/native/rootfs/overlay.h"
#include "engine/native/rootfs/shift.h"
#include "engine/volume/volume.h"
#include "image/image.h"

enum {
    OWN_INODES = 48, /* folders and files of ours in the box, on top of what was asked for */
    LOWER_DEPTH_MAX = 16,
    DEV_BYTES = 64 * 1024,
    DEV_INODES = 64,
};

/* ---- /dev ---- */

static int make_nodes(int dev) {
    static const struct {
        const char *name;
        unsigned major, minor;
    } nodes[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                 {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
        if (mknodat(dev, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) <
            0)
            return -errno;
    return 0;
}

int rootfs_make_dev_links(int dev) {
    static const struct {
        const char *name, *target;
    } links[] = {{"fd", "/proc/self/fd"},
                 {"stdin", "/proc/self/fd/0"},
                 {"stdout", "/proc/self/fd/1"},
                 {"stderr", "/proc/self/fd/2"},
                 {"ptmx", "pts/ptmx"}};
    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        if (symlinkat(links[i].target, dev, links[i].name) < 0)
            return -errno;
    return mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0 ? -errno : 0;
}

int rootfs_make_dev(void) {
    unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
    _cleanup_(closep) int dev = mounts_tmpfs(DEV_BYTES, DEV_INODES, "0755", attributes);
    if (dev < 0)
        return dev;
    mode_t mask = umask(0);
    int r = make_nodes(dev);
    if (r == 0)
        r = rootfs_make_dev_links(dev);
    (void)umask(mask);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    if (r == 0 && mount_setattr(dev, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        r = -errno;
    return r < 0 ? r : TAKE_FD(dev);
}

/* ---- what hides things ---- */

static int make_file(int dir, const char *name, const char *text, uid_t owner) {
    _cleanup_(closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    int r = fd_write_all(fd, text, strlen(text));
    if (r == 0 && fchown(fd, owner, owner) < 0)
        r = -errno;
    return r;
}

static int make_nothing(int tree) {
    return mkdirat(tree, "void", 0555) < 0 ? -errno : make_file(tree, "none", "", 0);
}

int rootfs_make_nothing(void) {
    enum { BYTES = 4096, INODES = 4 };
    _cleanup_(closep) int tree = mounts_tmpfs(BYTES, INODES, "0555", 0);
    if (tree < 0)
        return tree;
    int r = make_nothing(tree);
    struct mount_attr attr = {.attr_set = ROOTFS_NOTHING_ATTRIBUTES};
    if (r == 0 && mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        r = -errno;
    return r < 0 ? r : TAKE_FD(tree);
}

/* ---- the box ---- */

struct box_dir {
    const char *name;
    mode_t mode;
    bool inside; /* belongs to root of the sandbox, not to us */
};

/* u, w: the overlay's layers. local, shm, tmp, run, work: folders that stay writable when something
 * read-only lies over or under them. */
static const struct box_dir box_dirs[] = {
    {"u", 0755, true},     {"w", 0755, false},   {"u/etc", 0755, true},
    {"local", 0755, true}, {"shm", 01777, true},
};
/* Mount points that an image may lack, or may have made a symlink or a file: what is in the upper
 * layer is what counts. */
static const struct box_dir image_dirs[] = {
    {"u/proc", 0555, true},
    {"u/dev", 0755, true},
    {"u/tmp", 01777, true},
    {"u/workspace", 0777, true},
};
static const struct box_dir read_only_image_dirs[] = {
    {"u/run", 0755, true},
};
static const struct box_dir read_only_dirs[] = {
    {"tmp", 01777, true},
    {"run", 0755, true},
    {"work", 0777, true},
};

static int make_box_dir(int box, const struct box_dir *d, uid_t base) {
    if (mkdirat(box, d->name, d->mode) < 0)
        return -errno;
    return d->inside && fchownat(box, d->name, base, base, 0) < 0 ? -errno : 0;
}

/* Identity that must differ between sandboxes, and from the host. Each file is a page: boot_id is
 * none of them (enter.c). */
static int make_identity(int box, const struct sandbox_spec *spec, uid_t base) {
    unsigned char rnd[16];
    char text[256];
    int r = id_random(rnd, sizeof rnd);
    if (r < 0)
        return r;
    for (size_t i = 0; i < sizeof rnd; i++)
        (void)snprintf(text + 2 * i, 4, "%02x\n", rnd[i]);
    r = make_file(box, "u/etc/machine-id", text, base);
    (void)snprintf(text, sizeof text, "%s\n", spec->hostname);
    if (r == 0)
        r = make_file(box, "u/etc/hostname", text, base);
    (void)snprintf(text, sizeof text, HOSTS_FORMAT, spec->hostname);
    if (r == 0)
        r = make_file(box, "u/etc/hosts", text, base);
    return r;
}

static int make_box_dirs(int box, const struct box_dir *dirs, size_t count, uid_t base) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = make_box_dir(box, &dirs[i], base);
    return r;
}

static int fill_box(int box, const struct sandbox_spec *spec, bool of_store, uid_t base) {
    mode_t mask = umask(0);
    int r = make_box_dirs(box, box_dirs, ARRAY_LEN(box_dirs), base);
    if (r == 0 && spec->read_only)
        r = make_box_dirs(box, read_only_dirs, ARRAY_LEN(read_only_dirs), base);
    if (r == 0 && of_store)
        r = make_box_dirs(box, image_dirs, ARRAY_LEN(image_dirs), base);
    if (r == 0 && of_store && spec->read_only)
        r = make_box_dirs(box, read_only_image_dirs, ARRAY_LEN(read_only_image_dirs), base);
    (void)umask(mask);
    return r == 0 ? make_identity(box, spec, base) : r;
}

/* ---- an image that cannot be id-mapped ---- */

static int copy_entries(int from, int to, uid_t base, int depth);

static int copy_file(int from, int to, const char *name, mode_t mode) {
    _cleanup_(closep) int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_(closep) int out =
        openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0777);
    if (in < 0 || out < 0)
        return -errno;
    for (;;) {
        ssize_t n = copy_file_range(in, NULL, out, NULL, 1 << 20, 0);
        if (n == 0)
            return fchmod(out, mode & 0777) < 0 ? -errno : 0;
        if (n < 0 && errno == EXDEV)
            break;
        if (n < 0)
            return -errno;
    }
    char data[16384];
    ssize_t n;
    while ((n = read(in, data, sizeof data)) > 0) {
        int r = fd_write_all(out, data, (size_t)n);
        if (r < 0)
            return r;
    }
    return n < 0 || fchmod(out, mode & 0777) < 0 ? -errno : 0;
}

static int copy_entry(int from, int to, const char *name, uid_t base, int depth) {
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    int r = 0;
    if (S_ISDIR(st.st_mode)) {
        if (mkdirat(to, name, 0700) < 0 || fchmodat(to, name, st.st_mode & 01777, 0) < 0)
            return -errno;
        _cleanup_(closep) int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_(closep) int out = openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = in < 0 || out < 0 ? -errno : copy_entries(in, out, base, depth + 1);
    } else if (S_ISLNK(st.st_mode)) {
        char target[1024];
        ssize_t n = readlinkat(from, name, target, sizeof target - 1);
        if (n < 0)
            return -errno;
        target[n] = '\0';
        r = symlinkat(target, to, name) < 0 ? -errno : 0;
    } else {
        r = copy_file(from, to, name, st.st_mode);
    }
    if (r == 0 && fchownat(to, name, base, base, AT_SYMLINK_NOFOLLOW) < 0)
        r = -errno;
    return r;
}

struct copying {
    int to;
    uid_t base;
    int depth;
};

static int copy_child(void *user, int from, const char *name) {
    const struct copying *c = user;
    return copy_entry(from, c->to, name, c->base, c->depth);
}

static int copy_entries(int from, int to, uid_t base, int depth) {
    struct copying c = {to, base, depth};
    return depth > LOWER_DEPTH_MAX ? -ELOOP : path_each(from, copy_child, &c);
}

/* The host image's root is small, so a copy with the right owners serves where the state folder's
 * file system knows no id maps. It counts neither against the disk limit nor the inode limit. */
static int copy_lower(const struct image_trees *trees, uid_t base, int *ret) {
    enum { BYTES = 64 * 1024 * 1024, INODES = 16384 };
    unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    _cleanup_(closep) int copy = mounts_tmpfs(BYTES, INODES, "0755", attributes);
    _cleanup_(closep) int from = openat(trees->lower_raw, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0 || from < 0)
        return copy < 0 ? copy : -errno;
    int r = copy_entries(from, copy, base, 0);
    if (r == 0)
        *ret = TAKE_FD(copy);
    return r;
}

/* An image of the store is too large to be copied. */
static int shift_lower(struct rootfs *root, const struct image_trees *trees) {
    root->lower = mounts_clone(trees->lower_raw, "", false, MOUNTS_BIND_ATTRIBUTES, -1);
    if (root->lower < 0)
        return root->lower;
    root->lower_owned = true;
    root->shift = shift_make();
    return MIN(root->shift, 0);
}

static int choose_lower(struct rootfs *root, const struct image_trees *trees, uid_t base) {
    root->lower = trees->lower;
    if (root->lower >= 0)
        return 0;
    if (trees->store != NULL)
        return shift_lower(root, trees);
    int r = copy_lower(trees, base, &root->lower);
    root->lower_owned = r == 0;
    return r;
}

/* ---- volumes ---- */

/* A user namespace that maps the owner of the volume to the sandbox's user, so that what the
 * sandbox writes there belongs to the owner outside. */
static int volume_idmap(const struct sandbox_spec *spec, const struct stat *st, uid_t base,
                        struct cay_error *err) {
    struct id_map uids = {(uint32_t)st->st_uid, base + spec->run_uid, 1};
    struct id_map gids = {(uint32_t)st->st_gid, base + spec->run_gid, 1};
    return userns_create(&uids, &gids, err);
}

/* By descriptor from here on: whoever writes above it could put another folder in its place. */
static int open_source(const struct rootfs_owner *owner, const struct mount_spec *m,
                       enum volume_kind *ret, struct cay_error *err) {
    *ret = VOLUME_FOLDER;
    if (owner->volumes != NULL)
        return volume_open(owner->volumes, m, ret, err);
    if (m->named)
        return error_set(err, CAY_UNSUPPORTED, "named volumes are the daemon's");
    int fd = open(m->source, O_PATH | O_CLOEXEC);
    return fd < 0 ? error_errno(err, "volume source '%s'", m->source) : fd;
}

/* A named volume that is a disk: a mount for this sandbox alone. */
static int take_mount(int source, unsigned attributes, int idmap) {
    int r = mounts_set(source, attributes, idmap);
    if (r < 0)
        return r;
    int fd = fcntl(source, F_DUPFD_CLOEXEC, 3);
    return fd < 0 ? -errno : fd;
}

/* A folder of the host, id-mapped; read-only, one that knows no maps is shown as it is. */
static int clone_folder(int source, const struct sandbox_spec *spec, const struct mount_spec *m,
                        const struct rootfs_owner *owner, unsigned attributes,
                        struct cay_error *err) {
    struct stat st;
    if (owner->own_userns) {
        int fd = mounts_clone(source, "", false, attributes, -1);
        return fd == -EINVAL ? mounts_clone(source, "", true, attributes, -1) : fd;
    }
    if (fstat(source, &st) < 0)
        return -errno;
    _cleanup_(closep) int map = volume_idmap(spec, &st, owner->base, err);
    int fd = map < 0 ? -err->sys : mounts_clone(source, "", false, attributes, map);
    return fd < 0 && m->read_only ? mounts_clone(source, "", false, attributes, -1) : fd;
}

static int mount_volume(int source, enum volume_kind kind, const struct sandbox_spec *spec,
                        const struct mount_spec *m, const struct rootfs_owner *owner,
                        struct cay_error *err) {
    unsigned attributes =
        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (m->read_only ? MOUNT_ATTR_RDONLY : 0);
    if (kind == VOLUME_MOUNT)
        return take_mount(source, attributes, owner->idmap);
    if (kind == VOLUME_UNMAPPED)
        return mounts_clone(source, "", false, attributes | MOUNT_ATTR_RDONLY, -1);
    return m->named ? mounts_clone(source, "", false, attributes, owner->idmap)
                    : clone_folder(source, spec, m, owner, attributes, err);
}

static int open_volume(const struct sandbox_spec *spec, const struct mount_spec *m,
                       const struct rootfs_owner *owner, int *ret, struct cay_error *err) {
    struct stat st;
    enum volume_kind kind;
    _cleanup_(closep) int source = open_source(owner, m, &kind, err);
    if (source < 0)
        return source;
    if (fstat(source, &st) < 0)
        return error_errno(err, "volume source '%s'", m->source);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return error_set(err, CAY_CONFLICT, "volume source '%s' was replaced", m->source);
    int fd = mount_volume(source, kind, spec, m, owner, err);
    if (fd < 0) {
        error_sys(err, -fd, "volume '%s' cannot be mapped to the sandbox's ids", m->source);
        return error_remedy(err, "its file system knows no id-mapped mounts: mount it read-only "
                                 "(:ro), or use another folder");
    }
    *ret = fd;
    return S_ISDIR(st.st_mode);
}

static int open_volumes(struct rootfs *root, const struct sandbox_spec *spec,
                        const struct rootfs_owner *owner, struct cay_error *err) {
    for (size_t i = 0; i < spec->mount_count; i++) {
        int fd = -1;
        int r = open_volume(spec, &spec->mounts[i], owner, &fd, err);
        if (r < 0)
            return r;
        root->volumes[i].fd = fd;
        root->volumes[i].is_dir = r != 0;
        root->volume_count++;
    }
    return 0;
}

/* ---- terminals ---- */

static int make_pts(uid_t base, bool own_userns) {
    enum { TTY_GROUP = 5 };
    char gid[16];
    (void)snprintf(gid, sizeof gid, "%u", own_userns ? 0 : base + TTY_GROUP);
    const char *options[] = {"ptmxmode", "0666", "mode", "0620", "max", "64", "gid", gid, NULL};
    return mounts_simple("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

/* ---- all of it ---- */

void rootfs_close(struct rootfs *r) {
    fd_close(&r->box);
    fd_close(&r->overlay);
    fd_close(&r->shift);
    fd_close(&r->disk);
    fd_close(&r->local);
    fd_close(&r->pts);
    if (r->lower_owned)
        fd_close(&r->lower);
    for (size_t i = 0; i < r->volume_count; i++)
        fd_close(&r->volumes[i].fd);
    *r = ROOTFS_EMPTY;
}

static bool kernel_is_at_least(unsigned major, unsigned minor) {
    struct utsname name;
    unsigned have_major, have_minor;
    if (uname(&name) < 0 || sscanf(name.release, "%u.%u", &have_major, &have_minor) != 2)
        return false;
    return have_major > major || (have_major == major && have_minor >= minor);
}

/* Folders of the box are put in several places, which before 6.15 only works for one that is
 * attached: then the overlay is made by name, beside the attached box. */
static bool box_can_be_cloned(const struct rootfs *root) {
    /* Trying costs a grace period: only where the version does not tell, and once. */
    static enum { UNKNOWN, NO, YES } kernel_can;
    if (kernel_can == UNKNOWN && kernel_is_at_least(6, 15))
        kernel_can = YES;
    if (kernel_can == UNKNOWN) {
        _cleanup_(closep) int clone = mounts_clone(root->box, "void", false, 0, -1);
        kernel_can = clone >= 0 ? YES : NO;
    }
    return kernel_can == YES;
}

static int make_overlay(struct rootfs *root, const struct image_trees *trees,
                        const struct rootfs_owner *owner) {
    if (!box_can_be_cloned(root))
        return 0;
    root->overlay = rootfs_overlay(root, trees, owner->base, owner->own_userns, NULL);
    if (root->overlay == -EINVAL || root->overlay == -EOPNOTSUPP) /* unknown to this kernel */
        root->overlay = -1;
    return root->overlay < -1 ? root->overlay : 0;
}

/* A mount of its own gets the sandbox's ids itself. */
static int take_disk(const struct rootfs_owner *owner) {
    int r = mounts_set(owner->disk, 0, owner->idmap);
    if (r < 0)
        return r;
    int disk = fcntl(owner->disk, F_DUPFD_CLOEXEC, 3);
    return disk < 0 ? -errno : disk;
}

/* Where /usr is the host's, what is written to /usr/local lies beside it. */
static int clone_disk(struct rootfs *root, const struct rootfs_owner *owner, bool local,
                      bool read_only) {
    unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    root->disk = owner->disk_is_mount
                     ? take_disk(owner)
                     : mounts_clone(owner->disk, "", false, attributes, owner->idmap);
    if (root->disk < 0 || !local)
        return MIN(root->disk, 0);
    if (owner->disk_is_mount && !box_can_be_cloned(root))
        return 0; /* nor can this one, until it is attached */
    attributes |= read_only ? MOUNT_ATTR_RDONLY : 0;
    root->local = mounts_clone(owner->disk, "local", false, attributes,
                               owner->disk_is_mount ? -1 : owner->idmap);
    return MIN(root->local, 0);
}

static int open_disk(struct rootfs *root, const struct rootfs_owner *owner, bool local,
                     bool read_only, struct cay_error *err) {
    int r = owner->disk < 0 ? 0 : clone_disk(root, owner, local, read_only);
    if (r == 0)
        return 0;
    error_sys(err, -r, "mapping the ids of the folder for what is written");
    return error_remedy(err, "its file system must know id-mapped mounts: put the state folder "
                             "on ext4, xfs or btrfs");
}

int rootfs_prepare(const struct sandbox_spec *spec, const struct image_trees *trees,
                   const struct rootfs_owner *owner, struct rootfs *ret, struct cay_error *err) {
    uid_t base = owner->base;
    _cleanup_(rootfs_close) struct rootfs root = ROOTFS_EMPTY;
    root.box = mounts_tmpfs(spec->disk_bytes, spec->inodes + OWN_INODES, "0755",
                            MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (root.box < 0)
        return error_sys(err, -root.box, "making the writable layer");
    int r = fill_box(root.box, spec, trees->store != NULL, base);
    if (r == 0 && owner->nothing < 0)
        r = make_nothing(root.box);
    if (r < 0)
        return error_sys(err, -r, "filling the writable layer");
    root.nothing = owner->nothing < 0 ? root.box : owner->nothing;
    r = choose_lower(&root, trees, base);
    if (r < 0)
        return error_sys(err, -r, "giving the image's files the sandbox's ids");
    r = open_disk(&root, owner, trees->image != NULL, spec->read_only, err);
    if (r < 0)
        return r;
    r = make_overlay(&root, trees, owner);
    if (r < 0) {
        error_sys(err, -r, "mounting the overlay");
        return error_remedy(err, "the kernel needs overlayfs (modprobe overlay)");
    }
    root.pts = make_pts(base, owner->own_userns);
    if (root.pts < 0)
        return error_sys(err, -root.pts, "making /dev/pts");
    r = open_volumes(&root, spec, owner, err);
    if (r < 0)
        return r;
    *ret = root;
    root = ROOTFS_EMPTY;
    return 0;
}
