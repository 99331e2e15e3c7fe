/* Whether the manager can do its work. What fails is -CAY_UNAVAILABLE with the reason. */
#pragma once

#include <stdbool.h>

#include "engine/engine.h"

struct manager;

/* The database can be read and written. May wait for the disk. */
int manager_check_database(struct manager *m, struct cay_error *err);
/* The database works and was not damaged, and the engines that have sandboxes answer. */
int manager_health(struct manager *m, struct cay_error *err);
/* It takes requests that change something: it has started, is not ending, is not in rescue mode,
 * and the default engine answers. Does not wait. */
int manager_check_ready(struct manager *m, struct cay_error *err);

struct manager_engine {
    bool is_used; /* else nothing else counts: it has no sandboxes and is not the default */
    bool is_up, is_default;
    bool is_silent; /* it is not up since it does not answer */
    struct engine_health health;
    struct cay_error why; /* unless it is up */
};
/* What is known of an engine from its last ping. Does not wait. */
void manager_engine_look(struct manager *m, enum engine_kind kind, struct manager_engine *ret);
/* Sends a ping, if the engine is used. Does not wait for the answer. */
void manager_ping(struct manager *m, enum engine_kind kind);
