/* Making one layer of the store: over those below it, so that the kernel's overlay does what OCI's
 * rules ask for (hard links to lower files, folders whose attributes a parent must keep, whiteouts
 * only where there is something to hide). */
#pragma once

#include <stddef.h>

#include "image/store.h"

struct cay_error;

/* A layer that is being made over `below` (lowest first). root is where to write: the merged view,
 * or the empty folder itself if nothing is below. */
struct layer {
    struct layer_work work;
    int root;
    int mount; /* the overlay: without a mount, ".." behind a symlink cannot be resolved in root */
    size_t below;
    struct record_layer *lowers; /* a copy of them */
};
#define LAYER_NONE ((struct layer){.work = LAYER_WORK_NONE, .root = -1, .mount = -1})

int layer_begin(const struct image_store *store, const struct record_layer *below, size_t count,
                struct layer *ret, struct cay_error *err);
/* The first half of layer_commit, for whoever needs the layer's digest before its name: unmounts
 * and brings the files (work/NAME/fs) into their final form. root is closed. */
int layer_settle(const struct image_store *store, struct layer *layer, struct cay_error *err);
/* Unmounts, brings the files into the form that the store promises (opaque folders become
 * whiteouts, the overlay's own attributes go), and gives it its name. */
int layer_commit(const struct image_store *store, struct layer *layer, const char *chain,
                 struct cay_error *err);
/* NULL-safe for an empty one. */
void layer_abandon(const struct image_store *store, struct layer *layer);

/* Brings a folder that was the upper of somebody else's overlay (a sandbox) into the store's form.
 * `below` as in layer_begin. */
int layer_tidy(const struct image_store *store, int upper, const struct record_layer *below,
               size_t count, struct cay_error *err);
