/* Where cay-image works: a user namespace that holds the ids of the image store and nothing of the
 * host, with a mount namespace of its own; host root's network. */
#pragma once

#include <stdbool.h>

#include "image/store.h"

struct cay_error;
struct runner;

struct world {
    struct image_store store;
    struct runner *runner; /* the parent */
};

/* Opens (and makes, if missing) the store below state_dir, and goes on in a child in that
 * namespace: returns there only. The parent serves its requests, then exits as the child did. With
 * `builds` it opens the engine too. To be called with one thread, with every file of the caller
 * that is needed (archives, CA) open already. */
int world_enter(const char *state_dir, bool builds, struct world *ret, struct cay_error *err);
