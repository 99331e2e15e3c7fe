#include "imager/transfer/temp_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "imager/layer/digest.h"

enum { COPY_SIZE = 1024 * 1024 };
static const uint64_t SPOOL_MAX = UINT64_C(64) << 30;
static const uint64_t DISK_RESERVE = UINT64_C(64) << 20; /* of other users of the disk */

/* Not every file system has files that were never named. */
static int open_unlinked(int dir) {
    char id[ID_SIZE], name[64];
    if (id_new(id, NULL) < 0 || str_format(name, sizeof name, "work/.new-%s", id) < 0)
        return -EIO;
    int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    (void)unlinkat(dir, name, 0);
    return fd;
}

int spool_open(const struct image_store *store, struct cay_error *err) {
    int fd = openat(store->dir, "work", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR))
        fd = open_unlinked(store->dir);
    else if (fd < 0)
        fd = -errno;
    return fd < 0 ? error_sys(err, -fd, "making a temporary file in the image store") : fd;
}

uint64_t spool_limit(int fd) {
    struct statvfs fs;
    if (fstatvfs(fd, &fs) < 0)
        return SPOOL_MAX;
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    return free_bytes < DISK_RESERVE ? 0 : MIN(SPOOL_MAX, free_bytes - DISK_RESERVE);
}

int spool_blob_begin(const struct image_store *store, struct spool_blob *ret,
                     struct cay_error *err) {
    *ret = (struct spool_blob){.fd = spool_open(store, err), .digest = digest_new()};
    if (ret->fd < 0)
        return ret->fd;
    return ret->digest == NULL ? error_sys(err, ENOMEM, "writing a blob") : 0;
}

int spool_blob_write(void *blob, const void *data, size_t len, struct cay_error *err) {
    struct spool_blob *b = blob;
    int r = fd_write_all(b->fd, data, len);
    if (r < 0)
        return error_sys(err, -r, "writing to the image store");
    digest_update(b->digest, data, len);
    b->size += len;
    return 0;
}

int spool_blob_finish(struct spool_blob *blob, char hex[static HEX_SIZE], struct cay_error *err) {
    digest_finish(blob->digest, hex);
    return hex[0] == '\0' ? error_sys(err, ENOMEM, "computing a digest") : 0;
}

void spool_blob_free(struct spool_blob *blob) {
    fd_close(&blob->fd);
    digest_free(blob->digest);
    *blob = SPOOL_BLOB_NONE;
}

static int copy_by_hand(int from, off_t at, uint64_t size, int to) {
    _cleanup_(freep) char *data = malloc(COPY_SIZE);
    if (data == NULL)
        return -ENOMEM;
    while (size > 0) {
        ssize_t n = pread(from, data, (size_t)MIN(size, (uint64_t)COPY_SIZE), at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? -ENODATA : -errno;
        int r = fd_write_all(to, data, (size_t)n);
        if (r < 0)
            return r;
        at += n;
        size -= (uint64_t)n;
    }
    return 0;
}

int spool_copy(int from, uint64_t offset, uint64_t size, int to) {
    off_t at = (off_t)offset;
    if (ftruncate(to, 0) < 0 || lseek(to, 0, SEEK_SET) < 0)
        return -errno;
    while (size > 0) {
        ssize_t n = copy_file_range(from, &at, to, NULL, (size_t)MIN(size, UINT64_C(1) << 30), 0);
        if (n <= 0) /* between file systems, or at the end: as it was done before */
            return copy_by_hand(from, at, size, to);
        size -= (uint64_t)n;
    }
    return 0;
}

int spool_blob_keep(const struct image_store *store, const struct spool_blob *blob, const char *hex,
                    struct cay_error *err) {
    struct blob_work work;
    int r = image_store_begin_blob(store, hex, &work, err);
    if (r != 0)
        return MIN(r, 0); /* 1: it is there */
    r = spool_copy(blob->fd, 0, blob->size, work.fd);
    if (r == 0)
        return image_store_commit_blob(store, &work, err);
    image_store_leave_blob(store, &work, false);
    return error_sys(err, -r, "writing blob %.12s", hex);
}
