#include "imager/pull/measure.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/path.h"

enum { DEPTH_MAX = 600 }; /* deeper than what is ever unpacked */

/* Bounded by DEPTH_MAX. NOLINTNEXTLINE(misc-no-recursion) */
static int measure(int parent, const char *name, unsigned depth, uint64_t *bytes,
                   uint64_t *entries) {
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        int r = -errno;
        if (fd >= 0)
            (void)close(fd);
        return r;
    }
    const char *child;
    int r;
    while ((r = path_next(dir, &child)) > 0) {
        struct stat st;
        if (fstatat(fd, child, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
        ++*entries;
        if (S_ISREG(st.st_mode))
            *bytes += (uint64_t)st.st_size / MAX(st.st_nlink, (nlink_t)1);
        r = S_ISDIR(st.st_mode) && depth < DEPTH_MAX ? measure(fd, child, depth + 1, bytes, entries)
                                                     : 0;
        if (r < 0)
            return r;
    }
    return r;
}

int measure_tree(int folder, uint64_t *bytes, uint64_t *entries) {
    *bytes = *entries = 0;
    return measure(folder, ".", 0, bytes, entries);
}
