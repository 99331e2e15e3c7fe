/* Throw-away sandboxes of this process by an engine's program (engine_ops.run): the program makes
 * them, and removes them when it is asked to or when this process is gone. */
#pragma once

#include "engine/engine.h"

/* Starts the program. close waits until it has ended. */
int link_run_open(enum engine_kind kind, const char *state_dir, struct engine **ret,
                  struct cay_error *err);

/* The folder of the state folder that such a program uses. */
void link_run_folder(enum engine_kind kind, char *out, size_t size);
