/* What a launcher finds of sandboxes that stay when it starts. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "confine/syscalls.h"
#include "engine/native/internal.h"
#include "engine/native/keep/internal.h"

enum { OPEN_MS = 2000 };

/* A descriptor of the process that the record names, or negative if it is gone. */
static int open_living(const struct keep_record *r) {
    char boot[BOOT_ID_SIZE];
    uint64_t start;
    if (r->pid == 0 || process_boot_id(boot) < 0 || strcmp(boot, r->boot) != 0)
        return -1;
    _cleanup_(closep) int pidfd = pidfd_open(r->pid, 0);
    if (pidfd < 0 || process_start_time(r->pid, &start) < 0 || start != r->start)
        return -1;
    struct pollfd ended = {.fd = pidfd, .events = POLLIN}; /* and not reaped yet */
    return poll(&ended, 1, 0) != 0 ? -1 : TAKE_FD(pidfd);
}

/* A sandbox that lives is adopted even if its control group cannot be opened. Its mark keeps the
 * ids, its pin the image. */
static int adopt(struct keep *k, struct kept *s, struct cay_error *err) {
    struct cay_error other;
    const struct keep_record *r = &s->record;
    if (k->n->cgroups.version != CGROUP_NONE &&
        cgroup_open(&k->n->cgroups, r->id, &s->group, &other) == 0) {
        cgroup_close_door(&s->group);
        s->paused = cgroup_is_frozen(&s->group) == 1;
        (void)cgroup_oom_kills(&s->group, &s->oom_seen); /* 0 if it cannot be told */
    }
    return keep_watch(k, s, s->pidfd, err);
}

/* One that has ended while no launcher ran. Its control group may still know why. */
static void note_unseen_end(struct keep *k, struct kept *s) {
    char boot[BOOT_ID_SIZE];
    struct cay_error other;
    enum engine_end_cause cause = process_boot_id(boot) < 0           ? ENGINE_END_UNSEEN
                                  : strcmp(boot, s->record.boot) == 0 ? ENGINE_END_UNASKED
                                                                      : ENGINE_END_HOST_RESTART;
    if (k->n->cgroups.version != CGROUP_NONE)
        (void)cgroup_open(&k->n->cgroups, s->record.id, &s->group, &other); /* it may be gone */
    keep_note_end(k, s, cause, -1);
    cgroup_close(&s->group);
    keep_write_stopped(k, s);
}

/* A folder without a record, or with one that cannot be read, is a sandbox that never was promised;
 * if it has processes all the same, they end. */
static int take_over(struct keep *k, const char *id, struct cay_error *err) {
    struct cay_error other;
    struct kept *s = keep_add(k, id);
    if (s == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    _cleanup_(closep) int folder = keep_open_folder(k, id);
    struct keep_record record;
    if (folder >= 0 && keep_record_read(folder, &record, &other) == 0 && strcmp(record.id, id) == 0)
        s->record = record;
    s->pidfd = open_living(&s->record);
    if (s->pidfd >= 0)
        return adopt(k, s, err);
    if (s->record.pid != 0)
        note_unseen_end(k, s);
    (void)cgroup_remove(&k->n->cgroups, id, clock_ms() + KEEP_REMOVE_MS, NULL);
    return 0;
}

struct kept *keep_take_over_new(struct keep *k, const char *id) {
    struct cay_error err;
    if (faccessat(k->folder, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0 || take_over(k, id, &err) < 0)
        return NULL;
    return keep_find(k, id);
}

/* Calls fn for every sandbox that has a folder. */
static int each_folder(int sandboxes, int (*fn)(void *arg, const char *id), void *arg) {
    int fd = openat(sandboxes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closedirp) DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (d == NULL)
        return -errno;
    const struct dirent *e;
    int r = 0;
    while (r == 0 && (e = readdir(d)) != NULL) /* NOLINT(concurrency-mt-unsafe): own stream */
        if (id_is_valid(e->d_name))
            r = fn(arg, e->d_name);
    return r;
}

struct taking {
    struct keep *k;
    struct cay_error *err;
};

static int take_over_one(void *arg, const char *id) {
    const struct taking *t = arg;
    return take_over(t->k, id, t->err);
}

int keep_take_over(struct keep *k, struct cay_error *err) {
    err->code = CAY_OK;
    int r = each_folder(k->folder, take_over_one, &(struct taking){k, err});
    if (r < 0 && err->code == CAY_OK)
        return error_sys(err, -r, "reading the folder of sandboxes");
    return r;
}

/* ---- for an ordinary user ---- */

struct finding {
    int folder;
    int userns;
};

/* One that is just ending does not let anybody in; so it has ended soon, or it does. */
static int open_userns(const struct keep_record *r) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", r->pid);
    int64_t deadline = clock_deadline(OPEN_MS);
    for (;;) {
        _cleanup_(closep) int pidfd = open_living(r);
        _cleanup_(closep) int ns = pidfd < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        if (ns >= 0 || pidfd < 0 || clock_expired(deadline))
            return TAKE_FD(ns);
        (void)nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL);
    }
}

static int find_one(void *arg, const char *id) {
    struct finding *f = arg;
    struct keep_record record;
    struct cay_error err;
    _cleanup_(closep) int folder =
        openat(f->folder, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || keep_record_read(folder, &record, &err) < 0)
        return 0;
    f->userns = open_userns(&record);
    return f->userns >= 0;
}

int keep_find_userns(const char *state_dir) {
    _cleanup_(closep) int state = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closep) int folder =
        state < 0 ? -1
                  : openat(state, KEEP_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct finding f = {.folder = folder, .userns = -1};
    if (folder >= 0)
        (void)each_folder(folder, find_one, &f);
    return f.userns;
}
