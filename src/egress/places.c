#include "egress/places.h"

#include "base/error.h"

int places_check(const struct places *p, struct cay_error *err) {
    if (p->box >= PLACES_PER_BOX) {
        error_set(err, CAY_LIMIT_REACHED, "this sandbox has %d connections already",
                  PLACES_PER_BOX);
        return error_remedy(err, "end some first");
    }
    if (p->owner_max > 0 && p->owner >= p->owner_max) {
        error_set(err, CAY_LIMIT_REACHED,
                  "the sandboxes of this key have %zu connections, which is its limit", p->owner);
        return error_remedy(err, "end some first, or ask for a key with a higher "
                                 "--max-proxy-connections");
    }
    size_t left = p->all < PLACES_MAX ? PLACES_MAX - p->all : 0;
    if (left > 0 && (p->owner_id[0] == '\0' || p->owner < left))
        return 0;
    if (p->owner_id[0] == '\0')
        error_set(err, CAY_LIMIT_REACHED, "the proxy has %d connections already", PLACES_MAX);
    else
        error_set(err, CAY_LIMIT_REACHED,
                  "the sandboxes of this key have %zu of the proxy's %d connections, which is "
                  "their share",
                  p->owner, PLACES_MAX);
    return error_remedy(err, "end some first, in this sandbox or in another of the same owner");
}
