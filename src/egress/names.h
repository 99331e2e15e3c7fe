/* The two files by which names are resolved, copied for a process that cannot open the host's. */
#pragma once

#include <sys/types.h>

struct cay_error;

/* Copies /etc/hosts and /etc/resolv.conf into the folder. One that is missing is left out. */
int names_copy(int folder, struct cay_error *err);

/* Starts a process that copies them again whenever they change, and ends with the caller. It runs
 * as user `as`, who must own the folder, without a capability. */
int names_keep(int folder, uid_t as, struct cay_error *err);
