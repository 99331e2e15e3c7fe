/* Puts the members of an archive on disk. Each is made in a folder that was opened from the
 * destination without following a single symlink, so that no archive reaches beyond it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/path.h"
#include "base/str.h"
#include "init/files/tar.h"

enum { MODE_BITS = 01777 }; /* set-id bits of an archive are never honoured */

struct tar_folder {
    char *path;
    uint32_t mode;
    struct timespec mtime;
};

void tar_place_free(struct tar_place *p) {
    for (size_t i = 0; i < p->folder_count; i++)
        free(p->folders[i].path);
    free(p->folders);
    p->folders = NULL;
    p->folder_count = p->folder_cap = 0;
    fd_close(&p->parent);
}

/* The name in a clean path, and the length of what is before it. */
static const char *name_of(const char *path, size_t *ret_parent) {
    const char *slash = strrchr(path, '/');
    *ret_parent = slash != NULL ? (size_t)(slash - path) : 0;
    return slash != NULL ? slash + 1 : path;
}

/* Opens (and with `make` makes) the folder that `path` lies in, below dest. */
static int open_parent(int dest, const char *path, size_t len, bool make) {
    char folder[PATH_MAX] = ".";
    if (len > 0) {
        memcpy(folder, path, len);
        folder[len] = '\0';
    }
    int fd = path_open_no_symlinks(dest, folder, O_PATH | O_DIRECTORY, 0);
    return fd == -ENOENT && make ? path_make_dirs(dest, folder) : fd;
}

/* Members of a folder usually follow each other: its descriptor is kept. */
static int enter_parent(struct tar_place *p, const char *path, const char **ret_name) {
    size_t len;
    *ret_name = name_of(path, &len);
    if (p->parent >= 0 && strlen(p->parent_path) == len && memcmp(p->parent_path, path, len) == 0)
        return 0;
    fd_close(&p->parent);
    int fd = open_parent(p->dest, path, len, true);
    if (fd < 0)
        return fd;
    p->parent = fd;
    memcpy(p->parent_path, path, len);
    p->parent_path[len] = '\0';
    return 0;
}

static int create_file(int parent, const char *name, mode_t mode) {
    enum { FLAGS = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC };
    int fd = openat(parent, name, FLAGS, mode);
    if (fd < 0 && errno == EEXIST) {
        if (unlinkat(parent, name, 0) < 0)
            return -errno;
        fd = openat(parent, name, FLAGS, mode);
    }
    return fd < 0 ? -errno : fd;
}

int tar_place_file(struct tar_place *p, const struct tar_member *m) {
    const char *name;
    int r = enter_parent(p, m->path, &name);
    if (r < 0)
        return r;
    mode_t mode = m->mode & MODE_BITS;
    _cleanup_(closep) int fd = create_file(p->parent, name, mode);
    if (fd >= 0 && (mode & p->umask) != 0 && fchmod(fd, mode) < 0)
        return -errno;
    return TAKE_FD(fd);
}

int tar_place_finish_file(int fd, const struct tar_member *m) {
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, m->mtime};
    return futimens(fd, times) < 0 ? -errno : 0;
}

static int remember_folder(struct tar_place *p, const struct tar_member *m) {
    if (p->folder_count == p->folder_cap) {
        size_t cap = p->folder_cap == 0 ? 64 : p->folder_cap * 2;
        struct tar_folder *more = reallocarray(p->folders, cap, sizeof *more);
        if (more == NULL)
            return -ENOMEM;
        p->folders = more;
        p->folder_cap = cap;
    }
    struct tar_folder *f = &p->folders[p->folder_count];
    *f = (struct tar_folder){.mode = m->mode & MODE_BITS, .mtime = m->mtime};
    f->path = strdup(m->path);
    if (f->path == NULL)
        return -ENOMEM;
    p->folder_count++;
    return 0;
}

/* Until everything is extracted its owner may write to it, whatever the archive says. */
int tar_place_folder(struct tar_place *p, const struct tar_member *m) {
    if (m->path[0] == '\0')
        return 0; /* the destination itself stays as its owner made it */
    const char *name;
    struct stat st;
    int r = enter_parent(p, m->path, &name);
    if (r < 0)
        return r;
    if (mkdirat(p->parent, name, (m->mode & MODE_BITS) | 0700) < 0) {
        if (errno != EEXIST || fstatat(p->parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
        if (!S_ISDIR(st.st_mode))
            return S_ISLNK(st.st_mode) ? -ELOOP : -EEXIST;
    }
    return remember_folder(p, m);
}

int tar_place_symlink(struct tar_place *p, const struct tar_member *m) {
    const char *name;
    int r = enter_parent(p, m->path, &name);
    if (r < 0)
        return r;
    if (symlinkat(m->link, p->parent, name) < 0) {
        if (errno != EEXIST || unlinkat(p->parent, name, 0) < 0 ||
            symlinkat(m->link, p->parent, name) < 0)
            return -errno;
    }
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, m->mtime};
    return utimensat(p->parent, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int tar_place_hard_link(struct tar_place *p, const struct tar_member *m) {
    char target[PATH_MAX];
    int r = tar_clean_path(m->link, target);
    if (r < 0)
        return r;
    if (target[0] == '\0')
        return -EINVAL;
    if (strcmp(target, m->path) == 0)
        return 0; /* replacing it by itself would lose it */
    size_t len;
    const char *target_name = name_of(target, &len), *name;
    _cleanup_(closep) int from = open_parent(p->dest, target, len, false);
    if (from < 0)
        return from;
    r = enter_parent(p, m->path, &name);
    if (r < 0)
        return r;
    if (linkat(from, target_name, p->parent, name, 0) == 0)
        return 0;
    if (errno != EEXIST || unlinkat(p->parent, name, 0) < 0)
        return -errno;
    return linkat(from, target_name, p->parent, name, 0) < 0 ? -errno : 0;
}

/* A folder that was there before and belongs to somebody else keeps its mode and time. */
static int finish_folder(const struct tar_place *p, const struct tar_folder *f) {
    _cleanup_(closep) int fd =
        path_open_no_symlinks(p->dest, f->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0)
        return fd == -EACCES ? 0 : fd;
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, f->mtime};
    if ((futimens(fd, times) < 0 || fchmod(fd, f->mode) < 0) && errno != EPERM && errno != EROFS)
        return -errno;
    return 0;
}

int tar_place_finish(struct tar_place *p) {
    fd_close(&p->parent);
    for (size_t i = p->folder_count; i > 0; i--) {
        int r = finish_folder(p, &p->folders[i - 1]);
        if (r < 0)
            return r;
    }
    return 0;
}
