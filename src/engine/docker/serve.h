/* Any engine behind the launcher's protocol (engine/native/launcher.h), for a process of its own:
 * the front asks it as it asks the native launcher, and holds none of its rights. */
#pragma once

#include "engine/engine.h"

struct cay_error;

/* Called with the engine's `ended`; user is the socket of the client as an intptr_t. */
void serve_ended(void *user, const struct engine_end *end);

/* Serves the client at the other end of sock until it hangs up; each request by a thread. */
int serve_engine(struct engine *e, int sock, struct cay_error *err);

/* Waits until every request that was begun is done. */
void serve_wait(void);
