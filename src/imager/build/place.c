#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "imager/build/files.h"

enum { LINKS_MAX = 16, HARD_LINKS_MAX = 4096, BLOCK = 256 * 1024 };

/* ---- how a copy looks ---- */

/* A user namespace with one id has no other: then everything is root's. */
static int own(int r) {
    return r < 0 && errno != EINVAL ? -errno : 0;
}

static unsigned uid_of(const struct file_look *look, const struct stat *st) {
    return look->keep_owner ? st->st_uid : look->uid;
}

static unsigned gid_of(const struct file_look *look, const struct stat *st) {
    return look->keep_owner ? st->st_gid : look->gid;
}

/* Owner first: a change of it clears the set-id bits of the mode. */
static int dress(int fd, const struct file_look *look, const struct stat *st) {
    const struct timespec times[2] = {st->st_mtim, st->st_mtim};
    int r = own(fchown(fd, uid_of(look, st), gid_of(look, st)));
    if (r < 0)
        return r;
    if (fchmod(fd, look->has_mode ? look->mode : st->st_mode & 07777) < 0)
        return -errno;
    return futimens(fd, times) < 0 ? -errno : 0;
}

/* ---- folders ---- */

static int fail(const char *path, int sys, struct cay_error *err) {
    char shown[200];
    (void)str_escape(shown, sizeof shown, path);
    if (sys != ENOTDIR && sys != EEXIST)
        return error_sys(err, sys, "'%s' in the image", shown);
    (void)error_set(err, CAY_INVALID_ARGUMENT, "'%s' in the image is %s", shown,
                    sys == ENOTDIR ? "no folder" : "there already as something else");
    return error_remedy(err, "copy to another place, or remove it by RUN before");
}

static int make_folder(int root, const char *parent, const char *name,
                       const struct file_look *look) {
    _cleanup_(closep) int at =
        path_open_in_root(root, parent[0] != '\0' ? parent : "/", O_PATH | O_DIRECTORY, 0);
    if (at < 0)
        return at;
    if (mkdirat(at, name, 0755) < 0) /* EEXIST: a symlink to nowhere */
        return -errno;
    if (fchmodat(at, name, 0755, 0) < 0)
        return -errno;
    bool by_id = !look->keep_owner;
    return own(
        fchownat(at, name, by_id ? look->uid : 0, by_id ? look->gid : 0, AT_SYMLINK_NOFOLLOW));
}

int files_open_folder(int root, const char *path, const struct file_look *look,
                      struct cay_error *err) {
    char part[PATH_MAX], parent[PATH_MAX] = "";
    if (str_copy(part, sizeof part, path) < 0)
        return fail(path, ENAMETOOLONG, err);
    for (char *p = part; *p != '\0';) {
        p += strspn(p, "/");
        char *name = p;
        p += strcspn(p, "/");
        char end = *p;
        *p = '\0';
        _cleanup_(closep) int fd = path_open_in_root(root, part, O_PATH | O_DIRECTORY, 0);
        int r = fd == -ENOENT && *name != '\0' ? make_folder(root, parent, name, look) : fd;
        if (r < 0)
            return fail(part, -r, err);
        memcpy(parent, part, (size_t)(p - part) + 1);
        *p = end;
    }
    int fd = path_open_in_root(root, path, O_RDONLY | O_DIRECTORY, 0);
    return fd < 0 ? fail(path, -fd, err) : fd;
}

/* ---- files ---- */

