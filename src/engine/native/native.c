#include "engine/native/native.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "confine/idrange.h"
#include "confine/landlock.h"
#include "confine/userns.h"
#include "engine/native/internal.h"
#include "engine/privileged.h"
#include "image/store.h"

struct native *native_close(struct native *n) {
    if (n == NULL)
        return NULL;
    helper_stop(&n->next_helper);
    idrange_release(&n->next_ids);
    host_image_close(&n->image);
    cgroup_host_close(&n->cgroups);
    fd_close(&n->state_dir);
    free(n->state_path);
    free(n);
    return NULL;
}

static void native_closep(struct native **n) {
    *n = native_close(*n);
}

static int open_state(struct native *n, const char *path, struct cay_error *err) {
    n->state_path = strdup(path);
    if (n->state_path == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    n->state_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return n->state_dir < 0 ? error_errno(err, "opening state folder '%s'", path) : 0;
}

/* beside is a user namespace to be entered; -1: a new one is made. */
static int become_root(struct native *n, int beside, struct cay_error *err) {
    struct userns_self self;
    int r = beside >= 0 ? userns_join_root(beside, &self, err) : userns_become_root(&self, err);
    if (r < 0)
        return r;
    n->own_userns = true;
    n->single_id = !self.ranges;
    return 0;
}

static int build_filter(struct native_filter *f, const struct seccomp_options *o,
                        struct cay_error *err) {
    int count = seccomp_build(o, f->insns, SECCOMP_MAX_INSNS);
    if (count < 0)
        return error_sys(err, -count, "building the seccomp filter");
    f->program = (struct sock_fprog){.len = (unsigned short)count, .filter = f->insns};
    return 0;
}

int native_filter_for(struct native *n, const struct sandbox_spec *spec,
                      const struct sock_fprog **ret, struct cay_error *err) {
    struct seccomp_options o = {.deny_setid = spec_has_writable_mount(spec)};
    struct native_filter *f = o.deny_setid ? &n->volume_filter : &n->filter;
    int r = f->program.len == 0 ? build_filter(f, &o, err) : 0;
    *ret = &f->program;
    return r;
}

int native_host_image(struct native *n, struct cay_error *err) {
    return n->image.root_fd >= 0 ? 0 : host_image_open(n->state_path, &n->image, err);
}

int native_begin(struct native *n, struct idrange *ids, struct helper *helper,
                 struct cay_error *err) {
    if (n->own_userns)
        return 0;
    int r = idrange_lease(ids, err);
    if (r < 0)
        return r;
    r = helper_start(ids->lock, n->state_path, helper, err);
    if (r == 0)
        r = helper_ask(helper, HELPER_NETNS, 0, err);
    if (r == 0)
        r = helper_ask(helper, HELPER_DEV, 0, err);
    if (r == 0 && n->shared_lean < 0)
        r = helper_ask(helper, HELPER_LEAN, 0, err);
    if (r == 0 && n->shared_init < 0)
        r = helper_ask(helper, HELPER_INIT, 0, err);
    if (r < 0) {
        helper_stop(helper);
        idrange_release(ids);
    }
    return r;
}

/* Descriptors must belong to the mount namespace that we end up in, so an ordinary user becomes
 * root of his own before the state folder is opened. */
static int open_parts(struct native *n, const char *state_dir, bool soon, int beside,
                      struct cay_error *err) {
    bool privileged = engine_is_privileged();
    int r = 0;
    /* While we are still who we are: delegation of control groups goes by the real user. */
    if (!privileged)
        r = cgroup_probe(&n->cgroups, err);
    if (r == 0 && !privileged)
        r = become_root(n, beside, err);
    if (r == 0)
        r = open_state(n, state_dir, err);
    if (r == 0 && soon)
        r = native_begin(n, &n->next_ids, &n->next_helper, err);
    if (r == 0 && privileged)
        r = cgroup_probe(&n->cgroups, err);
    static const struct seccomp_options strict = {0};
    return r < 0 ? r : build_filter(&n->filter, &strict, err);
}

static int open_native(const char *state_dir, bool soon, int beside, struct native **ret,
                       struct cay_error *err) {
    _cleanup_(native_closep) struct native *n = calloc(1, sizeof *n);
    if (n == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    n->state_dir = n->shared_lean = n->shared_init = -1;
    n->image = HOST_IMAGE_NONE;
    n->next_ids = IDRANGE_EMPTY;
    n->next_helper = HELPER_NONE;
    int r = open_parts(n, state_dir, soon, beside, err);
    if (r < 0)
        return r;
    cgroup_host_limiting(&n->cgroups, &n->limiting);
    n->landlock_abi = landlock_abi();
    rootfs_find_masks(&n->masks);
    native_judge(n);
    *ret = TAKE_PTR(n);
    return 0;
}

int native_open(const char *state_dir, bool soon, struct native **ret, struct cay_error *err) {
    return open_native(state_dir, soon, -1, ret, err);
}

int native_open_beside(const char *state_dir, int beside, struct native **ret,
                       struct cay_error *err) {
    return open_native(state_dir, false, beside, ret, err);
}

size_t native_walls(const struct native *n, const struct native_wall **ret) {
    *ret = n->walls;
    return n->wall_count;
}

enum tier native_tier(const struct native *n) {
    return n->tier;
}

void native_limit_volumes(struct native *n, const char *const *roots) {
    n->volumes = (struct volume_rules){
        .roots = roots, .state_dir = n->state_dir, .own_userns = n->own_userns};
}

const struct volume_rules *native_volume_rules(const struct native *n) {
    return n->volumes.roots != NULL ? &n->volumes : NULL;
}
