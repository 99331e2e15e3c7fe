/* A Python program over a connection to cay-init, whoever made the sandbox. */
#pragma once

#include <cay.h>

#include "lib/command.h"

/* As command_exec; tier and out of memory are the caller's to fill. */
int python_exec(int *fd, const struct cay_python *python, const struct cay_exec *exec,
                const struct command_defaults *defaults, struct cay_python_result *ret,
                struct cay_error *err);

/* Adds a file to those of a struct cay_python_result: for command_extras. */
void python_take_change(void *result, const char *path, uint64_t size, bool created);
