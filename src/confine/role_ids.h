/* Host ids of our own unprivileged processes. Each of root's daemons has a block of ids, with one
 * id for each role, so that a process that is taken over can neither open the files of another role
 * nor signal its processes. A lock in the lease file (idrange.h) keeps two daemons from using the
 * same block. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "confine/idrange.h"

struct cay_error;

enum role {
    ROLE_FRONT,
    ROLE_EGRESS, /* the proxy of sandboxes */
    ROLE_NAMES,  /* keeps the proxy's copies of /etc/hosts and /etc/resolv.conf current */
    ROLES_MAX = 16,
};

enum {
    ROLE_BLOCKS = IDRANGE_SIZE / ROLES_MAX,
    ROLE_BLOCKS_OF_RUNS = ROLE_BLOCKS / 2, /* the last ones: for runs without a daemon */
};

struct role_ids {
    int lock; /* holds the lease; -1 when there is none */
    uid_t base;
};

#define ROLE_IDS_EMPTY ((struct role_ids){.lock = -1})

/* The id of one role. */
static inline uid_t role_id(const struct role_ids *ids, enum role role) {
    return ids->base + (uid_t)role;
}

/* Leases a block for the daemon of a state folder. former is the owner of the daemon's folder: its
 * block is used again if it is one and is free. The block of a new folder follows from its path;
 * that of /var/lib/cay is the first, whose front is the user `cay` of the packages. */
int role_ids_lease(const char *state_dir, uid_t former, struct role_ids *ret,
                   struct cay_error *err);
/* Leases a block for one run without a daemon. */
int role_ids_lease_run(struct role_ids *ret, struct cay_error *err);
/* Gives it back. */
void role_ids_release(struct role_ids *ids);
