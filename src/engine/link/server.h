/* Serves any engine by the protocol of protocol.h, in the engine's own program: the front asks it
 * as it asks the native launcher, and holds none of its rights. */
#pragma once

#include "engine/engine.h"

struct cay_error;

/* Called with the engine's `ended`; user is the socket of the client as an intptr_t. */
void link_serve_ended(void *user, const struct engine_end *end);

/* Serves the client at the other end of sock until it hangs up; each request by a thread. */
int link_serve(struct engine *e, int sock, struct cay_error *err);

/* Waits until every request that was begun is done. */
void link_serve_wait(void);
