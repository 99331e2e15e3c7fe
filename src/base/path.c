#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"

static bool is_symlink(int dirfd, const char *name) {
    struct stat st;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

/* One component. O_DIRECTORY hides that it was a symlink, and O_PATH opens the symlink itself. */
static int open_step(int dirfd, const char *name, int flags, mode_t mode, uint64_t resolve) {
    bool link_is_wanted = (flags & O_NOFOLLOW) != 0;
    _cleanup_(closep) int fd = openat(dirfd, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0) {
        int r = -errno;
        return r == -ENOTDIR && !link_is_wanted && is_symlink(dirfd, name) ? -ELOOP : r;
    }
    struct statx st;
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &st) < 0)
        return -errno;
    if (S_ISLNK(st.stx_mode) && !link_is_wanted)
        return -ELOOP;
    if ((resolve & RESOLVE_NO_XDEV) != 0 && (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
        return -EXDEV;
    return TAKE_FD(fd);
}

/* What the kernel's walk refuses is refused here too; what it would follow safely is not followed,
 * because between two steps the tree can change. */
static int open_by_steps(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve) {
    if (path[0] == '\0')
        return -ENOENT;
    if (path[0] == '/' && (resolve & RESOLVE_BENEATH) != 0)
        return -EXDEV;
    _cleanup_(closep) int at = -1; /* or still at dirfd */
    for (;;) {
        char name[NAME_MAX + 1] = ".";
        path += strspn(path, "/");
        size_t len = strcspn(path, "/");
        if (len > NAME_MAX)
            return -ENAMETOOLONG;
        if (len > 0) {
            memcpy(name, path, len);
            name[len] = '\0';
        }
        if (strcmp(name, "..") == 0)
            return -EXDEV;
        path += len;
        bool is_folder = *path == '/';
        path += strspn(path, "/");
        int step = *path != '\0' ? O_PATH : is_folder ? flags | O_DIRECTORY : flags;
        int fd = open_step(at < 0 ? dirfd : at, name, step, mode, resolve);
        if (fd < 0 || *path == '\0')
            return fd;
        fd_close(&at);
        at = fd;
    }
}

static int open_resolved(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve) {
    /* O_TMPFILE contains O_DIRECTORY; a mode without a file to make is EINVAL */
    bool makes = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC),
        .mode = makes ? mode : 0,
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
    return errno == ENOSYS ? open_by_steps(dirfd, path, flags, how.mode, resolve) : -errno;
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
    for (char *p = part; *p != '\0'; p += *p == '/') {
        p += strcspn(p, "/");
        char end = *p;
        *p = '\0';
        if (part[0] != '\0' && mkdir(part, mode) < 0 && errno != EEXIST)
            return error_errno(err, "creating folder '%s'", part);
        *p = end;
    }
    struct stat st; /* what exists may be something else */
    if (stat(path, &st) < 0)
        return error_errno(err, "creating folder '%s'", path);
    return S_ISDIR(st.st_mode) ? 0 : error_sys(err, ENOTDIR, "creating folder '%s'", path);
}

/* ---- folders ---- */

int path_next(DIR *d, const char **ret) {
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(d); /* NOLINT(concurrency-mt-unsafe): own stream */
        if (e == NULL)
            return -errno;
        *ret = e->d_name;
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            return 1;
    }
}

int path_each(int dir, path_visit visit, void *user) {
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0)
        return -errno;
    _cleanup_(closedirp) DIR *d = fdopendir(copy);
    if (d == NULL) {
        (void)close(copy);
        return -ENOMEM;
    }
    const char *name = ""; /* analysers do not know that errno is never negative */
    int r;
    while ((r = path_next(d, &name)) > 0) {
        r = visit(user, dir, name);
        if (r < 0)
            return r;
    }
    return r;
}

ssize_t path_count_entries(const char *folder) {
    DIR *d = opendir(folder);
    const char *name;
    ssize_t n = 0;
    int r;
    if (d == NULL)
        return -errno;
    while ((r = path_next(d, &name)) > 0)
        n++;
    (void)closedir(d);
    return r < 0 ? r : n;
}

/* ---- removing ---- */

/* Levels that are walked by recursion. What lies deeper is first moved up to the top, so that a
 * hostile tree of any depth takes a bounded number of descriptors and a bounded stack. */
enum { REMOVE_DEPTH = 128 };

struct removal {
    int top;        /* the tree's own folder */
    unsigned moved; /* folders moved up so far */
};

static int remove_children(struct removal *t, int fd, unsigned depth);

/* A folder to be emptied: not through a symlink, and not into anything mounted on it, be it from
 * the same device. */
static int open_folder(int dirfd, const char *name) {
    return open_resolved(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
                         RESOLVE_NO_XDEV | RESOLVE_BENEATH);
}

/* Moves a folder from deep down into the top one, under a name that is free (or that of an empty
 * folder, which goes then). */
static int move_up(struct removal *t, int dirfd, const char *name) {
    for (;;) {
        char up[32];
        (void)snprintf(up, sizeof up, ".cay-removed-%u", t->moved++);
        if (renameat(dirfd, name, t->top, up) == 0 || errno == ENOENT)
            return 0;
        if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
            return -errno;
    }
}

static int remove_folder(struct removal *t, int dirfd, const char *name, unsigned depth) {
    if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    if (depth > REMOVE_DEPTH)
        return move_up(t, dirfd, name);
    _cleanup_(closep) int fd = open_folder(dirfd, name);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    int r = remove_children(t, fd, depth);
    if (r < 0)
        return r;
    return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

static int remove_entry(struct removal *t, int dirfd, const char *name, unsigned depth) {
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    return errno == EISDIR ? remove_folder(t, dirfd, name, depth) : -errno;
}

/* What is in a folder at this depth. */
struct removal_below {
    struct removal *t;
    unsigned depth;
};

static int remove_child(void *user, int dir, const char *name) {
    const struct removal_below *b = user;
    return remove_entry(b->t, dir, name, b->depth);
}

static int remove_children(struct removal *t, int fd, unsigned depth) {
    struct removal_below b = {t, depth + 1};
    return path_each(fd, remove_child, &b);
}

/* Empties the top folder: again as long as folders are moved up into it. */
static int remove_top(int fd) {
    struct removal t = {.top = fd};
    unsigned before;
    do {
        before = t.moved;
        int r = remove_children(&t, fd, 0);
        if (r < 0)
            return r;
    } while (t.moved != before);
    return 0;
}

/* The tree `name` of dirfd, where name is one component. */
static int remove_tree(int dirfd, const char *name) {
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR)
        return -errno;
    _cleanup_(closep) int fd = open_folder(dirfd, name);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    int r = remove_top(fd);
    if (r < 0)
        return r;
    return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

int path_remove_tree(int dirfd, const char *name) {
    const char *slash = strrchr(name, '/');
    if (slash == NULL)
        return remove_tree(dirfd, name);
    char folder[PATH_MAX];
    if (slash[1] == '\0')
        return -EINVAL;
    if (str_format(folder, sizeof folder, "%.*s/", (int)(slash - name), name) < 0)
        return -ENAMETOOLONG;
    _cleanup_(closep) int fd = openat(dirfd, folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    return remove_tree(fd, slash + 1);
}

static int bad_path(const char *what, const char *path, const char *why, struct cay_error *err) {
    char shown[160];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' %s", what, str_escape(shown, sizeof shown, path),
              why);
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
