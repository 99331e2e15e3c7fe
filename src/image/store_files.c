#include "image/store_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"

int store_open_folder(const char *state_dir) {
    /* the folders above the store are ours alone */
    _cleanup_(closep) int state = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return -errno;
    return path_open_no_symlinks(state, "images/store", O_RDONLY | O_DIRECTORY, 0);
}

int store_folder(const struct image_store *store, const char *path) {
    return path_open_no_symlinks(store->dir, path, O_RDONLY | O_DIRECTORY, 0);
}

int store_folder_alone(const struct image_store *store, const char *path) {
    _cleanup_(closep) int folder = store_folder(store, path);
    while (folder >= 0 && flock(folder, LOCK_EX) < 0)
        if (errno != EINTR)
            return -errno;
    return TAKE_FD(folder);
}

int store_open_file(int folder, const char *name, int flags) {
    /* O_NONBLOCK: a fifo must not hold us up */
    _cleanup_(closep) int fd =
        openat(folder, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? TAKE_FD(fd) : -EBADMSG;
}

int store_read_file(int folder, const char *name, struct buf *b) {
    _cleanup_(closep) int fd = store_open_file(folder, name, O_RDONLY);
    return fd < 0 ? fd : fd_read_to_end(fd, b);
}

int store_new_name(const char *prefix, char *out, size_t size) {
    char id[ID_SIZE];
    struct cay_error err = {0};
    if (id_new(id, &err) < 0)
        return -err.sys;
    return str_format(out, size, "%s%s", prefix, id);
}

static int write_new(int folder, const char *name, const void *data, size_t len) {
    _cleanup_(closep) int fd =
        openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = fd_write_all(fd, data, len);
    if (r < 0)
        return r;
    return fsync(fd) < 0 ? -errno : 0;
}

int store_write_file(int folder, const char *name, const void *data, size_t len) {
    char temporary[32];
    int r = store_new_name(STORE_NEW, temporary, sizeof temporary);
    if (r < 0)
        return r;
    r = write_new(folder, temporary, data, len);
    if (r == 0 && renameat(folder, temporary, folder, name) < 0)
        r = -errno;
    if (r < 0) {
        (void)unlinkat(folder, temporary, 0); /* the error that counts is the first */
        return r;
    }
    return fsync(folder) < 0 ? -errno : 0;
}

int store_lock(int fd, short type, bool wait) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    while (fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock) < 0) {
        if (errno != EINTR)
            return errno == EACCES ? -EAGAIN : -errno;
    }
    return 0;
}

bool store_lock_is_free(int fd) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

bool store_is_same(int folder, const char *name, int fd) {
    struct stat a, b;
    return fstatat(folder, name, &a, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int store_fail(struct cay_error *err, int sys, const char *what, const char *name) {
    char shown[128];
    int r =
        error_storage(err, sys, "image store: %s %s", what, str_escape(shown, sizeof shown, name));
    const char *remedy = "if it stays so the store is damaged: remove the folder images/store in "
                         "the state folder while no sandbox runs, and pull again";
    if (sys == ENOSPC || sys == EDQUOT)
        remedy = "free some space, with 'cay image prune' for a start";
    else if (sys == EROFS || sys == EIO || sys == EMFILE || sys == ENFILE || sys == ENOMEM)
        return r; /* as with every other file of the state folder */
    else if (sys == EACCES || sys == EPERM)
        remedy = "run as the user who owns the state folder, or name another with --state-dir";
    (void)error_remedy(err, "%s", remedy);
    return r;
}
