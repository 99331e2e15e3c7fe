/* cay-launcher: a small single-threaded process that holds the privilege and serves the protocol of
 * engine/link/protocol.h for the native engine. */
#pragma once

#include "engine/link/protocol.h"

struct cay_error;
struct native;

/* Takes the low descriptor numbers that are not in use, so that nothing else ever lands there. To
 * be called before anything else is opened. */
int launcher_reserve_descriptors(struct cay_error *err);

/* Serves the client at the other end of sock until it hangs up; then ends every throw-away sandbox.
 * `ready` is how many slots to keep ready; defaults says for which size. Without every wall there
 * are no slots, and only sandboxes that stay. */
int launcher_serve(struct native *n, int sock, unsigned ready, const struct sandbox_spec *defaults,
                   struct cay_error *err);
