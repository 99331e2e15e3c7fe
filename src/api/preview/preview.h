/* Previews: HTTP and WebSocket from outside to a port inside a sandbox, and the URLs for it. */
#pragma once

#include "api/route.h"

struct call;
struct cay_error;

extern const struct route_table preview_routes;     /* the proxy */
extern const struct route_table preview_url_routes; /* of the API: URLs and their tokens */

/* Makes the call's target that of the proxy, or of the toolbox (port 2280); its place is filled. */
int preview_rewrite(struct call *c, struct cay_error *err);

/* Lets in, over TCP and without a key, who has a token for it, or everybody if the sandbox is
 * public: true, with the caller acting for the sandbox's owner. The same for a path of the toolbox
 * with a token of its sandbox. */
bool preview_admit(struct call *c);
