#include "cli/host/doctor_space.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/id.h"
#include "base/json/jsonw.h"
#include "base/path.h"
#include "base/state.h"
#include "base/str.h"

/* The size of the file is the limit, and a little more. */
static int add_disk(void *user, int folder, const char *name) {
    struct doctor_space *s = user;
    char path[ID_SIZE + 8];
    struct stat st;
    if (id_is_valid(name) && str_format(path, sizeof path, "%s/disk", name) == 0 &&
        fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
        s->limit_bytes += (uint64_t)st.st_size;
    return 0;
}

void doctor_measure_space(const char *state_dir, struct doctor_space *ret) {
    char path[PATH_MAX], boxes[PATH_MAX];
    struct statvfs fs;
    *ret = (struct doctor_space){0};
    if (state_dir_make(state_dir, path, sizeof path, NULL) < 0 ||
        str_format(boxes, sizeof boxes, "%s/sandboxes", path) < 0)
        return;
    _cleanup_(closep) int folder = open(boxes, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || fstatvfs(folder, &fs) < 0 || path_each(folder, add_disk, ret) < 0)
        return;
    ret->total_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
    ret->free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    ret->is_known = true;
}

void doctor_print_space(struct buf *b, const struct doctor_space *s) {
    char limit[32], total[32], left[32];
    if (!s->is_known)
        return;
    (void)buf_printf(b, "  %-8s %-22s limits of %s on a file system of %s, of which %s are free\n",
                     s->limit_bytes > s->total_bytes ? "note" : "ok", "disk space",
                     str_bytes(s->limit_bytes, limit), str_bytes(s->total_bytes, total),
                     str_bytes(s->free_bytes, left));
}

void doctor_put_space(struct jsonw *w, const struct doctor_space *s) {
    if (!s->is_known)
        return;
    jsonw_key(w, "disk_space");
    jsonw_begin_object(w);
    jsonw_put_integer(w, "limit_bytes", (int64_t)s->limit_bytes);
    jsonw_put_integer(w, "total_bytes", (int64_t)s->total_bytes);
    jsonw_put_integer(w, "free_bytes", (int64_t)s->free_bytes);
    jsonw_put_bool(w, "overcommitted", s->limit_bytes > s->total_bytes);
    jsonw_end_object(w);
}
