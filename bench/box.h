/* Sandboxes from a launcher, as a client with a connection of its own to each sees them. */
#pragma once

#include <stdint.h>

#include "engine/link/program.h"

struct cay_error;

/* What every sandbox here is: the sizes that the launcher keeps slots ready for. */
extern const struct sandbox_spec box_spec;

/* A fresh sandbox runs a command that must exit with 0. *ret_us is the time from nothing to having
 * its exit status. The sandbox itself ends behind that: box_wait_ended. */
int box_run(const struct launcher_client *c, uint64_t tag, const char *const *argv, int64_t *ret_us,
            struct cay_error *err);

/* Takes answers of the launcher until this sandbox has ended, and everything of it is gone. */
int box_wait_ended(const struct launcher_client *c, uint64_t tag, struct cay_error *err);

/* Starts a sandbox that listens at this path, and waits until it runs; *ret_pid is its PID 1. */
int box_start_listening(const struct launcher_client *c, uint64_t tag, const char *path,
                        pid_t *ret_pid, struct cay_error *err);

/* A command in a running sandbox: connect, run, exit status 0. */
int box_exec(const char *path, const char *const *argv, int64_t *ret_us, struct cay_error *err);
