/* The runtime of containers ([docker] runtime), and what it means for a sandbox. A runtime with a
 * kernel of its own keeps the sandbox's system calls away from the host's kernel; it can neither be
 * given descriptors nor shown that a folder is the one that was checked. */
#pragma once

#include <stdbool.h>

#include "engine/spec.h"

struct cay_error;
struct docker_info;

enum { DOCKER_RUNTIME_SIZE = 65 }; /* of a name */

enum docker_kernel {
    DOCKER_KERNEL_HOST,   /* the host's: runc, crun and all that we do not know */
    DOCKER_KERNEL_GVISOR, /* one in a process, which lacks some of Linux: runsc */
    DOCKER_KERNEL_GUEST,  /* Linux in a virtual machine: Kata */
};

/* By the name under which Docker knows it; "" is Docker's default, of which nothing is assumed. */
enum docker_kernel docker_runtime_kernel(const char *name);
/* The tier of sandboxes with this runtime. */
enum tier docker_runtime_tier(const char *name);

/* What the environment of this process says; "" if nothing. */
const char *docker_runtime_chosen(void);

/* The host's limit of processes for a sandbox that may have so many (0: no limit): gVisor's kernel
 * is a process with threads of its own, which count. */
uint32_t docker_runtime_pids(const char *name, uint32_t pids);

/* Whether Docker has this runtime, and it is what its name says. */
int docker_runtime_check(const struct docker_info *info, const char *name, struct cay_error *err);
