#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"

static int open_resolved(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve) {
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC),
        .mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? mode : 0,
        .resolve = resolve | RESOLVE_NO_MAGICLINKS,
    };
    /* EAGAIN: the tree changed during the walk; the kernel asks for another try. */
    for (int attempt = 0; attempt < 64; attempt++) {
        long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof how);
        if (fd >= 0)
            return (int)fd;
        if (errno != EAGAIN && errno != EINTR)
            break;
    }
    return -errno;
}

int path_open_beneath(int dirfd, const char *path, int flags, mode_t mode) {
    return open_resolved(dirfd, path, flags, mode, RESOLVE_BENEATH);
}

int path_open_in_root(int rootfd, const char *path, int flags, mode_t mode) {
    return open_resolved(rootfd, path, flags, mode, RESOLVE_IN_ROOT);
}

int path_open_no_symlinks(int rootfd, const char *path, int flags, mode_t mode) {
    return open_resolved(rootfd, path, flags, mode, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
}

/* Opens the folder `name` of dirfd, making it if it is missing. */
static int open_or_make(int dirfd, const char *name) {
    enum { FLAGS = O_PATH | O_DIRECTORY | O_NOFOLLOW };
    int fd = path_open_beneath(dirfd, name, FLAGS, 0);
    if (fd != -ENOENT)
        return fd;
    if (mkdirat(dirfd, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    return path_open_beneath(dirfd, name, FLAGS, 0);
}

int path_make_dirs(int dirfd, const char *path) {
    _cleanup_(closep) int at = openat(dirfd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return -errno;
    while (*path != '\0') {
        size_t len = strcspn(path, "/");
        char name[NAME_MAX + 1];
        if (len > NAME_MAX)
            return -ENAMETOOLONG;
        memcpy(name, path, len);
        name[len] = '\0';
        path += len + (path[len] == '/');
        if (len == 0 || strcmp(name, ".") == 0)
            continue;
        if (strcmp(name, "..") == 0)
            return -EXDEV;
        int next = open_or_make(at, name);
        if (next < 0)
            return next;
        (void)close(at);
        at = next;
    }
    return TAKE_FD(at);
}

int path_make_dirs_trusted(const char *path, mode_t mode, struct cay_error *err) {
    char part[PATH_MAX];
    if (str_copy(part, sizeof part, path) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "path too long: '%.64s…'", path);
    for (char *p = part + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char end = *p;
        *p = '\0';
        if (mkdir(part, mode) < 0 && errno != EEXIST)
            return error_errno(err, "creating folder '%s'", part);
        *p = end;
        if (end == '\0')
            return 0;
    }
}

static int remove_children(int fd, dev_t dev);

/* Removes one entry; a folder only if it is on the same device as its parent. */
static int remove_entry(int dirfd, const char *name, dev_t dev) {
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    _cleanup_(closep) int fd =
        openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_dev != dev)
        return -EXDEV;
    int r = remove_children(fd, dev);
    if (r < 0)
        return r;
    return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

/* Depth is bounded by the descriptors a process may hold, so a hostile tree fails with EMFILE
 * rather than exhausting the stack. */
static int remove_children(int fd, dev_t dev) {
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return -errno;
    _cleanup_(closedirp) DIR *d = fdopendir(copy);
    if (d == NULL) {
        (void)close(copy);
        return -ENOMEM;
    }
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(d); /* NOLINT(concurrency-mt-unsafe): own stream */
        if (e == NULL)
            return -errno;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        int r = remove_entry(fd, e->d_name, dev);
        if (r < 0)
            return r;
    }
}

int path_remove_tree(int dirfd, const char *name) {
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    return remove_entry(dirfd, name, st.st_dev);
}

static int bad_path(const char *what, const char *path, const char *why, struct cay_error *err) {
    char shown[160];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' %s", what,
              str_escape(shown, sizeof shown, path), why);
    return error_remedy(err, "use an absolute path without '..'");
}

int path_normalize(const char *what, const char *path, char *out, size_t size,
                   struct cay_error *err) {
    if (path[0] != '/')
        return bad_path(what, path, "is not absolute", err);
    size_t at = 0;
    for (const char *p = path; *p != '\0';) {
        p += strspn(p, "/");
        size_t len = strcspn(p, "/");
        if (len == 2 && memcmp(p, "..", 2) == 0)
            return bad_path(what, path, "contains '..'", err);
        if (len > NAME_MAX || at + len + 2 > size)
            return bad_path(what, path, "is too long", err);
        if (len > 0 && !(len == 1 && *p == '.')) {
            out[at++] = '/';
            memcpy(out + at, p, len);
            at += len;
        }
        p += len;
    }
    if (at == 0)
        out[at++] = '/';
    out[at] = '\0';
    return 0;
}

int path_join(char *out, size_t size, const char *a, const char *b) {
    size_t n = strlen(a);
    while (n > 0 && a[n - 1] == '/')
        n--;
    b += strspn(b, "/");
    return str_format(out, size, "%.*s/%s", (int)n, a, b);
}
