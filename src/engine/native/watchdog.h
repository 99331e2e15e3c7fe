/* A small process that outlives a killed maker of sandboxes for the moment that it takes to remove
 * what the kernel would not remove by itself: their control groups. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/id.h"

struct cay_error;
struct cgroup_host;

enum { WATCHDOG_IDS_MAX = 4096 };

/* The groups to remove. A maker of many keeps it in memory that it shares with the watchdog. */
struct watchdog_ids {
    size_t count;
    char id[][ID_SIZE];
};

struct watchdog {
    pid_t pid;
    int pipe; /* closing it without a word means: clean up */
};

#define WATCHDOG_EMPTY ((struct watchdog){.pipe = -1})

/* Starts it; `keep` (or -1) stays open in it, so that a lease ends only after the clean-up. */
int watchdog_start(const struct cgroup_host *cgroups, const struct watchdog_ids *ids, int keep,
                   struct watchdog *ret, struct cay_error *err);
/* Tells it that everything is clean and waits for it. */
void watchdog_stop(struct watchdog *w);
