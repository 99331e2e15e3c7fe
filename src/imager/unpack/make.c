/* Making what an entry of an archive says, in place of what is there. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "base/str.h"
#include "imager/layer/layer_tar_parts.h"
#include "imager/unpack/apply.h"

/* Removes what stands in the way. */
static int clear_way(struct apply *a, const char *name) {
    int r = path_remove_tree(a->parent, name);
    apply_forget(a);
    return r < 0 ? apply_errno(a, -r, "replacing what is there") : 0;
}

static int note_made(struct apply *a, const char *name) {
    if (!a->raw && number_add(&a->made, number_of(&a->parent_stat, name)) < 0)
        return apply_errno(a, ENOMEM, "remembering it");
    a->counts->entries++;
    return 0;
}

/* ---- files ---- */

static int create_file(struct apply *a, const char *name) {
    enum { FLAGS = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC };
    mode_t mode = archive_entry_perm(a->entry) & 0777;
    int fd = openat(a->parent, name, FLAGS, mode);
    if (fd < 0 && errno == EEXIST) {
        int r = clear_way(a, name);
        if (r < 0)
            return r;
        fd = openat(a->parent, name, FLAGS, mode);
    }
    return fd < 0 ? apply_errno(a, errno, "creating it") : fd;
}

static int write_at(struct apply *a, int fd, const char *data, size_t len, int64_t at) {
    while (len > 0) {
        ssize_t n = pwrite(fd, data, len, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return apply_errno(a, n < 0 ? errno : EIO, "writing it");
        data += n;
        len -= (size_t)n;
        at += n;
    }
    return 0;
}

/* Holes of a sparse file stay holes. */
static int write_content(struct apply *a, int fd, int64_t size) {
    int64_t end = 0;
    for (;;) {
        const void *data;
        size_t len;
        la_int64_t at;
        int status = archive_read_data_block(a->archive, &data, &len, &at);
        if (status == ARCHIVE_EOF)
            break;
        if (status < ARCHIVE_WARN)
            return apply_refuse(a, "its content: %s", archive_error_string(a->archive));
        if (at < 0 || at > size || len > (uint64_t)(size - at))
            return apply_refuse(a, "has content beyond its size");
        int r = write_at(a, fd, data, len, at);
        if (r < 0)
            return r;
        end = MAX(end, at + (int64_t)len);
    }
    return end < size && ftruncate(fd, size) < 0 ? apply_errno(a, errno, "setting its size") : 0;
}

/* By the size that it says it has, so that holes count too. */
static int count_bytes(struct apply *a, int64_t size) {
    if (size < 0)
        return apply_refuse(a, "has a negative size");
    if ((uint64_t)size > a->limits->bytes - a->counts->bytes) {
        char text[32];
        return apply_limit(a, "the files of the layer take more than %s",
                           str_bytes(a->limits->bytes, text));
    }
    a->counts->bytes += (uint64_t)size;
    return 0;
}

int apply_file(struct apply *a, const char *name) {
    int64_t size = archive_entry_size(a->entry);
    int r = count_bytes(a, size);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = create_file(a, name);
    if (fd < 0)
        return fd;
    r = write_content(a, fd, size);
    if (r == 0)
        r = attr_set(a, fd, true);
    if (r < 0)
        return r;
    struct timespec times[2];
    attr_times(a, times);
    return futimens(fd, times) < 0 ? apply_errno(a, errno, "setting its time") : note_made(a, name);
}

/* ---- folders ---- */

/* A folder that is there stays with what is in it; a symlink to one does not. */
static int open_folder(struct apply *a, const char *name, bool *ret_fresh) {
    enum { FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    mode_t mode = archive_entry_perm(a->entry) & 0777;
    *ret_fresh = mkdirat(a->parent, name, mode) == 0;
    if (!*ret_fresh && errno != EEXIST)
        return apply_errno(a, errno, "creating it");
    int fd = openat(a->parent, name, FLAGS);
    if (fd < 0 && !*ret_fresh && (errno == ENOTDIR || errno == ELOOP)) {
        int r = clear_way(a, name);
        if (r < 0)
            return r;
        *ret_fresh = true;
        if (mkdirat(a->parent, name, mode) < 0)
            return apply_errno(a, errno, "creating it");
        fd = openat(a->parent, name, FLAGS);
    }
    return fd < 0 ? apply_errno(a, errno, "opening it") : fd;
}

int apply_folder(struct apply *a, const char *name) {
    bool fresh;
    _cleanup_(closep) int fd = open_folder(a, name, &fresh);
    if (fd < 0)
        return fd;
    int r = attr_set(a, fd, fresh);
    if (r == 0)
        r = later_add(a);
    return r < 0 ? r : note_made(a, name);
}

int apply_root(struct apply *a) {
    _cleanup_(closep) int fd = openat(a->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return apply_errno(a, errno, "opening it");
    apply_forget(a); /* its own mode may be what is remembered of the parent */
    int r = attr_set(a, fd, false);
    return r < 0 ? r : later_add(a);
}

/* ---- links and fifos ---- */

/* What is made without a descriptor. */
static int finish_at(struct apply *a, const char *name) {
    int r = attr_set_owner_at(a, name);
    if (r == 0)
        r = attr_set_times_at(a, name);
    return r < 0 ? r : note_made(a, name);
}

int apply_symlink(struct apply *a, const char *name) {
    const char *target = archive_entry_symlink(a->entry);
    if (target == NULL || target[0] == '\0' || strlen(target) >= PATH_MAX)
        return apply_refuse(a, "is a symlink with an empty or over-long target");
    if (symlinkat(target, a->parent, name) < 0) {
        if (errno != EEXIST)
            return apply_errno(a, errno, "creating it");
        int r = clear_way(a, name);
        if (r < 0)
            return r;
        if (symlinkat(target, a->parent, name) < 0)
            return apply_errno(a, errno, "creating it");
    }
    return finish_at(a, name);
}

static int make_node(struct apply *a, const char *name, mode_t mode) {
    if (mknodat(a->parent, name, mode, 0) == 0)
        return 0;
    if (errno != EEXIST)
        return apply_errno(a, errno, "creating it");
    int r = clear_way(a, name);
    if (r < 0)
        return r;
    return mknodat(a->parent, name, mode, 0) < 0 ? apply_errno(a, errno, "creating it") : 0;
}

int apply_fifo(struct apply *a, const char *name) {
    int r = make_node(a, name, S_IFIFO | (archive_entry_perm(a->entry) & 0777));
    return r < 0 ? r : finish_at(a, name);
}

/* ---- what only a raw archive has ---- */

static bool has_mark(const struct apply *a) {
    const char *name;
    const void *value;
    size_t size;
    bool found = false;
    if (archive_entry_xattr_reset(a->entry) > 0)
        while (!found && archive_entry_xattr_next(a->entry, &name, &value, &size) == ARCHIVE_OK)
            found = name != NULL && str_equal(name, TAR_SOCKET_MARK);
    return found;
}

/* A socket cannot be opened: its mode comes with it, and an owner takes no bits from it that a
 * command could have set. */
static int apply_socket(struct apply *a, const char *name) {
    int r = make_node(a, name, S_IFSOCK | (archive_entry_perm(a->entry) & 07777));
    return r < 0 ? r : finish_at(a, name);
}

int apply_marked_fifo(struct apply *a, const char *name) {
    if (has_mark(a))
        return apply_socket(a, name);
    int r = make_node(a, name, S_IFIFO | 0600);
    if (r < 0)
        return r;
    /* both ends, so that nobody is waited for */
    _cleanup_(closep) int fd =
        openat(a->parent, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return apply_errno(a, errno, "opening it");
    r = attr_set(a, fd, false);
    if (r == 0)
        r = attr_set_times_at(a, name);
    return r < 0 ? r : note_made(a, name);
}

int apply_overlay_whiteout(struct apply *a, const char *name) {
    if (archive_entry_rdev(a->entry) != 0)
        return apply_refuse(a, "is a device");
    int r = make_node(a, name, S_IFCHR | (archive_entry_perm(a->entry) & 0777));
    return r < 0 ? r : finish_at(a, name);
}

/* The folder of the target, and its name there. A link to a symlink is that symlink once more. */
static int open_target(struct apply *a, const char *target, struct stat *st, const char **ret) {
    const char *slash = strrchr(target, '/');
    char folder[PATH_MAX] = ".";
    if (slash != NULL) {
        memcpy(folder, target, (size_t)(slash - target));
        folder[slash - target] = '\0';
    }
    *ret = slash != NULL ? slash + 1 : target;
    _cleanup_(closep) int fd = path_open_in_root(a->root, folder, O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    return fstatat(fd, *ret, st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : TAKE_FD(fd);
}

static int link_to(struct apply *a, int from, const char *target, const char *name) {
    if (linkat(from, target, a->parent, name, 0) == 0)
        return 0;
    if (errno != EEXIST)
        return apply_errno(a, errno, "linking it");
    int r = clear_way(a, name);
    if (r < 0)
        return r;
    return linkat(from, target, a->parent, name, 0) < 0 ? apply_errno(a, errno, "linking it") : 0;
}

int apply_hard_link(struct apply *a, const char *name) {
    char target[PATH_MAX];
    const char *last;
    struct stat st;
    int r = apply_clean(a, archive_entry_hardlink(a->entry), target);
    if (r < 0)
        return r;
    if (str_equal(target, a->path)) /* it is there, or nowhere */
        return apply_refuse(a, "is a hard link to itself");
    _cleanup_(closep) int from = open_target(a, target, &st, &last);
    if (from == -ENOENT || from == -ENOTDIR || from == -ELOOP || target[0] == '\0')
        return apply_refuse(a, "is a hard link to what does not exist");
    if (from < 0)
        return apply_errno(a, -from, "looking for what it links to");
    if (a->raw ? S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return apply_refuse(a, "is a hard link to what is no file");
    r = link_to(a, from, last, name);
    return r < 0 ? r : note_made(a, name);
}
