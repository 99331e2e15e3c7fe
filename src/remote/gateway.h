/* Serves one connection of cay where the remote speaks Daytona's protocol only: what cay asks of a
 * daemon (docs/api.md) is asked of the remote in its own words. */
#pragma once

#include "remote/world.h"

/* fd stays the caller's. */
void gateway_serve(struct world *w, int fd);
