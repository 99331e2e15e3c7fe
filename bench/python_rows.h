/* Python in sandboxes of a launcher, as a client that keeps some waiting sees it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "engine/link/program.h"

struct bench_options;
struct cay_error;

enum { PYTHON_WAITING_MAX = 16 };

struct python_box {
    int fd;
    uint64_t tag;
};

struct python_host {
    struct launcher_client client;
    uint64_t tag;
    int warm; /* the frozen interpreter */
    struct python_box waiting[PYTHON_WAITING_MAX];
    size_t waiting_count;
};

/* Starts a launcher and freezes an interpreter with these modules (NULL-terminated). */
int python_host_open(struct python_host *h, const struct bench_options *o,
                     const char *const *preload, struct cay_error *err);
void python_host_close(struct python_host *h);

/* A program in a fresh sandbox that wakes the interpreter for it. *ret_us is the time until its
 * result is there; the sandbox is gone when this returns. */
int python_on_demand(struct python_host *h, const char *code, int64_t *ret_us,
                     struct cay_error *err);

/* Brings the number of sandboxes where an interpreter waits up to count. */
int python_fill(struct python_host *h, size_t count, struct cay_error *err);
/* The same in one of those. */
int python_from_pool(struct python_host *h, const char *code, int64_t *ret_us,
                     struct cay_error *err);
