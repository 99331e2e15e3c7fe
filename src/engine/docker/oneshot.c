/* Containers that are thrown away. Each belongs to a process, which holds a lock on its folder
 * (STATE/docker-run/ID) for as long as it lives: whose lock is free has lost its owner, and is
 * removed by the next one who comes. Folders are made and judged under the lock of the folder above
 * them, so that a new one is not taken for a lost one. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "engine/docker/internal.h"

static int open_folder(int parent, const char *name) {
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int docker_runs_lock(const struct docker_engine *d, struct cay_error *err) {
    _cleanup_(closep) int fd = open_folder(d->folder, ".");
    if (fd < 0)
        return error_sys(err, -fd, "opening the folder of containers");
    while (flock(fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return error_errno(err, "locking the folder of containers");
    return TAKE_FD(fd);
}

int docker_runs_own(struct docker_engine *d, const char *id, struct cay_error *err) {
    if (d->held >= 0)
        return error_set(err, CAY_CONFLICT, "this process has a sandbox already");
    _cleanup_(closep) int lock = docker_runs_lock(d, err);
    if (lock < 0)
        return lock;
    if (mkdirat(d->folder, id, 0755) < 0)
        return error_errno(err, "making the folder of the sandbox");
    d->held = open_folder(d->folder, id);
    if (d->held < 0)
        return error_sys(err, -d->held, "opening the folder of the sandbox");
    memcpy(d->held_id, id, ID_SIZE);
    return flock(d->held, LOCK_EX | LOCK_NB) < 0 ? error_errno(err, "locking the sandbox") : 0;
}

void docker_runs_end(struct engine *e) {
    struct docker_engine *d = docker_of(e);
    struct cay_error err;
    if (d->held < 0)
        return;
    if (e->ops->remove(e, d->held_id, &err) < 0) /* the next one tries again */
        log_event(LOG_LEVEL_WARN, "a container was not removed", "why", "%s: %s", d->held_id,
                  err.message);
    fd_close(&d->held);
}

/* ---- what others have left ---- */

struct lost {
    char (*ids)[ID_SIZE];
    size_t count;
};

static int add_lost(struct lost *l, const char *id) {
    char(*more)[ID_SIZE] = reallocarray(l->ids, l->count + 1, sizeof *more);
    if (more == NULL)
        return -ENOMEM;
    l->ids = more;
    memcpy(l->ids[l->count++], id, ID_SIZE);
    return 0;
}

/* Also of one that has a container, but no folder any more. */
static bool has_owner(int folder, const char *id) {
    _cleanup_(closep) int fd = open_folder(folder, id);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

static int look_at(void *user, int dir, const char *name) {
    return id_is_valid(name) && !has_owner(dir, name) ? add_lost(user, name) : 0;
}

static void find_lost(struct docker_engine *d, struct lost *l) {
    _cleanup_(freep) struct engine_sandbox *v = NULL;
    size_t count = 0;
    (void)docker_list(d, &v, &count, NULL); /* without Docker there is nothing to remove */
    _cleanup_(closep) int lock = docker_runs_lock(d, NULL);
    if (lock < 0 || path_each(lock, look_at, l) < 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (faccessat(lock, v[i].id, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && add_lost(l, v[i].id) < 0)
            return;
}

void docker_runs_sweep(struct docker_engine *d) {
    struct lost lost = {0};
    find_lost(d, &lost);
    for (size_t i = 0; i < lost.count; i++) {
        log_event(LOG_LEVEL_INFO, "removing a container whose owner is gone", "id", "%s",
                  lost.ids[i]);
        (void)d->engine.ops->remove(&d->engine, lost.ids[i], NULL); /* else the next one does */
    }
    free(lost.ids);
}
