/* Control groups of the native engine: limits, freezing, killing and accounting per sandbox, on
 * cgroup v1 and v2 alike. A sandbox's group is a folder named by its id below our parent folder, in
 * the unified tree or in each v1 hierarchy that we use. After the probe everything goes through
 * descriptors, so that a launcher without /sys and /proc in its mount namespace can use it too.
 *
 * Device nodes: everything but null, zero, full, random, urandom, tty, ptmx and pts is refused, and
 * so is making nodes. The policy sits on the parent folder, once, and holds for all below it.
 *
 * Out of memory: the kernel kills the largest process of the sandbox, not all of them
 * (memory.oom.group stays 0): its init must survive to report what happened and to keep the
 * partial output. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

struct cay_error;

enum cgroup_version { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

enum cgroup_controller {
    CGROUP_MEMORY,
    CGROUP_CPU,
    CGROUP_CPUACCT, /* accounting of cpu time; always there on v2 */
    CGROUP_PIDS,
    CGROUP_DEVICES,
    CGROUP_FREEZER,
    CGROUP_IO, /* only looked for: no limit uses it */
    CGROUP_CONTROLLERS,
};

enum { CGROUP_HIERARCHIES_MAX = 6, CGROUP_PATH_SIZE = 512 };

/* One tree of groups that we use; co-mounted controllers share one, v2 is a single one. */
struct cgroup_hierarchy {
    int parent;                  /* our folder in it */
    unsigned controllers;        /* bits 1 << enum cgroup_controller */
    bool shared;                 /* sandboxes join the parent itself (v1 devices) */
    char path[CGROUP_PATH_SIZE]; /* of the parent, for messages */
};

struct cgroup_support {
    bool usable;
    char reason[192]; /* why not, and what to do about it; empty when usable */
    char remedy[192];
};

/* What the machine offers. Constant after the probe; must outlive every struct cgroup of it. */
struct cgroup_host {
    enum cgroup_version version;
    struct cgroup_support support[CGROUP_CONTROLLERS];
    struct cgroup_hierarchy hierarchies[CGROUP_HIERARCHIES_MAX];
    size_t hierarchy_count;
    int where[CGROUP_CONTROLLERS]; /* index into hierarchies, -1 if not usable */
    int shared_tasks;              /* v1: `tasks` of the shared devices folder, or -1 */
};

/* 0 means no limit. Memory includes page cache, tmpfs and kernel memory; swap is off. */
struct cgroup_limits {
    uint64_t memory_bytes;
    uint64_t cpu_quota_us_per_100ms; /* 100000 is one cpu; at least 1000 */
    uint32_t pids;                   /* processes and threads */
};

struct cgroup_stats {
    uint64_t memory_bytes;
    uint64_t memory_peak_bytes; /* 0 where the kernel does not say (v2 before 5.19) */
    uint64_t oom_kills;
    uint64_t cpu_us;
    uint64_t throttled_us;
    uint64_t throttled_periods;
    uint64_t pids;
};

/* The group of one sandbox, open. */
struct cgroup {
    const struct cgroup_host *host; /* NULL: empty */
    char id[ID_SIZE];
    struct cgroup_limits limits; /* as last written; only if limits_known */
    bool limits_known;
    int tasks[CGROUP_HIERARCHIES_MAX]; /* v1, for cgroup_attach_self(); -1 beyond the last */
    int dirfd;                         /* v2, for clone3(CLONE_INTO_CGROUP); else -1 */
    int oom, members; /* counters that are looked at often, after cgroup_keep_counters; else -1 */
};

#define CGROUP_EMPTY                                                                               \
    ((struct cgroup){.tasks = {-1, -1, -1, -1, -1, -1}, .dirfd = -1, .oom = -1, .members = -1})

/* Finds out what there is and makes our parent folder. Succeeds also where nothing is usable: the
 * reasons are in support[]. As an ordinary user on v2 it may move this process into a leaf of its
 * own ("cay.self"), because a group that holds processes cannot hand controllers down. */
