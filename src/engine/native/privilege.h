/* Giving up privilege: ids, capabilities, resource limits, signal dispositions. All of it runs in
 * a child that shares memory with its parent: system calls only, 0 or -errno. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Becomes uid and gid without supplementary groups. With change_groups false (a namespace with one
 * id) setgroups is not possible and was denied. */
int privilege_set_ids(uid_t uid, gid_t gid, bool change_groups);

/* What cay-init keeps across its exec, inside its user namespace only: to start commands as any user
 * of the sandbox and to end them. In the profile strict that is all, nothing of it reaches a
 * command, the bounding set is empty and the securebits are locked. In the profile build commands
 * that run as root inside get the capabilities over files and users that package managers need. */
int privilege_limit_capabilities(bool build);

/* No core dumps, bounded descriptors, no priority; pids is for hosts without a pids controller
 * (0: no limit of our own). */
int privilege_set_rlimits(uint32_t pids);

/* Default dispositions, nothing blocked. */
void privilege_reset_signals(void);
