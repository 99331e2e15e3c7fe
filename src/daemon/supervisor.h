/* The supervisor: starts launcher and front, and starts again what dies. It has all the rights of
 * whoever started the daemon, so it does next to nothing else. */
#pragma once

#include "daemon/settings.h"

struct cay_error;

struct replace_kept;

/* Runs the daemon until SIGTERM or SIGINT. `report` (or -1) gets a struct cay_error when it serves
 * (CAY_OK), or could not start; then this fails too. `kept` is from the program before, or NULL. On
 * SIGUSR2 it becomes the program that is installed by then. */
int supervisor_run(struct settings *settings, int report, const struct replace_kept *kept,
                   struct cay_error *err);
