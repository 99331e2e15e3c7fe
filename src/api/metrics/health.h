/* /livez, /readyz and /healthz. */
#pragma once

#include <stdbool.h>

#include "api/route.h"

struct target;

extern const struct route_table health_routes;

/* True for the two that need no key: they say nothing but yes or no. */
bool health_is_probe(const struct target *t);
