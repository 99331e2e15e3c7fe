/* The routes of Daytona's protocol, one table for each area. */
#pragma once

#include "api/route.h"

extern const struct route_table daytona_sandbox_routes;
extern const struct route_table daytona_misc_routes;
/* What Daytona's protocol has and we have not: 501, with what there is instead. */
extern const struct route_table daytona_absent_routes;

/* Handlers of their own files. */
int daytona_list_handle(struct call *c, struct cay_error *err);
int daytona_pages_handle(struct call *c, struct cay_error *err);
