/* The first process of a sandbox, from its creation to the exec of cay-init. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <cay/errors.h>

#include "engine/init_memfd.h"
#include "engine/native/rootfs/rootfs.h"

struct cgroup;

enum { ENTER_LOW_FDS = 16 };
enum { ENTER_BOOT_ID_SIZE = sizeof "xxxxxxxx-xxxx-4xxx-axxx-xxxxxxxxxxxx" };

/* Everything that the process needs, made by the caller beforehand. It shares the caller's memory,
 * so its error comes back in `err`. */
struct enter_plan {
    struct rootfs_entry fs;
    const struct cgroup *cgroup; /* NULL: none */
    int netns;                   /* to join, or -1: a new one is made with the process */
    bool ipcns_joined;           /* the caller is in it; otherwise a new one is made */
    int userns;                  /* to join last, or -1: the caller is root of its own */
    bool single_id;              /* the user namespace has one id only */
    uint32_t pids_rlimit;        /* processes of a user; 0: any number */
    int landlock_abi;
    const struct sock_fprog *filter;
    int init;       /* sealed memfd with cay-init */
    int listener;   /* or -1 */
    int connection; /* or -1 */
    bool die_with_parent;
    bool for_parent;      /* it becomes a child of the caller's parent */
    bool plain_oom_score; /* the caller is not protected from the OOM killer */
    /* Has no terminal to be kept from, every signal at its default, and what
     * privilege_set_common_rlimits sets. */
    bool plain_caller;
    /* The caller has thousands of descriptors: share the table until it is cut off above the first
     * ENTER_LOW_FDS, among which init, listener and connection must be. */
    bool share_descriptors;
    char boot_id[ENTER_BOOT_ID_SIZE]; /* made by enter_start */
    struct cay_error err;
};

/* Makes the process and waits until it has become cay-init. On failure nothing is left of it.
 * Returns its pid, with *ret_pidfd, or negative. */
pid_t enter_start(struct enter_plan *plan, int *ret_pidfd, struct cay_error *err);
