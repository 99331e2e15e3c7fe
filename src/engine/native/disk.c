#include "engine/native/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"

static const struct {
    const char *name;
    mode_t mode;
} parts[] = {{"fs", 0755}, {"local", 0755}, {"work", 0700}};

/* ---- folders ---- */

static int make_part(int at, const char *name, mode_t mode, uid_t owner) {
    if (mkdirat(at, name, mode) < 0 && errno != EEXIST)
        return -errno;
    if (owner != 0 && fchownat(at, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return fchmodat(at, name, mode, 0) < 0 ? -errno : 0;
}

static int make_parts(int at, uid_t owner) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(parts); i++)
        r = make_part(at, parts[i].name, parts[i].mode, owner);
    return r;
}

static int remove_parts(int at) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(parts); i++)
        r = path_remove_tree(at, parts[i].name);
    return r;
}

/* ---- the disk ---- */

int disk_make(int folder, uint64_t bytes, uid_t owner, struct cay_error *err) {
    (void)bytes;
    int r = make_parts(folder, owner);
    if (r == 0)
        return 0;
    (void)remove_parts(folder); /* what is left is made again */
    error_sys(err, -r, "making the disk of a sandbox");
    return error_remedy(err, "the state folder needs room and must be writable");
}

int disk_open(int folder, struct cay_error *err) {
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? error_errno(err, "opening the disk of a sandbox") : fd;
}

int disk_remove(int folder, struct cay_error *err) {
    int r = remove_parts(folder);
    return r < 0 ? error_sys(err, -r, "removing the disk of a sandbox") : 0;
}
