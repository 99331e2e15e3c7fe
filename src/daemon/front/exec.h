/* How the front is started: this program is executed again, so that every front has fresh addresses
 * and a fresh stack canary, and nothing of the supervisor's memory. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/front/front.h"

struct cay_error;

/* Starts a front; descriptors of the options stay open here. lock is the daemon's lock, which the
 * front keeps open, so that no other daemon starts before it has ended. */
int front_spawn(const struct front_options *options, int lock, pid_t *ret, struct cay_error *err);

/* True if this process was started by front_spawn. */
bool front_is_meant(int argc, char **argv);
/* What it does; returns the exit status. */
int front_main(void);
