/* Named volumes, made and removed for the manager. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/native/internal.h"
#include "engine/native/keep/internal.h"
#include "engine/volume/convert.h"
#include "engine/volume/named.h"

#define OLD_PREFIX ".old-"

enum { OLD_SIZE = sizeof OLD_PREFIX + 2 * ID_SIZE };

static void answer(const struct keep *k, uint64_t tag, int result, const struct cay_error *err) {
    struct launcher_answer done = {.event = LAUNCHER_DONE, .tag = tag};
    if (result < 0)
        keep_answer_error(k, tag, err);
    else
        keep_answer(k, &done);
}

/* ---- making and growing ---- */

static int change(const struct keep *k, const struct launcher_request *r, struct cay_error *err) {
    return r->op == LAUNCHER_VOLUME_GROW
               ? volume_grow(&k->n->volumes, r->spec.id, r->spec.disk_bytes, err)
               : volume_make(&k->n->volumes, r->spec.id, r->spec.disk_bytes, err);
}

/* By a job, since the tools of the file system take long. */
static void change_by_job(struct keep *k, const struct launcher_request *r) {
    struct cay_error err;
    pid_t pid = keep_fork_job(k, &r->tag, 1);
    if (pid < 0)
        keep_fail_tags(k, &r->tag, 1);
    if (pid != 0)
        return;
    answer(k, r->tag, change(k, r, &err), &err);
    _exit(0);
}

/* ---- removing ---- */

/* It loses its name at once. */
static int take_name(int store, const char *id, const char *old, struct cay_error *err) {
    if (renameat(store, id, store, old) == 0 || errno == ENOENT)
        return 0;
    return error_storage(err, errno, "removing volume %s", id);
}

/* What is left of one in either store. */
static int remove_old(const struct keep *k, const char *old, struct cay_error *err) {
    int (*const open[])(const struct volume_rules *, struct cay_error *) = {volume_open_store,
                                                                            volume_open_disks};
    for (size_t i = 0; i < ARRAY_LEN(open); i++) {
        _cleanup_(closep) int store = open[i](&k->n->volumes, err);
        int r = store < 0 ? store : path_remove_tree(store, old);
        if (r < 0)
            return store < 0 ? r : error_storage(err, -r, "removing the files of a volume");
    }
    return 0;
}

static int take_names(const struct keep *k, const char *id, char old[static OLD_SIZE],
                      struct cay_error *err) {
    char random[ID_SIZE];
    int r = id_new(random, err);
    if (r < 0)
        return r;
    (void)snprintf(old, OLD_SIZE, OLD_PREFIX "%s-%s", id, random);
    _cleanup_(closep) int store = volume_open_store(&k->n->volumes, err);
    _cleanup_(closep) int disks = store < 0 ? store : volume_open_disks(&k->n->volumes, err);
    if (disks < 0)
        return disks;
    r = take_name(store, id, old, err);
    return r < 0 ? r : take_name(disks, id, old, err);
}

static void remove_it(struct keep *k, const struct launcher_request *r) {
    struct cay_error err;
    char old[OLD_SIZE];
    int code = take_names(k, r->spec.id, old, &err);
    if (code < 0) {
        answer(k, r->tag, code, &err);
        return;
    }
    pid_t pid = keep_fork_job(k, &r->tag, 1);
    if (pid == 0) {
        answer(k, r->tag, remove_old(k, old, &err), &err);
        _exit(0);
    }
    if (pid < 0)
        keep_fail_tags(k, &r->tag, 1); /* the next launcher sweeps it */
}

void keep_handle_volume(struct keep *k, const struct launcher_request *r) {
    struct cay_error err;
    if (r->op == LAUNCHER_VOLUME_REMOVE)
        remove_it(k, r);
    else if (r->op == LAUNCHER_VOLUME_MAKE && r->spec.disk_bytes == 0)
        answer(k, r->tag, change(k, r, &err), &err);
    else
        change_by_job(k, r);
}

static int sweep_one(void *user, int dir, const char *name) {
    (void)user;
    if (str_starts(name, OLD_PREFIX))
        (void)path_remove_tree(dir, name); /* the next launcher tries again */
    return 0;
}

/* A disk that was being filled; one that still is has a lock. */
static int sweep_new(void *user, int dir, const char *name) {
    (void)user;
    if (!str_starts(name, VOLUME_NEW_PREFIX))
        return 0;
    _cleanup_(closep) int folder =
        openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) == 0)
        (void)path_remove_tree(dir, name); /* the same */
    return 0;
}

void keep_sweep_volumes(const struct keep *k) {
    struct cay_error err;
    _cleanup_(closep) int store = volume_open_store(&k->n->volumes, &err);
    _cleanup_(closep) int disks = volume_open_disks(&k->n->volumes, &err);
    if (store >= 0)
        (void)path_each(store, sweep_one, NULL);
    if (disks >= 0) {
        (void)path_each(disks, sweep_one, NULL);
        (void)path_each(disks, sweep_new, NULL);
    }
}
