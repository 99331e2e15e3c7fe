#include "image/host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"
#include "image/copy_tree.h"
#include "image/host_skeleton.h"

/* In the store (STATE/images/host): one folder for each fingerprint with `lock` and `rootfs`, and
 * these. Who holds BUILD_LOCK may make and remove; the two folders are its work in progress, so
 * found by the next holder they are what a killed one left. */
#define BUILD_LOCK "lock"
#define BUILDING   ".new"
#define REMOVING   ".old"

enum {
    BUILD_WAIT_MS = 30 * 1000,
    KEEP_UNUSED_S = 24 * 3600,
    USED_STAMP_S = 3600, /* the time of use is exact to this, so that most opens write nothing */
};

/* Site-wide software and settings: not the distribution's, and telling whose host it is.
 * /usr/etc has npm's registry settings, tokens included. */
static const struct host_mask masks[] = {
    {"/usr/local", true},
    {"/usr/src", false},
    {"/usr/etc", false},
};
_Static_assert(ARRAY_LEN(masks) == HOST_MASKS_MAX, "masks fit");

static const struct host_bind top_binds[HOST_TOP_COUNT] = {
    {"/bin", "/bin"},     {"/sbin", "/sbin"},   {"/lib", "/lib"},
    {"/lib32", "/lib32"}, {"/lib64", "/lib64"}, {"/libx32", "/libx32"},
};

struct host {
    int root; /* O_PATH of its "/" */
    struct host_layout layout;
};

void host_image_close(struct host_image *image) {
    fd_close(&image->root_fd);
    fd_close(&image->lock_fd);
}

