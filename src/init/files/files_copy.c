/* Copying a tree inside the sandbox, for moves that a rename cannot do: across file systems, and
 * for folders of an overlay's lower layers. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "base/error.h"
#include "base/path.h"
#include "init/files/files.h"

/* sendfile(2) works between any two files, which copy_file_range(2) does not. */
static int copy_bytes(int from, int to) {
    for (;;) {
        ssize_t n = sendfile(to, from, NULL, (size_t)16 * 1024 * 1024);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
    }
}

static int copy_regular(int from, const char *name, int to, const char *to_name) {
    _cleanup_(closep) int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (in < 0)
        return -errno;
    enum { FLAGS = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC };
    _cleanup_(closep) int out = openat(to, to_name, FLAGS, 0600);
    return out < 0 ? -errno : copy_bytes(in, out);
}

static int copy_link(int from, const char *name, int to, const char *to_name) {
    char target[PATH_MAX];
    files_read_link(from, name, target);
    return symlinkat(target, to, to_name) < 0 ? -errno : 0;
}

static int copy_any(int from, const char *name, int to, const char *to_name);

static int copy_child(void *to, int from, const char *name) {
    return copy_any(from, name, *(const int *)to, name);
}

static int copy_folder(int from, const char *name, int to, const char *to_name) {
    enum { FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    _cleanup_(closep) int in = openat(from, name, FLAGS);
    if (in < 0 || mkdirat(to, to_name, 0700) < 0)
        return -errno;
    _cleanup_(closep) int out = openat(to, to_name, FLAGS);
    return out < 0 ? -errno : path_each(in, copy_child, &out);
}

/* Set-id bits mean nothing inside, and on a volume they would count on the host, so they are left
 * behind, as in archives. A foreign owner cannot always be kept. */
static int copy_attributes(const struct stat *st, int to, const char *to_name) {
    if (fchownat(to, to_name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 && errno != EPERM)
        return -errno;
    if (!S_ISLNK(st->st_mode) &&
        fchmodat(to, to_name, st->st_mode & 01777, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    return utimensat(to, to_name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int copy_any(int from, const char *name, int to, const char *to_name) {
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    int r;
    if (S_ISREG(st.st_mode))
        r = copy_regular(from, name, to, to_name);
    else if (S_ISDIR(st.st_mode))
        r = copy_folder(from, name, to, to_name);
    else if (S_ISLNK(st.st_mode))
        r = copy_link(from, name, to, to_name);
    else
        r = mknodat(to, to_name, st.st_mode & ~(mode_t)06077, st.st_rdev) < 0 ? -errno : 0;
    return r < 0 ? r : copy_attributes(&st, to, to_name);
}

int files_copy_tree(int from, const char *name, int to, const char *to_name, const char *shown,
                    struct cay_error *err) {
    int r = copy_any(from, name, to, to_name);
    if (r == 0)
        return 0;
    (void)path_remove_tree(to, to_name); /* the first failure is the one to report */
    return files_error(err, -r, "copying", shown);
}
