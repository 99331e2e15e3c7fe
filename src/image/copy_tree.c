#include "image/copy_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"

int copy_text(int to, const char *name, unsigned mode, const void *data, size_t len) {
    _cleanup_(closep) int fd =
        openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = fd_write_all(fd, data, len);
    if (r < 0)
        return r;
    return fchmod(fd, mode) < 0 ? -errno : 0; /* not through the umask */
}

int copy_make_dir(int to, const char *name, unsigned mode) {
    if (mkdirat(to, name, 0700) < 0)
        return -errno;
    return fchmodat(to, name, mode, 0) < 0 ? -errno : 0;
}

static int copy_file(int from, const char *name, int to) {
    _cleanup_(closep) int fd =
        openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return 0;
    if (!S_ISREG(st.st_mode) || (st.st_mode & S_IROTH) == 0)
        return 0;
    _cleanup_(buf_free) struct buf content = BUF_INIT(COPY_FILE_MAX);
    int r = fd_read_to_end(fd, &content);
    if (r < 0)
        return r == -ENOMEM ? r : 0;
    return copy_text(to, name, (st.st_mode & S_IXOTH) != 0 ? 0755 : 0644, buf_text(&content),
                     content.len);
}

/* Man pages are most of the alternatives of a full host and no program needs theirs. */
static bool is_usr_link(const char *target) {
    return str_starts(target, "/usr/") && !str_starts(target, "/usr/local/") &&
           !str_starts(target, "/usr/src/") && strstr(target, "/..") == NULL &&
           !str_ends(target, ".gz");
}

static bool link_is_wanted(const struct copy_tree *c, const char *target) {
    if (c->only_usr_links)
        return is_usr_link(target);
    return target[0] != '/' || str_starts(target, "/usr/") || str_starts(target, "/etc/");
}

static int copy_link(const struct copy_tree *c, int from, const char *name, int to) {
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);
    if (n < 0)
        return 0;
    target[n] = '\0';
    if (!link_is_wanted(c, target))
        return 0;
    return symlinkat(target, to, name) < 0 ? -errno : 0;
}

static int copy_entry(struct copy_tree *c, int from, const char *name, int to, unsigned depth);

/* Depth is at most COPY_DEPTH_MAX, so the recursion is bounded. */
static int copy_folder(struct copy_tree *c, int from, const char *name, int to, unsigned depth) {
    int source = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (source < 0)
        return 0;
    _cleanup_(closedirp) DIR *d = fdopendir(source);
    if (d == NULL) {
        (void)close(source);
        return -ENOMEM;
    }
    int r = copy_make_dir(to, name, 0755);
    if (r < 0)
        return r;
    _cleanup_(closep) int dest = openat(to, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dest < 0)
        return -errno;
    for (;;) {
        const struct dirent *e = readdir(d); /* NOLINT(concurrency-mt-unsafe): own stream */
        if (e == NULL)
            return 0;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        r = copy_entry(c, source, e->d_name, dest, depth + 1);
        if (r < 0)
            return r;
    }
}

static int copy_entry(struct copy_tree *c, int from, const char *name, int to, unsigned depth) {
    struct stat st;
    if (depth > COPY_DEPTH_MAX || c->entries >= COPY_ENTRIES_MAX)
        return 0;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    c->entries++;
    if (S_ISLNK(st.st_mode))
        return copy_link(c, from, name, to);
    if (S_ISDIR(st.st_mode) && (st.st_mode & S_IXOTH) != 0)
        return copy_folder(c, from, name, to, depth);
    if (S_ISREG(st.st_mode) && !c->only_usr_links && st.st_size <= COPY_FILE_MAX)
        return copy_file(from, name, to);
    return 0;
}

int copy_tree(struct copy_tree *c, int from, const char *name, int to) {
    return copy_entry(c, from, name, to, 0);
}
