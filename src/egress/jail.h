/* Where cay-egress works: a root that holds nothing but copies of the files for name resolution. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct cay_error;

/* Gives up the host's mounts and ids, every capability and the right to everything that the proxy
 * does not do. As root it becomes user `as` in an empty root; the next id is that of the process
 * that keeps its names (names.h). With as 0 it stays who it is: then Landlock leaves it the folders
 * of the files for name resolution, if the kernel has Landlock. */
int jail_enter(uid_t as, struct cay_error *err);
