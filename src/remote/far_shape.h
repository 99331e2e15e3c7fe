/* What Daytona says of its things, in the words of cay's own interface (docs/api.md). A row is a
 * struct json. */
#pragma once

#include "api/sheet.h"

extern const struct sheet_kind far_shape_sandbox, far_shape_volume, far_shape_stats;
/* A row is a struct far_totals. */
extern const struct sheet_kind far_shape_status;

struct far_totals {
    const char *version;
    size_t sandboxes, started;
};
