/* Plain programs: started with vfork and exec, waited for, timed. */
#pragma once

#include <stdint.h>

struct cay_error;

enum { COMMAND_ARGS_MAX = 48 };

struct command {
    const char *argv[COMMAND_ARGS_MAX + 1]; /* argv[0] is a path */
    const char *mount_ns;                   /* to run in, or NULL */
};

/* Runs it to its end, its output thrown away; fails unless it exits with 0. */
int command_run(const struct command *c, int64_t *ret_us, struct cay_error *err);
