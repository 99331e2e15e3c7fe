/* The native engine: Linux namespaces, control groups, overlayfs, seccomp and Landlock, in this
 * process and without any daemon. One thread only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "confine/idrange.h"
#include "engine/native/cgroup/cgroup.h"
#include "engine/spec.h"

struct cay_error;
struct image;
struct native;
struct native_box;

/* One thing that isolates, as `cay doctor` prints it. */
struct native_wall {
    const char *name;
    bool ok;
    enum tier needed_for; /* without it, this tier and those above it cannot be had */
    char detail[160];     /* what was found */
    char remedy[192];     /* how to get it; empty when ok */
};

enum { NATIVE_WALLS_MAX = 24 };

/* Finds out what this host gives. state_dir must exist and be writable. An ordinary user becomes
 * root of a user namespace of his own, for good: the process should do nothing else afterwards.
 * With `soon` the parts of a first sandbox are begun at once. */
int native_open(const char *state_dir, bool soon, struct native **ret, struct cay_error *err);
/* As native_open for whoever takes over sandboxes that live: an ordinary user enters their user
 * namespace, since only there he has power over them. -1: none lives. */
int native_open_beside(const char *state_dir, int userns, struct native **ret,
                       struct cay_error *err);
/* From now on volumes are host folders below these (NULL-terminated, borrowed), or named ones. */
void native_limit_volumes(struct native *n, const char *const *roots);
struct native *native_close(struct native *n);

/* The walls; and the highest tier whose walls all stand. */
size_t native_walls(const struct native *n, const struct native_wall **ret);
enum tier native_tier(const struct native *n);

/* Where the time of a start went, in microseconds. */
struct native_phases {
    int64_t prepare_us; /* ids, namespaces, control group */
    int64_t root_us;    /* image and file tree */
    int64_t start_us;   /* the first process, until it has become cay-init */
};

/* What the root file system of a sandbox is made of. */
struct native_root {
    const struct image *image; /* borrowed until the box is destroyed; NULL: the host image */
    int disk; /* a folder with "fs" and "work", of the image store's ids: what is written goes to
               * fs, without a limit of our own; with the host image "local" too, for /usr/local.
               * Borrowed for the call. -1: kept in memory */
    bool disk_is_mount; /* the root of a detached mount, which becomes the sandbox's */
};

/* A sandbox from the spec, running, with cay-init as PID 1; root NULL is the host image in memory.
 * The box dies with this process. On failure everything done so far is undone. */
int native_start(struct native *n, const struct sandbox_spec *spec, const struct native_root *root,
                 struct native_box **ret, struct cay_error *err);

/* A sandbox that is to outlive this process. */
struct native_kept {
    pid_t pid; /* of its PID 1; a child of ours */
    int pidfd;
    struct idrange ids;  /* its lease */
    struct cgroup group; /* open; empty where there are no control groups */
    int waiting;         /* where cay-init waits for native_let_live */
};

/* As native_start; what it needed for the start is closed. Its cay-init does nothing yet, and ends
 * if this process ends before native_let_live. */
int native_start_kept(struct native *n, const struct sandbox_spec *spec,
                      const struct native_root *root, struct native_kept *ret,
                      struct cay_error *err);
/* Gives cay-init its listening socket, which stays open here. From here on the sandbox lives
 * whatever becomes of this process. */
int native_let_live(struct native_kept *kept, int listener, struct cay_error *err);
/* Ends one that waits, and removes its control group and lease. */
void native_abandon(struct native *n, struct native_kept *kept);

/* The one connection to its cay-init; the caller owns it. -1 once it has been taken. */
int native_box_take_connection(struct native_box *box);
const struct native_phases *native_box_phases(const struct native_box *box);
/* Becomes readable when the sandbox has ended. Borrowed. */
int native_box_pidfd(const struct native_box *box);
/* True if the kernel has killed a process of it for want of memory. */
bool native_box_oom_killed(const struct native_box *box);

/* Kills every process of the sandbox and removes all that was made for it. NULL is fine; always
 * returns NULL. */
struct native_box *native_box_destroy(struct native_box *box);
