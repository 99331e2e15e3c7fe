#include "engine/disk/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/path.h"

static const struct {
    const char *name;
    mode_t mode;
} parts[] = {{"fs", 0755}, {"local", 0755}, {"work", 0700}};

static int make(int at, const char *name, mode_t mode, uid_t owner) {
    if (mkdirat(at, name, mode) < 0)
        return errno == EEXIST ? 0 : -errno;
    if (owner != 0 && fchownat(at, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return fchmodat(at, name, mode, 0) < 0 ? -errno : 0;
}

int disk_parts_make(int at, uid_t owner) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(parts); i++)
        r = make(at, parts[i].name, parts[i].mode, owner);
    return r;
}

int disk_parts_remove(int at) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(parts); i++)
        r = path_remove_tree(at, parts[i].name);
    return r;
}

bool disk_parts_exist(int at) {
    struct stat st;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (fstatat(at, parts[i].name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    return false;
}
