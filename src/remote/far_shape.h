/* What Daytona says of its things, in the words of cay's own interface (docs/api.md). A row is a
 * struct json. */
#pragma once

#include "base/json/jsonw.h"

void far_put_sandbox(struct jsonw *w, const void *row);
void far_put_volume(struct jsonw *w, const void *row);
void far_put_stats(struct jsonw *w, const void *row);
/* A row is a struct far_totals. */
void far_put_status(struct jsonw *w, const void *row);

struct far_totals {
    const char *version;
    size_t sandboxes, started;
};
