#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "image/store.h"
#include "image/store_files.h"

int image_store_open_blob(const struct image_store *store, const char *hex) {
    if (!hex_is_valid(hex))
        return -EINVAL;
    _cleanup_(closep) int folder = store_folder(store, "blobs");
    return folder < 0 ? folder : store_open_file(folder, hex, O_RDONLY);
}

static bool has_blob(int blobs, const char *hex) {
    _cleanup_(closep) int fd = store_open_file(blobs, hex, O_RDONLY);
    return fd >= 0;
}

/* The file of a blob in the making. An owner has files of his own: neither what another one
 * downloads just now nor what he left behind may be noticed. */
static void name_file(const struct image_store *store, struct blob_work *work) {
    bool is_shared = store->owner[0] == '\0';
    (void)snprintf(work->file, sizeof work->file, "%s%s%s", work->hex, is_shared ? "" : ".",
                   store->owner);
}

/* Whether the blob is there, as far as the owner may know. */
static bool is_done(const struct image_store *store, int blobs, const char *hex) {
    return image_store_knows(store, hex) && has_blob(blobs, hex);
}

/* Opens and locks ingest/HEX. What was locked may have got its final name, or been dropped, while
 * we waited: then it is no longer the file of that name. An fd, or -errno. */
static int lock_ingest(int ingest, const char *hex) {
    for (;;) {
        _cleanup_(closep) int fd = store_open_file(ingest, hex, O_RDWR | O_CREAT);
        int r = fd < 0 ? fd : store_lock(fd, F_WRLCK, true);
        if (r < 0)
            return r;
        if (store_is_same(ingest, hex, fd))
            return TAKE_FD(fd);
    }
}

int image_store_begin_blob(const struct image_store *store, const char *hex, struct blob_work *ret,
                           struct cay_error *err) {
    struct blob_work work = {.fd = -1};
    if (!hex_is_valid(hex))
        return error_set(err, CAY_INVALID_ARGUMENT, "that is no digest of a blob");
    memcpy(work.hex, hex, HEX_SIZE);
    name_file(store, &work);
    _cleanup_(closep) int blobs = store_folder(store, "blobs");
    _cleanup_(closep) int ingest = store_folder(store, "ingest");
    if (blobs < 0 || ingest < 0)
        return store_fail(err, blobs < 0 ? -blobs : -ingest, "opening the folders of", "blobs");
    bool done = is_done(store, blobs, hex);
    _cleanup_(closep) int fd = done ? -1 : lock_ingest(ingest, work.file);
    struct stat st = {0};
    if (!done && (fd < 0 || fstat(fd, &st) < 0))
        return store_fail(err, fd < 0 ? -fd : errno, "opening the unfinished blob", hex);
    if (!done && is_done(store, blobs, hex)) { /* whoever we waited for finished it */
        (void)unlinkat(ingest, work.file, 0);
        done = true;
    }
    if (!done) {
        work.fd = TAKE_FD(fd);
        work.offset = (uint64_t)st.st_size;
    }
    *ret = work;
    return done ? 1 : 0;
}

/* A child that was forked meanwhile and still has the descriptor must not keep the lock. */
static void release(struct blob_work *work) {
    (void)store_lock(work->fd, F_UNLCK, false);
    fd_close(&work->fd);
}

static int publish(const struct image_store *store, const struct blob_work *work) {
    _cleanup_(closep) int blobs = store_folder(store, "blobs");
    _cleanup_(closep) int ingest = store_folder(store, "ingest");
    if (blobs < 0 || ingest < 0)
        return MIN(blobs, ingest);
    if (fsync(work->fd) < 0 || renameat(ingest, work->file, blobs, work->hex) < 0 ||
        fsync(blobs) < 0)
        return -errno;
    return 0;
}

int image_store_commit_blob(const struct image_store *store, struct blob_work *work,
                            struct cay_error *err) {
    if (work->fd < 0)
        return 0;
    int r = publish(store, work);
    if (r < 0)
        return store_fail(err, -r, "finishing the blob", work->hex);
    release(work);
    return 0;
}

void image_store_leave_blob(const struct image_store *store, struct blob_work *work, bool keep) {
    if (work->fd < 0)
        return;
    if (!keep) {
        _cleanup_(closep) int ingest = store_folder(store, "ingest");
        if (ingest >= 0 && store_is_same(ingest, work->file, work->fd))
            (void)unlinkat(ingest, work->file, 0);
    }
    release(work);
}

int image_store_put_blob(const struct image_store *store, const char *hex, const void *data,
                         size_t len, struct cay_error *err) {
    if (!hex_is_valid(hex))
        return error_set(err, CAY_INVALID_ARGUMENT, "that is no digest of a blob");
    _cleanup_(closep) int blobs = store_folder(store, "blobs");
    int r = blobs < 0 ? blobs : 0;
    if (r == 0 && !has_blob(blobs, hex))
        r = store_write_file(blobs, hex, data, len);
    return r < 0 ? store_fail(err, -r, "writing the blob", hex) : 0;
}
