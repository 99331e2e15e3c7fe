/* A small process that outlives a killed `cay run` for the moment that it takes to remove what the
 * kernel would not remove by itself: the sandbox's control group. */
#pragma once

#include <sys/types.h>

struct cay_error;
struct cgroup_host;

struct watchdog {
    pid_t pid;
    int pipe; /* closing it without a word means: clean up */
};

#define WATCHDOG_EMPTY ((struct watchdog){.pipe = -1})

/* Starts it; `keep` (or -1) stays open in it, so that a lease ends only after the clean-up. */
int watchdog_start(const struct cgroup_host *cgroups, const char *id, int keep,
                   struct watchdog *ret, struct cay_error *err);
/* Tells it that everything is clean and waits for it. */
void watchdog_stop(struct watchdog *w);
