/* Owners, modes, extended attributes and times of what an archive makes. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/path.h"
#include "base/str.h"
#include "imager/unpack/apply.h"

enum { IDS = 65536, LATER_PATHS_MAX = 256 * 1024 * 1024 };

/* ---- owners ---- */

/* 0 with the ids, 1 if there is nothing to do. What is made belongs to root by itself, unless its
 * folder hands on its group. */
static int wanted_owner(struct apply *a, bool fresh, uid_t *uid, gid_t *gid) {
    int64_t u = archive_entry_uid(a->entry), g = archive_entry_gid(a->entry);
    bool inherits = (a->parent_stat.st_mode & S_ISGID) != 0;
    if (a->single_id || (u == 0 && g == 0 && fresh && !inherits))
        return 1;
    if (u < 0 || g < 0 || u >= IDS || g >= IDS)
        return apply_refuse(a, "belongs to %lld:%lld, but ids of an image go up to %d",
                            (long long)u, (long long)g, IDS - 1);
    *uid = (uid_t)u;
    *gid = (gid_t)g;
    return 0;
}

int attr_set_owner_at(struct apply *a, const char *name) {
    uid_t uid = 0;
    gid_t gid = 0;
    int r = wanted_owner(a, true, &uid, &gid);
    if (r != 0)
        return r < 0 ? r : 0;
    if (fchownat(a->parent, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
        return apply_errno(a, errno, "setting its owner");
    return 0;
}

static int set_owner(struct apply *a, int fd, bool fresh) {
    uid_t uid = 0;
    gid_t gid = 0;
    int r = wanted_owner(a, fresh, &uid, &gid);
    if (r != 0)
        return r < 0 ? r : 0;
    return fchown(fd, uid, gid) < 0 ? apply_errno(a, errno, "setting its owner") : 0;
}

/* ---- extended attributes ---- */

static bool is_users_own(const char *name) {
    return str_starts(name, "user.") && !str_starts(name, "user.overlay.");
}

/* A folder that stays gets the attributes of its new entry only. */
static int clear_attributes(struct apply *a, int fd) {
    char names[4096];
    ssize_t n = flistxattr(fd, names, sizeof names);
    if (n < 0)
        return errno == ENOTSUP ? 0 : apply_errno(a, errno, "reading its attributes");
    for (const char *p = names; p < names + n; p += strlen(p) + 1)
        if (is_users_own(p) && fremovexattr(fd, p) < 0)
            return apply_errno(a, errno, "removing an attribute");
    return 0;
}

/* What the kernel or the file system does not have is left out, as tar does it; not from what was
 * on a disk of ours. */
static int set_attribute(struct apply *a, int fd, const char *name, const void *value,
                         size_t size) {
    bool capability = str_equal(name, "security.capability");
    if (a->raw && fsetxattr(fd, name, value, size, 0) < 0)
        return apply_errno(a, errno, "setting an attribute");
    if (a->raw)
        return 0;
    if (!capability && !is_users_own(name))
        return 0;
    if (fsetxattr(fd, name, value, size, 0) == 0 || errno == ENOTSUP || errno == EPERM)
        return 0;
    if (capability && errno == EINVAL) /* of a form that the kernel does not take */
        return 0;
    return apply_errno(a, errno, "setting an attribute");
}

static int set_attributes(struct apply *a, int fd) {
    const char *name;
    const void *value;
    size_t size;
    int r = 0;
    if (archive_entry_xattr_reset(a->entry) == 0)
        return 0;
    while (r == 0 && archive_entry_xattr_next(a->entry, &name, &value, &size) == ARCHIVE_OK)
        if (name != NULL)
            r = set_attribute(a, fd, name, value, size);
    return r;
}

/* The owner first: changing it takes away set-id bits and capabilities. Ordinary bits were given
 * when it was made. */
int attr_set(struct apply *a, int fd, bool fresh) {
    mode_t mode = archive_entry_perm(a->entry);
    bool inherits = (a->parent_stat.st_mode & S_ISGID) != 0; /* a folder does */
    int r = set_owner(a, fd, fresh);
    if (r == 0 && (!fresh || a->raw || inherits || (mode & 07000) != 0) &&
        fchmod(fd, mode & 07777) < 0)
        r = apply_errno(a, errno, "setting its mode");
    if (r == 0 && !fresh && !a->raw)
        r = clear_attributes(a, fd);
    return r < 0 ? r : set_attributes(a, fd);
}

/* ---- times ---- */

static struct timespec make_time(time_t sec, long nsec) {
    return (struct timespec){.tv_sec = sec, .tv_nsec = nsec >= 0 && nsec < 1000000000 ? nsec : 0};
}

void attr_times(const struct apply *a, struct timespec times[static 2]) {
    times[1] = make_time(archive_entry_mtime(a->entry), archive_entry_mtime_nsec(a->entry));
    times[0] = a->raw && archive_entry_atime_is_set(a->entry)
                   ? make_time(archive_entry_atime(a->entry), archive_entry_atime_nsec(a->entry))
                   : times[1];
}

int attr_set_times_at(struct apply *a, const char *name) {
    struct timespec times[2];
    attr_times(a, times);
    if (utimensat(a->parent, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return apply_errno(a, errno, "setting its time");
    return 0;
}

/* Doubles an array until it holds `need` elements. */
static int make_room(void *array, size_t *size, size_t need, size_t element) {
    size_t next = *size != 0 ? *size : 256;
    while (next < need)
        next *= 2;
    if (next == *size)
        return 0;
    void **at = array;
    void *grown = realloc(*at, next * element);
    if (grown == NULL)
        return -ENOMEM;
    *at = grown;
    *size = next;
    return 0;
}

int later_add(struct apply *a) {
    struct later *l = &a->later;
    size_t len = strlen(a->path) + 1;
    if (l->used + len > LATER_PATHS_MAX)
        return apply_limit(a, "the names of its folders take more than %d MB",
                           LATER_PATHS_MAX >> 20);
    if (make_room(&l->folders, &l->size, l->count + 1, sizeof *l->folders) < 0 ||
        make_room(&l->paths, &l->allocated, l->used + len, 1) < 0)
        return apply_errno(a, ENOMEM, "remembering it");
    l->folders[l->count].path = l->used;
    attr_times(a, l->folders[l->count++].times);
    memcpy(l->paths + l->used, a->path, len);
    l->used += len;
    return 0;
}

/* In the order of the archive: of two entries for one folder the last one counts. What is gone
 * meanwhile is not missed. */
int later_set_times(struct apply *a) {
    for (size_t i = 0; i < a->later.count; i++) {
        const struct later_folder *f = &a->later.folders[i];
        const char *path = a->later.paths + f->path;
        _cleanup_(closep) int fd = path_open_in_root(a->root, path[0] != '\0' ? path : ".",
                                                     O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
        a->shown = path;
        if (fd < 0 && fd != -ENOENT && fd != -ENOTDIR && fd != -ELOOP)
            return apply_errno(a, -fd, "setting its time");
        if (fd >= 0 && futimens(fd, f->times) < 0)
            return apply_errno(a, errno, "setting its time");
    }
    return 0;
}

void later_free(struct later *l) {
    free(l->folders);
    free(l->paths);
    *l = (struct later){0};
}
