/* Whiteouts: they hide what lies in layers below, and nothing of their own layer, whatever comes
 * first in the archive. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/path.h"
#include "imager/unpack/apply.h"

/* ---- what this layer made ---- */

/* FNV-1a over the folder's identity and the name: paths can lead to one folder in several ways. A
 * collision would spare a file that the layer's maker could as well have put there. */
uint64_t number_of(const struct stat *folder, const char *name) {
    const uint64_t prime = UINT64_C(0x100000001b3);
    uint64_t h = (UINT64_C(0xcbf29ce484222325) ^ (uint64_t)folder->st_ino) * prime;
    h = (h ^ (uint64_t)folder->st_dev ^ h >> 32) * prime;
    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * prime;
    h ^= h >> 32;
    return h != 0 ? h : 1;
}

static bool has(const struct number_set *set, uint64_t number) {
    if (set->size == 0)
        return false;
    for (size_t i = number & (set->size - 1); set->slots[i] != 0; i = (i + 1) & (set->size - 1))
        if (set->slots[i] == number)
            return true;
    return false;
}

static void put(struct number_set *set, uint64_t number) {
    size_t i = number & (set->size - 1);
    while (set->slots[i] != 0 && set->slots[i] != number)
        i = (i + 1) & (set->size - 1);
    set->used += set->slots[i] == 0;
    set->slots[i] = number;
}

static int grow(struct number_set *set) {
    struct number_set next = {.size = set->size == 0 ? 1024 : 2 * set->size};
    next.slots = calloc(next.size, sizeof *next.slots);
    if (next.slots == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < set->size; i++)
        if (set->slots[i] != 0)
            put(&next, set->slots[i]);
    free(set->slots);
    *set = next;
    return 0;
}

int number_add(struct number_set *set, uint64_t number) {
    if (2 * set->used >= set->size && grow(set) < 0)
        return -ENOMEM;
    put(set, number);
    return 0;
}

void number_free(struct number_set *set) {
    free(set->slots);
    *set = (struct number_set){0};
}

/* ---- hiding ---- */

static int hide_below(struct apply *a, int fd, unsigned depth);

/* A folder goes if nothing of this layer is in it. */
static int hide_folder(struct apply *a, int dir, const char *name, bool ours, unsigned depth) {
    _cleanup_(closep) int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOTDIR || errno == ELOOP || errno == ENOENT ? 0 : -errno;
    int r = hide_below(a, TAKE_FD(fd), depth);
    if (r < 0 || ours)
        return r;
    return unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOTEMPTY || errno == EEXIST ? 0
                                                                                           : -errno;
}

static int hide(struct apply *a, int dir, const struct stat *folder, const char *name,
                unsigned depth) {
    bool ours = has(&a->made, number_of(folder, name));
    if (!ours) {
        if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
            return 0;
        if (errno != EISDIR)
            return -errno;
    }
    return hide_folder(a, dir, name, ours, depth);
}

/* Takes the descriptor. */
static int hide_below(struct apply *a, int fd, unsigned depth) {
    struct stat st;
    _cleanup_(closedirp) DIR *d = fdopendir(fd);
    if (d == NULL) {
        (void)close(fd);
        return -ENOMEM;
    }
    if (depth > UNPACK_DEPTH_MAX)
        return -ENAMETOOLONG;
    if (fstat(fd, &st) < 0)
        return -errno;
    const char *name;
    int r;
    while ((r = path_next(d, &name)) > 0) {
        r = hide(a, fd, &st, name, depth + 1);
        if (r < 0)
            return r;
    }
    return r;
}

int hide_name(struct apply *a, const char *name) {
    int r = hide(a, a->parent, &a->parent_stat, name, 1);
    return r < 0 ? apply_errno(a, -r, "hiding what is below") : 0;
}

int hide_all(struct apply *a) {
    int fd = openat(a->parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? -errno : hide_below(a, fd, 1);
    return r < 0 ? apply_errno(a, -r, "hiding what is below") : 0;
}
