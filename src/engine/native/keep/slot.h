/* Slots: the parts of a sandbox that cost most to make and hold nothing of whoever used them last:
 * a user namespace with its id range, an empty network and IPC namespace, a control group. A slot
 * is leased to one sandbox at a time. Beside it lies a root made ready for the next sandbox, which
 * is used once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/native/cgroup/cgroup.h"
#include "engine/native/rootfs/rootfs.h"

struct cay_error;
struct helper;
struct native;

/* none: not made. lost: freed, but somebody may be left who has its ids. idle: nobody is in it.
 * ready: a sandbox is, which nobody has used yet. leased: a client has it. discarded: a ready one
 * was killed, and has not been reaped. */
enum slot_state { SLOT_NONE, SLOT_LOST, SLOT_IDLE, SLOT_READY, SLOT_LEASED, SLOT_DISCARDED };

struct slot {
    enum slot_state state;
    char group[ID_SIZE]; /* name of its control group */
    uid_t base;
    int userns;
    int netns;
    int sockets; /* for netns_is_clean */
    int ipcns;   /* -1: this kernel cannot tell whether one is empty, each sandbox gets its own */
    int queues;  /* for ipcns_is_clean */
    struct cgroup cgroup;
    uint64_t oom_before; /* the group's count when the lease began */
    bool has_root;
    struct image_trees trees; /* stay, as far as they can be shared */
    struct sandbox_spec spec; /* what root and sandbox were made for */
    struct rootfs root;
    int waiting; /* where the ready sandbox's cay-init waits for its descriptors */
    pid_t pid;
    uint64_t tag;
    int64_t leased_ms; /* when; clock_ms() */
    bool settled;
};

/* Makes a slot with the id range at base. On failure nothing is left. */
int slot_make(struct native *n, const struct helper *helper, uid_t base,
              const struct cgroup_limits *limits, struct slot *ret, struct cay_error *err);
/* 0 if nobody can be left who has its ids; negative if its group could not be removed. */
int slot_free(struct native *n, const struct helper *helper, struct slot *s);

/* Makes the root ready for a sandbox of this spec; in the host's mount namespace if
 * slot_needs_host says so. nothing is rootfs_make_nothing's tree, or -1 where trees cannot be
 * shared. */
int slot_prepare(struct native *n, struct slot *s, const struct sandbox_spec *spec, int nothing,
                 struct cay_error *err);
bool slot_needs_host(const struct slot *s, const struct sandbox_spec *spec);

/* True if what was made with slot_prepare is what a sandbox of this spec needs. */
bool slot_fits(const struct slot *s, const struct sandbox_spec *spec);

/* Drops the root, ready or used. */
void slot_drop_root(struct slot *s);
/* The same with the trees of the image, which then come from the current one. */
void slot_drop_image(struct slot *s);

/* Kills a ready sandbox. */
void slot_discard(struct slot *s);

/* For a sandbox that lives long: lets go of all that only the next one in this slot would need, 11
 * KB of the kernel's memory. The sandbox has its namespaces by itself, and the slot ends with it.
 */
void slot_settle(struct slot *s);

/* After the sandbox has ended: 0 if the slot can be leased again, negative if it must be freed (it
 * was settled, somebody is left in its group, connections in its network namespace, or objects in
 * its IPC namespace). */
int slot_recycle(struct slot *s);
