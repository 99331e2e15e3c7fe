/* Giving up privilege: ids, capabilities, resource limits, signal dispositions. All of it runs in
 * a child that shares memory with its parent: system calls only, 0 or -errno. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Becomes uid and gid without supplementary groups. With change_groups false (a namespace with one
 * id) setgroups is not possible and was denied. */
int privilege_set_ids(uid_t uid, gid_t gid, bool change_groups);

/* Gives up every capability, and empties the bounding set as far as the caller may. */
int privilege_clear_capabilities(void);

/* Keeps these capabilities (capabilities.h) of those that the caller has, with only some of them
 * effective; all others leave every set. What the caller executes as root can have those that are
 * kept. */
int privilege_keep_capabilities(uint64_t kept, uint64_t effective);

/* What cay-init keeps across its exec, inside its user namespace only: to start commands as any
 * user of the sandbox and to end them. In the profile strict that is all, nothing of it reaches a
 * command, the bounding set is empty and the securebits are locked. In the profile build commands
 * that run as root inside get the capabilities over files and users that package managers need; the
 * one to give capabilities to files only if set_file_capabilities. */
int privilege_limit_capabilities(bool build, bool set_file_capabilities);

/* The same where a kernel has neither ambient capabilities nor securebits, for a cay-init that is
 * root; the profile strict only. */
int privilege_keep_init_capabilities(void);

/* The same limits for every sandbox, whatever its maker's are: no core dumps, bounded descriptors,
 * no priority. A hard limit of the maker stays where it may not be raised. The common ones are
 * those that a maker can live with itself. pids is for hosts without a pids controller (0: no limit
 * of our own). 0 or -errno. */
int privilege_set_common_rlimits(void);
int privilege_set_own_rlimits(uint32_t pids);
/* The limit of descriptors, which comes last: below it nothing with a higher number can be opened,
 * and the maker of a thousand sandboxes has higher numbers. 0 or -errno. */
int privilege_limit_descriptors(void);

/* Take back what would put a sandbox ahead of the host because its maker is: real time and negative
 * nice values; protection from the OOM killer, for which /proc must be there. */
int privilege_reset_priority(void);
int privilege_reset_oom_score(void);

/* Becomes cay-init, of which program is a descriptor. Returns only if that fails. */
int privilege_exec_init(int program);

/* Every signal at its default; and none blocked. */
void privilege_reset_signals(void);
void privilege_unblock_signals(void);
