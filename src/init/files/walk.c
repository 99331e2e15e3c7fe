#include "init/files/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/path.h"
#include "base/str.h"
#include "init/files/files.h"

struct walk {
    struct walk_options options;
    walk_fn *visit;
    void *arg;
    struct cay_error *err;
    size_t root_len;     /* length of the start in path */
    char path[PATH_MAX]; /* of the entry at hand */
};

static bool is_kernel_fs(int fd) {
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return false;
    switch ((unsigned long)fs.f_type) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
        return true;
    default:
        return false;
    }
}

static const char *below_of(const struct walk *w) {
    const char *below = w->path + w->root_len;
    return below + (*below == '/');
}

static int report(struct walk *w, int dirfd, const char *name, const struct stat *st, bool post) {
    struct walk_entry e = {.dirfd = dirfd, .name = name, .st = st, .post = post};
    e.path = w->path;
    e.below = below_of(w);
    return w->visit(w->arg, &e, w->err);
}

static int visit_entry(struct walk *w, int dirfd, const char *name, const struct stat *st,
                       dev_t parent);

/* Appends "/name" to the path: the length before, or -ENAMETOOLONG. */
static int push(struct walk *w, const char *name) {
    size_t len = strlen(w->path);
    const char *slash = len > 0 && w->path[len - 1] == '/' ? "" : "/";
    if (str_format(w->path + len, sizeof w->path - len, "%s%s", slash, name) == 0)
        return (int)len;
    w->path[len] = '\0';
    return -ENAMETOOLONG;
}

/* Recursion ends with the descriptors that a process may hold or with PATH_MAX. */
static int visit_children(struct walk *w, DIR *d, dev_t dev) {
    const char *name;
    int r;
    while ((r = path_next(d, &name)) > 0) {
        struct stat st;
        if (fstatat(dirfd(d), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue; /* gone since */
        int len = push(w, name);
        if (len < 0)
            return files_error(w->err, -len, "entering", w->path);
        r = visit_entry(w, dirfd(d), name, &st, dev);
        w->path[len] = '\0';
        if (r < 0 || r == WALK_STOP)
            return r;
    }
    return r == 0 ? 0 : files_error(w->err, -r, "reading folder", w->path);
}

/* Opens the folder; NULL with errno 0 if it is to be passed over. */
static DIR *enter(const struct walk *w, int dirfd, const char *name, const struct stat *st,
                  dev_t parent) {
    _cleanup_(closep) int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOENT || (w->options.forgiving && errno == EACCES))
            errno = 0;
        return NULL;
    }
    if (st->st_dev != parent && is_kernel_fs(fd)) {
        errno = 0;
        return NULL;
    }
    DIR *d = fdopendir(fd);
    if (d != NULL)
        (void)TAKE_FD(fd);
    return d;
}

static int visit_folder(struct walk *w, int at, const char *name, const struct stat *st,
                        dev_t parent) {
    _cleanup_(closedirp) DIR *d = enter(w, at, name, st, parent);
    if (d == NULL)
        return errno == 0 ? 0 : files_error(w->err, errno, "reading folder", w->path);
    return visit_children(w, d, st->st_dev);
}

static int visit_entry(struct walk *w, int at, const char *name, const struct stat *st,
                       dev_t parent) {
    bool is_start = below_of(w)[0] == '\0';
    int r = w->options.below_only && is_start ? WALK_ON : report(w, at, name, st, false);
    if (r == WALK_SKIP)
        return WALK_ON;
    if (r != WALK_ON || !S_ISDIR(st->st_mode))
        return r;
    r = visit_folder(w, at, name, st, parent);
    if (r == 0 && w->options.post)
        r = report(w, at, name, st, true);
    return r;
}

int walk_tree(const char *start, const char *shown, struct walk_options options, walk_fn *visit,
              void *arg, struct cay_error *err) {
    struct walk w = {.options = options, .visit = visit, .arg = arg, .err = err};
    struct stat st;
    if (str_copy(w.path, sizeof w.path, shown) < 0)
        return files_error(err, ENAMETOOLONG, "entering", shown);
    for (w.root_len = strlen(w.path); w.root_len > 1 && w.path[w.root_len - 1] == '/';)
        w.path[--w.root_len] = '\0';
    if (fstatat(AT_FDCWD, start, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return files_error(err, errno, "looking at", shown);
    return visit_entry(&w, AT_FDCWD, start, &st, st.st_dev);
}
