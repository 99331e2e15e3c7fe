/* Python programs by warm interpreters. */
#pragma once

#include "api/toolbox_command.h"

extern const struct route_table python_routes;

/* A piece of code for the call's sandbox: 1 if a copy of its image's interpreter has run it, with
 * its output and outcome; 0 if it has to be started cold, and nothing was run; negative if it
 * failed. A header of the answer says which, and why. */
int python_run_warm(struct call *c, const char *code, const struct strv *argv,
                    const struct strv *env, int64_t timeout_ms, struct toolbox_output *out,
                    struct exec_outcome *ret, struct cay_error *err);