static int copy_content(int from, int to) {
    _cleanup_(freep) char *block = malloc(BLOCK);
    if (block == NULL)
        return -ENOMEM;
    for (;;) {
        ssize_t n = read(from, block, BLOCK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        int r = fd_write_all(to, block, (size_t)n);
        if (r < 0)
            return r;
    }
}

/* Removes what is there, unless it is a folder. */
static int make_way(int dir, const char *name) {
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    return errno == EISDIR ? -EEXIST : -errno;
}

static int create_file(int dir, const char *name) {
    int r = make_way(dir, name);
    if (r < 0)
        return r;
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

static int copy_file(int from, const struct stat *st, int dir, const char *name,
                     const struct file_look *look) {
    _cleanup_(closep) int to = create_file(dir, name);
    if (to < 0)
        return to;
    int r = copy_content(from, to);
    return r < 0 ? r : dress(to, look, st);
}

static int copy_symlink(const struct file_entry *e, int dir, const struct file_look *look) {
    char target[PATH_MAX];
    const struct timespec times[2] = {e->st->st_mtim, e->st->st_mtim};
    ssize_t n = readlinkat(e->dir, e->name, target, sizeof target - 1);
    if (n < 0)
        return -errno;
    target[n] = '\0';
    int r = make_way(dir, e->name);
    if (r < 0)
        return r;
    if (symlinkat(target, dir, e->name) < 0)
        return -errno;
    r = own(fchownat(dir, e->name, uid_of(look, e->st), gid_of(look, e->st), AT_SYMLINK_NOFOLLOW));
    if (r < 0)
        return r;
    return utimensat(dir, e->name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* ---- a tree ---- */

/* A file with several names, by the first of them. */
struct linked {
    dev_t dev;
    ino_t ino;
    char *path;
};

struct placing {
    const struct file_look *look;
    int folders[FILES_DEPTH_MAX + 2]; /* open ones of the destination, outermost first */
    size_t depth;
    struct linked links[HARD_LINKS_MAX];
    size_t link_count;
};

static int enter_folder(struct placing *p, const struct file_entry *e) {
    int parent = p->folders[p->depth - 1];
    if (mkdirat(parent, e->name, 0700) < 0 && errno != EEXIST)
        return -errno;
    /* a symlink to a folder is not followed: what the image has there would silently move */
    int fd = openat(parent, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ELOOP ? -ENOTDIR : -errno;
    if (p->depth >= ARRAY_LEN(p->folders)) {
        (void)close(fd);
        return -ELOOP;
    }
    p->folders[p->depth++] = fd;
    return 0;
}

/* 1 if the file was there already under another name. */
static int place_link(struct placing *p, const struct file_entry *e, int dir) {
    for (size_t i = 0; i < p->link_count; i++) {
        if (p->links[i].dev != e->st->st_dev || p->links[i].ino != e->st->st_ino)
            continue;
        int r = make_way(dir, e->name);
        if (r < 0)
            return r;
        return linkat(p->folders[0], p->links[i].path, dir, e->name, 0) < 0 ? -errno : 1;
    }
    if (p->link_count < HARD_LINKS_MAX) { /* beyond that, names of one file become files */
        char *path = strdup(e->path);
        if (path == NULL)
            return -ENOMEM;
        p->links[p->link_count++] =
            (struct linked){.dev = e->st->st_dev, .ino = e->st->st_ino, .path = path};
    }
    return 0;
}

static int place_regular(struct placing *p, const struct file_entry *e, int dir) {
    int r = e->st->st_nlink > 1 ? place_link(p, e, dir) : 0;
    if (r != 0)
        return r < 0 ? r : 0;
    _cleanup_(closep) int from =
        openat(e->dir, e->name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    return from < 0 ? -errno : copy_file(from, e->st, dir, e->name, p->look);
}

/* Sockets, pipes and devices mean nothing in an image, and are left out. */
static int place_entry(void *user, const struct file_entry *e, struct cay_error *err) {
    struct placing *p = user;
    int dir = p->folders[p->depth - 1], r = 0;
    if (S_ISDIR(e->st->st_mode))
        r = enter_folder(p, e);
    else if (S_ISREG(e->st->st_mode))
        r = place_regular(p, e, dir);
    else if (S_ISLNK(e->st->st_mode))
        r = copy_symlink(e, dir, p->look);
    return r < 0 ? fail(e->path, -r, err) : 0;
}

/* Last, because whatever was put in changed its time. */
static int leave_folder(void *user, const struct file_entry *e, struct cay_error *err) {
    struct placing *p = user;
    int fd = p->folders[--p->depth];
    int r = dress(fd, p->look, e->st);
    (void)close(fd);
    return r < 0 ? fail(e->path, -r, err) : 0;
}

static int place_tree(const struct file_tree *tree, int from, const char *path, int to,
                      const struct file_look *look, struct cay_error *err) {
    struct placing *p = calloc(1, sizeof *p);
    if (p == NULL)
        return error_sys(err, ENOMEM, "copying files");
    p->look = look;
    p->folders[p->depth++] = to;
    struct file_visitor visitor = {.visit = place_entry, .leave = leave_folder, .user = p};
    int r = files_walk(tree, from, path, &visitor, err);
    while (p->depth > 1) /* left open by a failure */
        (void)close(p->folders[--p->depth]);
    for (size_t i = 0; i < p->link_count; i++)
        free(p->links[i].path);
    free(p);
    return r;
}

/* ---- one source ---- */

/* Replaces `to` by where the symlink there leads. 1 if there was one. */
static int follow(int dir, const char *name, char *to, size_t size) {
    char target[PATH_MAX], next[PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
    if (n < 0)
        return errno == EINVAL || errno == ENOENT ? 0 : -errno;
    target[n] = '\0';
    size_t parent = target[0] == '/' ? 0 : (size_t)(strrchr(to, '/') + 1 - to);
    if (str_format(next, sizeof next, "%.*s%s", (int)parent, to, target) < 0)
        return -ENAMETOOLONG;
    return str_copy(to, size, next) < 0 ? -ENAMETOOLONG : 1;
}

/* The folder that a file is to be made in, and its name there. Symlinks resolve in the root. */
static int open_parent(int root, char *to, size_t size, const struct file_look *look,
                       const char **ret_name, struct cay_error *err) {
    for (int i = 0; i < LINKS_MAX; i++) {
        char parent[PATH_MAX];
        const char *name = strrchr(to, '/') + 1;
        (void)snprintf(parent, sizeof parent, "%.*s", (int)(name - to), to);
        _cleanup_(closep) int fd = files_open_folder(root, parent, look, err);
        if (fd < 0)
            return fd;
        int r = follow(fd, name, to, size);
        if (r < 0)
            return fail(to, -r, err);
        if (r == 0) {
            *ret_name = name;
            return TAKE_FD(fd);
        }
    }
    return fail(to, ELOOP, err);
}

static bool is_folder(int root, const char *path) {
    _cleanup_(closep) int fd = path_open_in_root(root, path, O_PATH | O_DIRECTORY, 0);
    return fd >= 0;
}

static int place_file(int from, const struct stat *st, const char *path, int root, const char *to,
                      bool into, const struct file_look *look, struct cay_error *err) {
    char target[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    int r = into ? path_join(target, sizeof target, to, name) : str_copy(target, sizeof target, to);
    if (r < 0)
        return fail(to, -r, err);
    _cleanup_(closep) int dir = open_parent(root, target, sizeof target, look, &name, err);
    if (dir < 0)
        return dir;
    r = copy_file(from, st, dir, name, look);
    return r < 0 ? fail(target, -r, err) : 0;
}

int files_place(const struct file_tree *tree, const char *path, int root, const char *to,
                bool must_be_folder, const struct file_look *look, struct cay_error *err) {
    struct stat st;
    _cleanup_(closep) int from = files_open(tree, path, &st, err);
    if (from < 0)
        return from;
    if (!S_ISDIR(st.st_mode))
        return place_file(from, &st, path, root, to, must_be_folder || is_folder(root, to), look,
                          err);
    _cleanup_(closep) int dir = files_open_folder(root, to, look, err);
    return dir < 0 ? dir : place_tree(tree, from, path, dir, look, err);
}

int files_place_text(int folder, const char *name, const char *text, const struct file_look *look,
                     int64_t time, struct cay_error *err) {
    struct stat st = {.st_mode = 0644, .st_mtim.tv_sec = time};
    _cleanup_(closep) int fd = create_file(folder, name);
    int r = fd < 0 ? fd : fd_write_all(fd, text, strlen(text));
    if (r == 0)
        r = dress(fd, look, &st);
    return r < 0 ? fail(name, -r, err) : 0;
}
