/* A command over a connection to cay-init, whoever made the sandbox. */
#pragma once

#include <cay.h>

/* What a command gets unless its caller says otherwise. */
struct command_defaults {
    const char *user; /* NULL: root */
    const char *hostname;
    const char *const *env; /* over our own, under the caller's; NULL: none */
};

/* Runs a command to its end, as cay_sandbox_exec promises; tier, out of memory and the phases
 * before the command are the caller's to fill. *fd is closed when the command has ended, and stays
 * open if nothing was sent. */
int command_exec(int *fd, const struct cay_exec *exec, const struct command_defaults *defaults,
                 struct cay_result *ret, struct cay_error *err);
