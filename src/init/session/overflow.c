#include "init/session/overflow.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "init/session/registry.h"

static uint64_t find_room(int fd) {
    struct statvfs fs;
    if (fstatvfs(fd, &fs) < 0)
        return 0;
    uint64_t half = (uint64_t)fs.f_bavail * fs.f_frsize / 2;
    return MIN(half, SPILL_MAX);
}

void spill_open(struct spill *s, const struct user *u) {
    char id[ID_SIZE];
    struct cay_error ignored; /* then there is no file */
    *s = SPILL_INIT;
    if (id_new(id, &ignored) < 0 ||
        str_format(s->path, sizeof s->path, "/tmp/cay-output-%s.txt", id) < 0)
        return;
    place_act_as(u);
    s->fd = open(s->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    place_act_as(NULL);
    s->room = s->fd >= 0 ? find_room(s->fd) : 0;
    if (s->fd < 0)
        s->path[0] = '\0';
}

bool spill_write(struct spill *s, const char *data, size_t len) {
    if (s->fd < 0)
        return false;
    size_t part = (size_t)MIN((uint64_t)len, s->room - s->size);
    ssize_t n = part > 0 ? write(s->fd, data, part) : 0;
    s->size += n > 0 ? (uint64_t)n : 0;
    if (n == (ssize_t)len)
        return true;
    fd_close(&s->fd); /* full: half a line more is no help */
    return false;
}

void spill_copy(struct spill *s, int from) {
    ssize_t n;
    while ((n = read(from, op_data, sizeof op_data)) > 0 && spill_write(s, op_data, (size_t)n))
        ;
}

void spill_close(struct spill *s) {
    fd_close(&s->fd);
}

void spill_drop(struct spill *s, const struct user *u) {
    fd_close(&s->fd);
    if (s->path[0] == '\0')
        return;
    place_act_as(u);
    (void)unlink(s->path); /* the sandbox may have done so itself */
    place_act_as(NULL);
    s->path[0] = '\0';
}
