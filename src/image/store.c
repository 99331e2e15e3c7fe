#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "image/copy_tree.h"
#include "image/store_files.h"

static const char *const folders[] = {"blobs", "ingest", "layers", "work", "records", "names"};

/* ---- making it ---- */

/* Only for what nobody else can reach yet. */
static int give(int dir, const char *name, uid_t owner) {
    if (owner == geteuid())
        return 0;
    return fchownat(dir, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int fill(int dir, uid_t owner) {
    int r = copy_text(dir, "lock", 0600, "", 0);
    if (r == 0)
        r = give(dir, "lock", owner);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(folders); i++) {
        r = copy_make_dir(dir, folders[i], 0700);
        if (r == 0)
            r = give(dir, folders[i], owner);
    }
    return r;
}

/* The store is complete before it has its name: its owner, who may not be trusted, can change
 * nothing while we work in it. */
static int make(int images, const char *temporary, uid_t owner) {
    int r = copy_make_dir(images, temporary, 0700);
    if (r < 0)
        return r;
    _cleanup_(closep) int dir =
        openat(images, temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    r = fill(dir, owner);
    if (r == 0)
        r = give(images, temporary, owner);
    if (r == 0 && renameat(images, temporary, images, "store") < 0)
        r = errno == EEXIST || errno == ENOTEMPTY ? 1 : -errno;
    return r;
}

static int create(const char *state_dir, uid_t owner) {
    _cleanup_(closep) int state = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return -errno;
    if (mkdirat(state, "images", 0700) < 0 && errno != EEXIST)
        return -errno;
    _cleanup_(closep) int images =
        path_open_no_symlinks(state, "images", O_RDONLY | O_DIRECTORY, 0);
    if (images < 0)
        return images;
    char temporary[32];
    int r = store_new_name(".store-", temporary, sizeof temporary);
    if (r == 0)
        r = make(images, temporary, owner);
    if (r != 0) /* failed, or another process was first */
        (void)path_remove_tree(images, temporary);
    return MIN(r, 0);
}

/* ---- opening it ---- */

static int open_lock(int dir, struct cay_error *err) {
    _cleanup_(closep) int lock = store_open_file(dir, "lock", O_RDWR);
    int r = lock < 0 ? lock : store_lock(lock, F_RDLCK, true);
    return r < 0 ? store_fail(err, -r, "locking", "it") : TAKE_FD(lock);
}

int image_store_open(const char *state_dir, bool create_it, uid_t owner, struct image_store *ret,
                     struct cay_error *err) {
    _cleanup_(closep) int dir = store_open_folder(state_dir);
    if (dir == -ENOENT && create_it) {
        int r = create(state_dir, owner);
        if (r < 0)
            return store_fail(err, -r, "creating it in the state folder", state_dir);
        dir = store_open_folder(state_dir);
    }
    if (dir == -ENOENT)
        return error_set(err, CAY_NOT_FOUND, "there are no images in the state folder '%s' yet",
                         state_dir);
    if (dir < 0)
        return store_fail(err, -dir, "opening it in the state folder", state_dir);
    int lock = open_lock(dir, err);
    if (lock < 0)
        return lock;
    *ret = (struct image_store){.dir = TAKE_FD(dir), .lock = lock};
    return 0;
}

void image_store_close(struct image_store *store) {
    image_store_forget(store);
    fd_close(&store->dir);
    fd_close(&store->lock);
}
