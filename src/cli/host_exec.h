/* A command on the host itself, for who has switched the sandbox off: no wall at all, only what can
 * be limited without one. */
#pragma once

#include <cay.h>

/* Runs a command to its end as cay_sandbox_exec does: time, silence and output are limited, and its
 * process group ends with it. No terminal, no other user. work_dir NULL: where we are. */
int host_exec(const struct cay_exec *exec, struct cay_result *ret, struct cay_error *err);
