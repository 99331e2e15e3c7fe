/* What the images of each owner take of the disk. A layer that several owners have counts for each
 * of them, once; one of a public image counts for nobody. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "image/store.h"

/* One layer that somebody pays for; in a sum, all of them. */
struct image_charge {
    char owner[IMAGE_OWNER_SIZE], made_by[IMAGE_OWNER_SIZE]; /* as in struct image_store */
    char chain[HEX_SIZE];                                    /* "" in a sum */
    uint64_t bytes;
};

struct image_charges {
    struct image_charge *items;
    size_t count, capacity;
};
void image_charges_free(struct image_charges *c);
int image_charges_add(struct image_charges *c, const struct image_charge *one); /* 0 or -ENOMEM */

/* Adds the layers of all images that keys and organisations own. */
int image_store_charges(const struct image_store *store, struct image_charges *ret,
                        struct cay_error *err);
/* Leaves a sum for each pair of owner and key, sorted. */
int image_charges_sum(const struct image_store *store, struct image_charges *c,
                      struct cay_error *err);
