/* What a daemon serves, as an OpenAPI 3.0 document. */
#pragma once

#include "api/route.h"
#include "base/buf.h"

/* Writes paths, methods and arguments of all rows of the tables: what is served is described, and
 * nothing else, since the description is made of the same rows. */
void openapi_write(struct buf *out, const struct route_table *const *tables, size_t count);
