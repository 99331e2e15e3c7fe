/* Who may have one more of the proxy's places. A sandbox has a fixed number; what its owner holds
 * is bounded by the owner's limit, and by its share: as many as are free, so that the sandboxes of
 * somebody else always find some. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cay_error;

enum { PLACES_MAX = 1024, PLACES_PER_BOX = 64 };

/* What is taken already, before the place that is asked for. */
struct places {
    size_t all, box, owner;
    size_t owner_max;     /* the owner's limit; 0: none */
    const char *owner_id; /* "": whoever runs the daemon, who has no share to keep to */
};

/* 0, or -CAY_LIMIT_REACHED with the limit that is reached. */
int places_check(const struct places *p, struct cay_error *err);
