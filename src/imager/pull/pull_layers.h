/* The layers of an image that is pulled: those that the store lacks are downloaded several at once,
 * and unpacked one over the other while they arrive. */
#pragma once

#include "image/store.h"
#include "imager/registry/registry.h"

struct cay_error;
struct progress;

/* Brings every layer of the record into the store. Of each, chain, diff_id, blob, media_type and
 * blob_size must be told; size and entries are filled in. Of a layer that was there before, the
 * blob stays "" if none is kept. Content that proves wrong is got once more. */
int pull_layers(const struct image_store *store, struct registry *registry,
                struct progress *progress, struct image_record *record, struct cay_error *err);