int cgroup_probe(struct cgroup_host *ret, struct cay_error *err);

/* As cgroup_probe with another name for the parent folder, and below the unified tree mounted at
 * `unified` only, unless that is NULL. For tests. */
int cgroup_probe_at(const char *unified, const char *parent, struct cgroup_host *ret,
                    struct cay_error *err);

void cgroup_host_close(struct cgroup_host *host);

/* The same host without the v1 hierarchies that only count or freeze, for sandboxes that nobody
 * pauses or asks for counters: each hierarchy costs time to join and memory. The descriptors are
 * borrowed: `ret` is not closed, and not used after `all`. Removing works with either. */
void cgroup_host_limiting(const struct cgroup_host *all, struct cgroup_host *ret);

/* 0 if the controller is usable; else CAY_UNSUPPORTED with the reason and the remedy. */
int cgroup_require(const struct cgroup_host *host, enum cgroup_controller controller,
                   struct cay_error *err);

/* Makes the group with its limits, or nothing at all. A limit whose controller is missing is
 * refused (CAY_UNSUPPORTED), an id that exists already too (CAY_CONFLICT). */
int cgroup_create(const struct cgroup_host *host, const char *id,
                  const struct cgroup_limits *limits, struct cgroup *ret, struct cay_error *err);

/* Opens the group of a sandbox that exists, as after a restart. */
int cgroup_open(const struct cgroup_host *host, const char *id, struct cgroup *ret,
                struct cay_error *err);

/* Keeps the files open that cgroup_oom_kills and cgroup_is_idle read, for a group that is leased
 * again and again. 0 or -errno. */
int cgroup_keep_counters(struct cgroup *cgroup);

/* Closes the descriptors; the group stays. */
void cgroup_close(struct cgroup *cgroup);

/* Closes what joining it needs, for a group that nobody joins any more from outside: each open file
 * is memory of the kernel. Counters are read as before. */
void cgroup_close_door(struct cgroup *cgroup);

/* Moves the calling thread in, by v1 `tasks`; on v2 the caller uses clone3 with dirfd instead and
 * this does nothing. Safe in a child that shares memory with its parent: plain write(2)s, no
 * memory, no locks. Returns 0 or -errno. */
int cgroup_attach_self(const struct cgroup *cgroup);

/* Changes the limits of a live sandbox, writing only what differs. A memory limit below what is in
 * use makes the kernel reclaim; where that is not enough v1 refuses (CAY_CONFLICT) and v2 kills. */
int cgroup_set_limits(struct cgroup *cgroup, const struct cgroup_limits *limits,
                      struct cay_error *err);

/* Stops every process and waits until they have stopped; if that does not happen in time they run
 * on (CAY_TIMEOUT). Deadlines and patience are those of base/clock.h. */
int cgroup_freeze(const struct cgroup *cgroup, int64_t patience_ms, struct cay_error *err);
int cgroup_thaw(const struct cgroup *cgroup, struct cay_error *err);
/* 1 if every process is stopped, 0 if not, or -errno. */
int cgroup_is_frozen(const struct cgroup *cgroup);

/* What is not accounted on this host is 0. */
int cgroup_stats(const struct cgroup *cgroup, struct cgroup_stats *ret, struct cay_error *err);

/* Of the counters only how often the kernel killed for want of memory; 0 or -errno. */
int cgroup_oom_kills(const struct cgroup *cgroup, uint64_t *ret);

/* 1 if no process is left, 0 if there is one, or -errno. Zombies do not count. */
int cgroup_is_empty(const struct cgroup *cgroup);
/* The same by one look at the process limit's counter, for a group whose members joined all
 * hierarchies and have been reaped. */
int cgroup_is_idle(const struct cgroup *cgroup);

/* Kills what is left and removes the group. Gone already is success, also partly. */
int cgroup_remove(const struct cgroup_host *host, const char *id, int64_t deadline_ms,
                  struct cay_error *err);
