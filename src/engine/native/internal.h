/* What the files of the native engine share; not for others. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>

#include "confine/idrange.h"
#include "confine/seccomp.h"
#include "engine/native/cgroup/cgroup.h"
#include "engine/native/helper.h"
#include "engine/native/native.h"
#include "engine/native/rootfs/rootfs.h"
#include "engine/volume/volume.h"
#include "image/host.h"

struct native_filter {
    struct sock_fprog program; /* empty until it is built */
    struct sock_filter insns[SECCOMP_MAX_INSNS];
};

struct native {
    char *state_path;
    int state_dir;
    struct cgroup_host cgroups;
    struct cgroup_host limiting; /* of these what throw-away sandboxes join */
    bool own_userns;             /* we are root of our own user namespace only */
    bool single_id;              /* and it has one id */
    bool for_parent;             /* we make persistent sandboxes that are our parent's children */
    int landlock_abi;
    struct host_image image;
    struct proc_masks masks;
    /* Begun at once for the first sandbox, so that it is ready when everything else is. */
    struct idrange next_ids;
    struct helper next_helper;
    /* What a launcher has for all of its sandboxes; -1: the helper makes one for each. Leaving the
     * host's mounts takes a walk over every process, so it is done once. */
    int shared_lean, shared_init;
    struct native_filter filter;
    struct native_filter volume_filter; /* of sandboxes with a writable volume; built for the first
                                         */
    struct volume_rules volumes;        /* roots NULL: whoever asks has our rights */
    enum tier tier;
    struct native_wall walls[NATIVE_WALLS_MAX];
    size_t wall_count;
};

/* What rootfs_owner has to say about volumes. */
const struct volume_rules *native_volume_rules(const struct native *n);

/* Makes sure that n->image is open, which only those need who start from it. */
int native_host_image(struct native *n, struct cay_error *err);

/* An id range, and a helper that is making the network namespace, /dev, the lean mount namespace
 * and cay-init's memfd, in this order; of the last two only what is not shared. As an ordinary user
 * both are empty. */
int native_begin(struct native *n, struct idrange *ids, struct helper *helper,
                 struct cay_error *err);

/* The seccomp filter for a sandbox of this spec; it belongs to n. */
int native_filter_for(struct native *n, const struct sandbox_spec *spec,
                      const struct sock_fprog **ret, struct cay_error *err);

/* Fills walls and tier from the rest. */
void native_judge(struct native *n);
