/* A piece of code over a connection to cay-init, whoever made the sandbox. */
#pragma once

#include <cay.h>

#include "lib/command.h"

/* As command_exec; tier and out of memory are the caller's to fill. */
int code_exec(int *fd, const struct cay_program *code, const struct cay_exec *exec,
              const struct command_defaults *defaults, struct cay_program_result *ret,
              struct cay_error *err);
