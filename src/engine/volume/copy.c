#include "engine/volume/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/path.h"
#include "base/str.h"

enum { DEPTH_MAX = 256, NAMES_SIZE = 65536, VALUE_SIZE = 65536 };

static int copy_entry(void *user, int from, const char *name);

struct copying {
    int to;
    unsigned depth;
};

/* ---- attributes ---- */

static bool is_kept(const char *name) {
    return str_starts(name, "user.") || str_starts(name, "system.posix_acl_");
}

static int copy_attributes(int from, int to) {
    static char names[NAMES_SIZE], value[VALUE_SIZE]; /* a job has one thread */
    ssize_t len = flistxattr(from, names, sizeof names);
    if (len < 0)
        return errno == ENOTSUP ? 0 : -errno;
    for (ssize_t at = 0; at < len; at += (ssize_t)strlen(names + at) + 1) {
        if (!is_kept(names + at))
            continue;
        ssize_t n = fgetxattr(from, names + at, value, sizeof value);
        if (n < 0 || fsetxattr(to, names + at, value, (size_t)n, 0) < 0)
            return -errno;
    }
    return 0;
}

/* The mode comes after the owner, whose change takes bits away. */
static int copy_meta(int from, int to, const struct stat *st) {
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    int r = copy_attributes(from, to);
    if (r < 0)
        return r;
    if (fchown(to, st->st_uid, st->st_gid) < 0 || fchmod(to, st->st_mode & 07777) < 0 ||
        futimens(to, times) < 0)
        return -errno;
    return 0;
}

/* ---- files ---- */

static int copy_range(int from, int to, off_t at, off_t end) {
    static char data[1 << 17];
    while (at < end) {
        ssize_t n = pread(from, data, MIN((size_t)(end - at), sizeof data), at);
        if (n <= 0)
            return n < 0 ? -errno : 0; /* it was cut */
        ssize_t written = pwrite(to, data, (size_t)n, at);
        if (written != n)
            return written < 0 ? -errno : -ENOSPC;
        at += n;
    }
    return 0;
}

/* Holes stay holes. */
static int copy_content(int from, int to, off_t size) {
    for (off_t at = 0; at < size;) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break;
        off_t hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
        int r = hole < 0 ? -errno : copy_range(from, to, data, MIN(hole, size));
        if (r < 0)
            return r;
        at = hole;
    }
    return ftruncate(to, size) < 0 ? -errno : 0;
}

static int copy_file(int from, const char *name, int to) {
    struct stat st;
    _cleanup_(closep) int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (in < 0 || fstat(in, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -ESTALE;
    _cleanup_(closep) int out =
        openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return -errno;
    int r = copy_content(in, out, st.st_size);
    return r < 0 ? r : copy_meta(in, out, &st);
}

/* ---- the rest ---- */

static int copy_folder(int from, const char *name, int to, unsigned depth) {
    struct stat st;
    if (depth == DEPTH_MAX)
        return -ELOOP;
    _cleanup_(closep) int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (in < 0 || fstat(in, &st) < 0 || mkdirat(to, name, 0700) < 0)
        return -errno;
    _cleanup_(closep) int out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (out < 0)
        return -errno;
    struct copying c = {.to = out, .depth = depth + 1};
    int r = path_each(in, copy_entry, &c);
    return r < 0 ? r : copy_meta(in, out, &st);
}

static int copy_link(int from, const char *name, int to, const struct stat *st) {
    char target[PATH_MAX];
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);
    if (n < 0)
        return -errno;
    target[n] = '\0';
    if (symlinkat(target, to, name) < 0 ||
        fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

static int copy_pipe(const char *name, int to, const struct stat *st) {
    if (mkfifoat(to, name, st->st_mode & 0777) < 0 ||
        fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

static int copy_entry(void *user, int from, const char *name) {
    const struct copying *c = user;
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    switch (st.st_mode & S_IFMT) {
    case S_IFREG:
        return copy_file(from, name, c->to);
    case S_IFDIR:
        return copy_folder(from, name, c->to, c->depth);
    case S_IFLNK:
        return copy_link(from, name, c->to, &st);
    case S_IFIFO:
        return copy_pipe(name, c->to, &st);
    default:
        return 0;
    }
}

int volume_copy(int from, int to) {
    struct stat st;
    struct copying c = {.to = to};
    int r = path_each(from, copy_entry, &c);
    if (r < 0)
        return r;
    return fstat(from, &st) < 0 ? -errno : copy_meta(from, to, &st);
}
