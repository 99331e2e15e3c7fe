#include "engine/native/keep/slot.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "confine/idrange.h"
#include "confine/ipcns.h"
#include "confine/netns.h"
#include "engine/native/helper.h"
#include "engine/native/internal.h"

enum { REMOVE_MS = 10000 };

static const struct slot empty = {
    .userns = -1,
    .netns = -1,
    .sockets = -1,
    .ipcns = -1,
    .queues = -1,
    .cgroup = CGROUP_EMPTY,
    .trees = IMAGE_TREES_EMPTY,
    .root = ROOTFS_EMPTY,
    .waiting = -1,
};

void slot_drop_root(struct slot *s) {
    rootfs_close(&s->root);
    image_trees_close_used(&s->trees);
    s->has_root = false;
}

void slot_drop_image(struct slot *s) {
    slot_drop_root(s);
    image_trees_close(&s->trees);
}

void slot_discard(struct slot *s) {
    fd_close(&s->waiting);
    (void)kill(s->pid, SIGKILL);
    s->state = SLOT_DISCARDED;
}

static void close_namespaces(struct slot *s) {
    fd_close(&s->queues);
    fd_close(&s->ipcns);
    fd_close(&s->sockets);
    fd_close(&s->netns);
    fd_close(&s->userns);
}

void slot_settle(struct slot *s) {
    slot_drop_image(s);
    cgroup_close_door(&s->cgroup);
    close_namespaces(s);
    s->settled = true;
}

static int remove_group(struct native *n, const struct helper *helper, struct slot *s) {
    if (s->cgroup.host == NULL)
        return 0;
    cgroup_close(&s->cgroup);
    int r = cgroup_remove(&n->cgroups, s->group, clock_ms() + REMOVE_MS, NULL);
    if (r == 0)
        helper_forget(helper, s->group);
    return r;
}

int slot_free(struct native *n, const struct helper *helper, struct slot *s) {
    slot_drop_image(s);
    int r = remove_group(n, helper, s);
    fd_close(&s->waiting);
    close_namespaces(s);
    *s = empty;
    return r;
}

/* The helper works on the namespaces meanwhile; both must be taken, whatever else fails. */
static int make_parts(struct native *n, const struct helper *helper,
                      const struct cgroup_limits *limits, struct slot *s, struct cay_error *err) {
    struct cay_error other;
    int r = helper_ask(helper, HELPER_USERNS, s->base, err);
    if (r == 0)
        r = helper_ask(helper, HELPER_NETNS, 0, err);
    if (r == 0)
        r = helper_ask(helper, HELPER_IPCNS, 0, err);
    if (r == 0)
        r = helper_watch(helper, s->group, err);
    if (r < 0)
        return r;
    r = cgroup_create(&n->limiting, s->group, limits, &s->cgroup, err);
    s->userns = helper_take(helper, r < 0 ? &other : err);
    r = r < 0 ? r : MIN(s->userns, 0);
    s->netns = helper_take_pair(helper, &s->sockets, r < 0 ? &other : err);
    s->ipcns = helper_take_pair(helper, &s->queues, &other);
    return r < 0 ? r : MIN(s->netns, 0);
}

int slot_make(struct native *n, const struct helper *helper, uid_t base,
              const struct cgroup_limits *limits, struct slot *ret, struct cay_error *err) {
    struct slot s = empty;
    s.base = base;
    int r = id_new(s.group, err);
    if (r == 0)
        r = make_parts(n, helper, limits, &s, err);
    if (r < 0) {
        (void)slot_free(n, helper, &s);
        return r;
    }
    s.state = SLOT_IDLE;
    *ret = s;
    return 0;
}

static int open_trees(struct native *n, struct slot *s, int nothing, struct cay_error *err) {
    int r = native_host_image(n, err);
    if (r == 0)
        r = image_trees_open(&n->image, s->userns, &s->trees, err);
    if (r < 0 || nothing < 0 || s->trees.shared)
        return r;
    r = image_trees_share(&s->trees, nothing);
    if (r == 0)
        return 0;
    image_trees_close(&s->trees);
    return error_sys(err, -r, "hiding folders of the image");
}

int slot_prepare(struct native *n, struct slot *s, const struct sandbox_spec *spec, int nothing,
                 struct cay_error *err) {
    slot_drop_root(s);
    s->spec = *spec;
    if (s->spec.id[0] == '\0') {
        int r = id_new(s->spec.id, err);
        if (r < 0)
            return r;
    }
    if (s->spec.hostname[0] == '\0')
        memcpy(s->spec.hostname, s->spec.id, ID_SIZE);
    struct rootfs_owner owner = {
        .base = s->base,
        .idmap = -1,
        .disk = -1,
        .nothing = nothing,
        .volumes = native_volume_rules(n),
    };
    int r = open_trees(n, s, nothing, err);
    if (r == 0)
        r = rootfs_prepare(&s->spec, &s->trees, &owner, &s->root, err);
    if (r < 0)
        image_trees_close_used(&s->trees);
    s->has_root = r == 0;
    return r;
}

bool slot_needs_host(const struct slot *s, const struct sandbox_spec *spec) {
    return !s->trees.shared || spec->mount_count > 0;
}

bool slot_fits(const struct slot *s, const struct sandbox_spec *spec) {
    return (s->has_root || s->state == SLOT_READY) && spec->mount_count == 0 &&
           spec->id[0] == '\0' && spec->hostname[0] == '\0' && !spec->read_only &&
           !s->spec.read_only && s->spec.mount_count == 0 && spec->profile == s->spec.profile &&
           spec->disk_bytes == s->spec.disk_bytes && spec->inodes == s->spec.inodes;
}

int slot_recycle(struct slot *s) {
    slot_drop_root(s);
    fd_close(&s->waiting);
    s->pid = 0;
    s->state = SLOT_IDLE;
    if (s->settled)
        return -ESTALE;
    if (cgroup_is_idle(&s->cgroup) != 1)
        return -EBUSY;
    if (netns_is_clean(s->sockets) != 1)
        return -EBUSY;
    return s->ipcns < 0 || ipcns_is_clean(s->ipcns, s->queues) == 1 ? 0 : -EBUSY;
}
