/* Git in a sandbox: Daytona's paths below /toolbox/{who}/git. */
#pragma once

#include "api/route.h"

extern const struct route_table toolbox_git_routes;
extern const struct route_table toolbox_git_config_routes;
