#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "image/copy_tree.h"
#include "image/store.h"
#include "image/store_files.h"

#define STALE ".stale-"

enum { BOOT_SIZE = 64, ASIDE_SIZE = 32 };

/* ---- whole or not ---- */

static int read_boot(char boot[static BOOT_SIZE]) {
    ssize_t n = fd_read_file_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, BOOT_SIZE);
    return n < 0 ? (int)n : n == 0 ? -EBADMSG : 0;
}

static bool is_settled(int layer) {
    struct stat st;
    return fstatat(layer, "settled", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

static bool is_of_this_boot(int layer) {
    char boot[BOOT_SIZE];
    _cleanup_(buf_free) struct buf kept = BUF_INIT(BOOT_SIZE);
    return read_boot(boot) == 0 && store_read_file(layer, "boot", &kept) == 0 &&
           strcmp(buf_text(&kept), boot) == 0;
}

bool store_layer_is_whole(int layer) {
    return is_settled(layer) || is_of_this_boot(layer);
}

/* ---- opening ---- */

static int open_layer_folder(int layers, const char *chain) {
    if (!hex_is_valid(chain))
        return -EINVAL;
    return path_open_no_symlinks(layers, chain, O_RDONLY | O_DIRECTORY, 0);
}

/* A shared lock. Whoever holds it exclusively is about to remove the layer. */
static int lock_layer(int layers, const char *chain, int layer) {
    _cleanup_(closep) int lock = store_open_file(layer, "lock", O_RDONLY);
    int r = lock < 0 ? lock : store_lock(lock, F_RDLCK, false);
    if (r < 0)
        return r == -EAGAIN ? -ENOENT : r;
    return store_is_same(layers, chain, layer) ? TAKE_FD(lock) : -ENOENT;
}

int store_open_layer_at(int layers, const char *chain, int *ret_lock) {
    _cleanup_(closep) int layer = open_layer_folder(layers, chain);
    if (layer < 0)
        return layer;
    if (!store_layer_is_whole(layer))
        return -ENOENT;
    _cleanup_(closep) int fs = path_open_no_symlinks(layer, "fs", O_PATH | O_DIRECTORY, 0);
    if (fs < 0)
        return fs;
    if (ret_lock != NULL) {
        int lock = lock_layer(layers, chain, layer);
        if (lock < 0)
            return lock;
        *ret_lock = lock;
    }
    return TAKE_FD(fs);
}

int image_store_open_layer(const struct image_store *store, const char *chain, int *ret_lock) {
    _cleanup_(closep) int layers = store_folder(store, "layers");
    return layers < 0 ? layers : store_open_layer_at(layers, chain, ret_lock);
}

bool image_store_has_layer(const struct image_store *store, const char *chain) {
    _cleanup_(closep) int fs = image_store_open_layer(store, chain, NULL);
    return fs >= 0;
}

/* ---- making ---- */

static int make_parts(int dir) {
    int r = copy_make_dir(dir, "fs", 0755);
    if (r == 0)
        r = copy_make_dir(dir, "work", 0700);
    return r == 0 ? copy_make_dir(dir, "merged", 0755) : r;
}

static int begin(int folder, struct layer_work *work) {
    int r = store_new_name("", work->name, sizeof work->name);
    if (r == 0)
        r = copy_make_dir(folder, work->name, 0700);
    if (r < 0)
        return r;
    work->dir = path_open_no_symlinks(folder, work->name, O_RDONLY | O_DIRECTORY, 0);
    if (work->dir < 0)
        return work->dir;
    work->lock = store_open_file(work->dir, "lock", O_RDWR | O_CREAT | O_EXCL);
    if (work->lock < 0)
        return work->lock;
    r = store_lock(work->lock, F_WRLCK, false);
    return r == 0 ? make_parts(work->dir) : r;
}

int image_store_begin_layer(const struct image_store *store, struct layer_work *ret,
                            struct cay_error *err) {
    struct layer_work work = LAYER_WORK_NONE;
    _cleanup_(closep) int folder = store_folder(store, "work");
    int r = folder < 0 ? folder : begin(folder, &work);
    if (r < 0) {
        image_store_abandon_layer(store, &work);
        return store_fail(err, -r, "making a folder for", "a new layer");
    }
    *ret = work;
    return 0;
}

void image_store_abandon_layer(const struct image_store *store, struct layer_work *work) {
    if (work->name[0] != '\0') {
        _cleanup_(closep) int folder = store_folder(store, "work");
        if (folder >= 0)
            (void)path_remove_tree(folder, work->name); /* else prune will */
    }
    if (work->lock >= 0) /* a child that was forked meanwhile must not keep it */
        (void)store_lock(work->lock, F_UNLCK, false);
    fd_close(&work->dir);
    fd_close(&work->lock);
    *work = LAYER_WORK_NONE;
}

/* Leaves what a finished layer has: fs, lock and boot. */
static int finish_parts(const struct layer_work *work) {
    char boot[BOOT_SIZE];
    int r = read_boot(boot);
    if (r == 0)
        r = path_remove_tree(work->dir, "merged");
    if (r == 0)
        r = path_remove_tree(work->dir, "work");
    if (r == 0)
        r = copy_text(work->dir, "boot", 0600, boot, strlen(boot));
    /* a sandbox may use it as soon as it has its name */
    return r == 0 ? store_lock(work->lock, F_RDLCK, false) : r;
}

/* 1 if there is a whole layer of this name, 0 if the name is free now, or -errno. aside is set
 * to where what may be hollow was moved. */
static int move_aside(int layers, int folder, const char *chain, char aside[static ASIDE_SIZE]) {
    _cleanup_(closep) int layer = open_layer_folder(layers, chain);
    if (layer < 0)
        return layer == -ENOENT ? 0 : layer;
    if (store_layer_is_whole(layer))
        return 1;
    int r = store_new_name(STALE, aside, ASIDE_SIZE);
    if (r < 0)
        return r;
    return renameat(layers, chain, folder, aside) < 0 ? -errno : 0;
}

/* As move_aside, for one process at a time: a second one could take the first's new layer for the
 * hollow one. No sandbox is on a layer that is not whole, since none outlives a boot. */
static int displace(const struct image_store *store, int folder, const char *chain) {
    char aside[ASIDE_SIZE] = "";
    _cleanup_(closep) int layers = store_folder_alone(store, "layers");
    int r = layers < 0 ? layers : move_aside(layers, folder, chain, aside);
    fd_close(&layers);
    return r == 0 && aside[0] != '\0' ? path_remove_tree(folder, aside) : r;
}

/* 0 if the name is taken now, 1 if another process's layer has it. */
static int give_name(const struct image_store *store, const struct layer_work *work,
                     const char *chain) {
    _cleanup_(closep) int layers = store_folder(store, "layers");
    _cleanup_(closep) int folder = store_folder(store, "work");
    if (layers < 0 || folder < 0)
        return MIN(layers, folder);
    for (;;) {
        if (renameat(folder, work->name, layers, chain) == 0)
            return 0;
        if (errno != EEXIST && errno != ENOTEMPTY)
            return -errno;
        int r = displace(store, folder, chain);
        if (r != 0)
            return r;
    }
}

int image_store_commit_layer(const struct image_store *store, struct layer_work *work,
                             const char *chain, struct cay_error *err) {
    if (!hex_is_valid(chain))
        return error_set(err, CAY_INVALID_ARGUMENT, "that is no name of a layer");
    int r = finish_parts(work);
    if (r == 0)
        r = give_name(store, work, chain);
    if (r < 0)
        return store_fail(err, -r, "finishing the layer", chain);
    if (r == 0)
        work->name[0] = '\0'; /* it is no longer there */
    image_store_abandon_layer(store, work);
    return 0;
}

/* ---- settling ---- */

static int visit_unsettled(void *user, int layers, const char *name) {
    struct strv *found = user;
    _cleanup_(closep) int layer = open_layer_folder(layers, name);
    if (layer < 0 || is_settled(layer) || !is_of_this_boot(layer))
        return 0;
    return strv_push(found, name);
}

static int mark_settled(int layers, const char *chain) {
    _cleanup_(closep) int layer = open_layer_folder(layers, chain);
    if (layer < 0)
        return layer == -ENOENT ? 0 : layer;
    int r = copy_text(layer, "settled", 0600, "", 0);
    return r == -EEXIST ? 0 : r;
}

int image_store_settle(const struct image_store *store) {
    _cleanup_(strv_free) struct strv found = {0};
    _cleanup_(closep) int layers = store_folder(store, "layers");
    int r = layers < 0 ? layers : path_each(layers, visit_unsettled, &found);
    if (r == 0 && found.len > 0 && syncfs(store->dir) < 0)
        r = -errno;
    for (size_t i = 0; r == 0 && i < found.len; i++)
        r = mark_settled(layers, found.v[i]);
    return r;
}
