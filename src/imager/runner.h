/* The other half of cay-image: what it cannot do itself. cay-image works in a user namespace that
 * holds the ids of the image store and nothing of the host; its parent stays outside with
 * the caller's rights, and does two things on request: run a command of an image build in a sandbox
 * with every wall, and look up a credential. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/record.h"

struct cay_error;
struct credential;
struct runner;

struct runner_command {
    const struct record_layer *below; /* layers, lowest first */
    size_t below_count;
    const char *work;        /* name of a layer in the making: what the command writes goes there */
    const char *const *argv; /* NULL-terminated */
    const char *const *env;
    const char *cwd;
    const char *user;                  /* "" for root */
    const char *network;               /* "none" */
    uint64_t memory_bytes, disk_bytes; /* 0: defaults */
    double cpus;
    int64_t timeout_ms;
    int output; /* standard output and error go here as they come */
};

/* 0 when the command ran, whatever its exit code. */
int runner_run(struct runner *r, const struct runner_command *command, int *exit_code,
               struct cay_error *err);

/* credential_find() in the parent, which may read the caller's files. */
int runner_find_credential(struct runner *r, const char *registry, struct credential *ret,
                           struct cay_error *err);
