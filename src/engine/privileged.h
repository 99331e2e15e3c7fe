/* Whether this process may make sandboxes with every wall. */
#pragma once

#include <stdbool.h>

/* True for root of a host, and not of a user namespace with too few ids. */
bool engine_is_privileged(void);
