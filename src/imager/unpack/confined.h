/* Work on hostile bytes in a child process that has two descriptors and nothing else: no file, no
 * network, no capability, and hardly a system call. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "image/store.h"

struct cay_error;

/* Runs in the child; may read from `in` (and seek, if it is a file) and write to `out`. */
typedef int (*confined_work)(int in, int out, uint64_t limit, struct cay_error *err);

struct confined {
    pid_t pid;
    int report;
};

/* Starts the work; out may be closed by the caller afterwards. No file grows beyond limit. */
int confined_start(const struct image_store *store, confined_work work, int in, int out,
                   uint64_t limit, struct confined *ret, struct cay_error *err);
/* Waits for it: its result, its error. */
int confined_finish(struct confined *c, struct cay_error *err);
