/* Which ports of a sandbox's loopback somebody listens on: /toolbox/{who}/port. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "api/route.h"

extern const struct route_table toolbox_ports_routes;

enum { PORTS_FIRST = 3000, PORTS_LAST = 9999 }; /* what Daytona looks at */

/* Marks in `open` (PORTS_LAST + 1 flags) the ports that a text as of /proc/net/tcp has as listened
 * on; what is no such line is ignored. Pure. */
void ports_read(const char *text, bool *open);