static void list_mounts(const struct host *host, struct host_image *image) {
    struct stat st;
    image->binds[image->bind_count++] = (struct host_bind){"/usr", "/usr"};
    for (size_t i = 0; i < HOST_TOP_COUNT; i++)
        if (host->layout.tops[i] == HOST_TOP_FOLDER)
            image->binds[image->bind_count++] = top_binds[i];
    for (size_t i = 0; i < ARRAY_LEN(masks); i++)
        if (fstatat(host->root, masks[i].path + 1, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(st.st_mode))
            image->masks[image->mask_count++] = masks[i];
}

/* Remembers when the image was last used. A read-only store is no reason to fail. */
static void stamp_use(int lock, const struct stat *st) {
    if (time(NULL) - st->st_mtime > USED_STAMP_S)
        (void)futimens(lock, NULL);
}

/* Opens a finished image. -ENOENT if there is none, or it is just being removed. */
static int open_ready(int store, struct host_image *image) {
    char path[HOST_FINGERPRINT_SIZE + 16];
    if (str_format(path, sizeof path, "%s/lock", image->fingerprint) < 0)
        return -ENAMETOOLONG;
    _cleanup_(closep) int lock = openat(store, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (lock < 0)
        return -errno;
    struct stat st;
    if (flock(lock, LOCK_SH | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -ENOENT : -errno;
    if (fstat(lock, &st) < 0)
        return -errno;
    if (st.st_nlink == 0)
        return -ENOENT;
    if (str_format(path, sizeof path, "%s/rootfs", image->fingerprint) < 0)
        return -ENAMETOOLONG;
    int root = openat(store, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0)
        return -errno;
    stamp_use(lock, &st);
    image->root_fd = root;
    image->lock_fd = TAKE_FD(lock);
    return 0;
}

/* An fd that holds the store's build lock until it is closed, or -errno (-ETIMEDOUT). */
static int take_build_lock(int store) {
    _cleanup_(closep) int fd =
        openat(store, BUILD_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int64_t deadline = clock_deadline(BUILD_WAIT_MS);
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return -errno;
        if (clock_expired(deadline))
            return -ETIMEDOUT;
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return TAKE_FD(fd);
}

/* Moves a folder aside first, so that a half-removed one never looks finished. */
static int discard(int store, const char *name) {
    int r = path_remove_tree(store, REMOVING);
    if (r < 0)
        return r;
    if (renameat(store, name, store, REMOVING) < 0)
        return errno == ENOENT ? 0 : -errno;
    return path_remove_tree(store, REMOVING);
}

/* Removes the image `name` if nobody has used it for a day and nobody has it open. */
static void collect_one(int store, const char *name) {
    char path[HOST_FINGERPRINT_SIZE + 16];
    if (str_format(path, sizeof path, "%s/lock", name) < 0)
        return;
    struct stat st;
    _cleanup_(closep) int lock = openat(store, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (lock < 0 || fstat(lock, &st) < 0)
        return;
    if (time(NULL) - st.st_mtime < KEEP_UNUSED_S || flock(lock, LOCK_EX | LOCK_NB) < 0)
        return;
    (void)discard(store, name); /* tried again at the next build */
}

static void collect_old(int store, const char *current) {
    int copy = openat(store, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0)
        return;
    _cleanup_(closedirp) DIR *d = fdopendir(copy);
    if (d == NULL) {
        (void)close(copy);
        return;
    }
    for (;;) {
        const struct dirent *e = readdir(d); /* NOLINT(concurrency-mt-unsafe): own stream */
        if (e == NULL)
            return;
        if (id_is_valid(e->d_name) && strcmp(e->d_name, current) != 0)
            collect_one(store, e->d_name);
    }
}

/* Fills BUILDING and gives it its name. */
static int build_folder(const struct host *host, int store, const char *name,
                        struct cay_error *err) {
    int r = path_remove_tree(store, BUILDING);
    if (r == 0)
        r = copy_make_dir(store, BUILDING, 0755);
    if (r == 0)
        r = copy_make_dir(store, BUILDING "/rootfs", 0755);
    if (r == 0)
        r = copy_text(store, BUILDING "/lock", 0600, "", 0);
    if (r < 0)
        return error_sys(err, -r, "creating the host image");
    _cleanup_(closep) int dest =
        openat(store, BUILDING "/rootfs", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dest < 0)
        return error_errno(err, "creating the host image");
    r = host_skeleton_build(host->root, &host->layout, dest, err);
    if (r < 0)
        return r;
    r = discard(store, name); /* there only if somebody damaged it */
    if (r < 0)
        return error_sys(err, -r, "removing a damaged host image");
    if (renameat(store, BUILDING, store, name) < 0)
        return error_errno(err, "creating the host image");
    return 0;
}

static int build(const struct host *host, int store, struct host_image *image,
                 struct cay_error *err) {
    _cleanup_(closep) int lock = take_build_lock(store);
    if (lock < 0)
        return error_sys(err, -lock, "waiting for another process that makes the host image");
    if (open_ready(store, image) == 0)
        return 0; /* the other process made it */
    int r = build_folder(host, store, image->fingerprint, err);
    if (r < 0) {
        (void)path_remove_tree(store, BUILDING); /* the error that counts is the first */
        return r;
    }
    r = open_ready(store, image);
    if (r < 0)
        return error_sys(err, -r, "opening the host image");
    collect_old(store, image->fingerprint);
    return 0;
}

static int make_store(int state, struct cay_error *err) {
    _cleanup_(closep) int made = path_make_dirs(state, "images/host");
    if (made < 0)
        return error_sys(err, -made, "creating the folder images/host");
    int store = openat(made, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return store < 0 ? error_errno(err, "opening the folder images/host") : store;
}

static int open_or_build(const struct host *host, int state, struct host_image *image,
                         struct cay_error *err) {
    _cleanup_(closep) int store =
        openat(state, "images/host", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (store >= 0 && open_ready(store, image) == 0)
        return 0;
    fd_close(&store);
    store = make_store(state, err);
    return store < 0 ? store : build(host, store, image, err);
}

static int open_state(const char *state_dir, struct cay_error *err) {
    int state = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return state < 0 ? error_errno(err, "opening it") : state;
}

int host_image_open_from(const char *host_root, const char *state_dir, struct host_image *ret,
                         struct cay_error *err) {
    _cleanup_(closep) int root = open(host_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_errno(err, "opening the host's root '%s'", host_root);
    struct host_image image = HOST_IMAGE_NONE;
    struct host host = {.root = root};
    uint64_t fingerprint = host_skeleton_fingerprint(root, &host.layout);
    list_mounts(&host, &image);
    if (str_format(image.fingerprint, sizeof image.fingerprint, "%016" PRIx64, fingerprint) < 0)
        return error_set(err, CAY_INTERNAL, "host image: fingerprint too long");
    _cleanup_(closep) int state = open_state(state_dir, err);
    int r = state < 0 ? state : open_or_build(&host, state, &image, err);
    if (r < 0) {
        (void)error_prefix(err, "host image in the state folder '%s'", state_dir);
        return error_remedy(err, "make it a folder with free space that you can write to, or name "
                                 "another with --state-dir");
    }
    *ret = image;
    return 0;
}

int host_image_open(const char *state_dir, struct host_image *ret, struct cay_error *err) {
    return host_image_open_from("/", state_dir, ret, err);
}
