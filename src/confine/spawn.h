/* clone3(2) with its own stack: the child shares the caller's memory and the caller stands still
 * until the child executes or exits (CLONE_VM | CLONE_VFORK). The child may only make system calls:
 * no malloc, no stdio, no locks. */
#pragma once

#include <linux/sched.h>
#include <sys/types.h>

/* Runs fn(arg) in the child; its return value is the child's exit status. args->stack is set here.
 * Returns the child's pid or -errno. */
pid_t spawn_shared(struct clone_args *args, int (*fn)(void *), void *arg);
