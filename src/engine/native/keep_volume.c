/* Named volumes, made and removed for the manager. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/native/internal.h"
#include "engine/native/keep_internal.h"
#include "engine/native/volume.h"

#define OLD_PREFIX ".old-"

enum { OLD_SIZE = sizeof OLD_PREFIX + 2 * ID_SIZE };

static void answer(const struct keep *k, uint64_t tag, int result, const struct cay_error *err) {
    struct launcher_answer done = {.event = LAUNCHER_DONE, .tag = tag};
    if (result < 0)
        keep_answer_error(k, tag, err);
    else
        keep_answer(k, &done);
}

static int make(const struct keep *k, const char *id, struct cay_error *err) {
    _cleanup_(closep) int fd = volume_make(&k->n->volumes, id, err);
    return MIN(fd, 0);
}

/* It loses its name at once. 1 if there was none. */
static int take_name(const char *id, int store, char old[static OLD_SIZE], struct cay_error *err) {
    char random[ID_SIZE];
    int r = id_new(random, err);
    if (r < 0)
        return r;
    (void)snprintf(old, OLD_SIZE, OLD_PREFIX "%s-%s", id, random);
    if (renameat(store, id, store, old) == 0)
        return 0;
    return errno == ENOENT ? 1 : error_errno(err, "removing volume %s", id);
}

static void remove_it(struct keep *k, const struct launcher_request *r) {
    struct cay_error err;
    char old[OLD_SIZE];
    _cleanup_(closep) int store = volume_open_store(&k->n->volumes, &err);
    int code = store < 0 ? store : take_name(r->spec.id, store, old, &err);
    if (code != 0) {
        answer(k, r->tag, code, &err);
        return;
    }
    pid_t pid = keep_fork_job(k, &r->tag, 1);
    if (pid == 0) {
        code = path_remove_tree(store, old);
        if (code < 0)
            error_sys(&err, -code, "removing the files of volume %s", r->spec.id);
        answer(k, r->tag, code, &err);
        _exit(0);
    }
    if (pid < 0)
        keep_fail_tags(k, &r->tag, 1); /* the next launcher sweeps it */
}

void keep_handle_volume(struct keep *k, const struct launcher_request *r) {
    struct cay_error err;
    if (r->op == LAUNCHER_VOLUME_MAKE)
        answer(k, r->tag, make(k, r->spec.id, &err), &err);
    else
        remove_it(k, r);
}

static int sweep_one(void *user, int dir, const char *name) {
    (void)user;
    if (str_starts(name, OLD_PREFIX))
        (void)path_remove_tree(dir, name); /* the next launcher tries again */
    return 0;
}

void keep_sweep_volumes(const struct keep *k) {
    struct cay_error err;
    _cleanup_(closep) int store = volume_open_store(&k->n->volumes, &err);
    if (store >= 0)
        (void)path_each(store, sweep_one, NULL);
}
