/* The file system of the state folder. Below the reserve nothing new is begun that would write;
 * sandboxes that run may use what is left (files/hold.c). */
#include <errno.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "manager/files/space.h"
#include "manager/internal.h"

enum { INODES_SHARE = 100, INODES_MAX = 10000 };

static uint64_t reserve_of(const struct manager_limits *limits, uint64_t total) {
    if (limits->reserve_percent == 0)
        return limits->reserve_max_bytes;
    return MIN(total / 100 * limits->reserve_percent + total % 100 * limits->reserve_percent / 100,
               limits->reserve_max_bytes);
}

static void take(const struct statvfs *fs, struct manager_space *ret) {
    ret->total_bytes = (uint64_t)fs->f_blocks * fs->f_frsize;
    ret->free_bytes = (uint64_t)fs->f_bavail * fs->f_frsize;
    ret->total_inodes = fs->f_files;
    ret->free_inodes = fs->f_favail;
}

/* The work folder is in the state folder. Sandboxes may lie on a file system of their own; then the
 * fuller one counts. */
static int measure(struct manager_space *ret) {
    struct statvfs own, boxes;
    if (statvfs(".", &own) < 0)
        return -errno;
    bool is_fuller =
        statvfs("../sandboxes", &boxes) == 0 && boxes.f_fsid != own.f_fsid &&
        (uint64_t)boxes.f_bavail * boxes.f_frsize < (uint64_t)own.f_bavail * own.f_frsize;
    take(is_fuller ? &boxes : &own, ret);
    return 0;
}

/* Files of containers lie elsewhere, and what is archived has no disk. */
static void count_boxes(const struct manager *m, struct manager_space *ret) {
    for (size_t i = 0; i < m->count; i++) {
        const struct sandbox *s = m->boxes[i];
        if (s->record.engine == ENGINE_NATIVE && s->record.state != SANDBOX_ARCHIVED)
            ret->limit_bytes += s->record.disk_bytes;
        ret->held += hold_has(&s->record);
        ret->damaged += s->disk.errors > 0;
    }
}

int manager_space(struct manager *m, struct manager_space *ret, struct cay_error *err) {
    *ret = (struct manager_space){0};
    int r = measure(ret);
    if (r < 0)
        return error_sys(err, -r, "measuring the file system of the state folder");
    (void)pthread_mutex_lock(&m->lock);
    ret->reserve_bytes = reserve_of(&m->limits, ret->total_bytes);
    count_boxes(m, ret);
    (void)pthread_mutex_unlock(&m->lock);
    return 0;
}

static int refuse(const struct manager_space *space, struct cay_error *err) {
    char left[32], reserve[32];
    if (space->free_bytes < space->reserve_bytes)
        error_set(err, CAY_RESOURCE_EXHAUSTED,
                  "the disk is nearly full: free space is %s, the reserve %s",
                  str_bytes(space->free_bytes, left), str_bytes(space->reserve_bytes, reserve));
    else
        error_set(err, CAY_RESOURCE_EXHAUSTED,
                  "the disk has no space for new files: %llu inodes are left",
                  (unsigned long long)space->free_inodes);
    return error_remedy(err, "remove sandboxes (cay rm, cay prune) or images (cay image prune), or "
                             "enlarge the disk; disk_reserve in [manager] sets the reserve");
}

int manager_check_space(struct manager *m, struct cay_error *err) {
    struct manager_space space = {0};
    if (measure(&space) < 0)
        return 0; /* what cannot be measured fails where it is written */
    (void)pthread_mutex_lock(&m->lock);
    space.reserve_bytes = reserve_of(&m->limits, space.total_bytes);
    (void)pthread_mutex_unlock(&m->lock);
    uint64_t inodes = MIN(space.total_inodes / INODES_SHARE, (uint64_t)INODES_MAX);
    bool is_low = space.free_bytes < space.reserve_bytes || space.free_inodes < inodes;
    return is_low && space.reserve_bytes > 0 ? refuse(&space, err) : 0;
}
