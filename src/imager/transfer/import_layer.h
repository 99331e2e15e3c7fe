/* One layer from an archive into the store: its blob and its files, verified. */
#pragma once

#include <stddef.h>

#include "image/store.h"
#include "imager/transfer/bundle.h"

struct cay_error;
struct progress;

struct ingest {
    const struct image_store *store;
    struct progress *progress;
    struct record_layer *known; /* layers that are in the store, with their blobs */
    size_t known_count;
};

/* Looks which layers the store has. */
int ingest_begin(const struct image_store *store, struct progress *progress, struct ingest *ret,
                 struct cay_error *err);
void ingest_end(struct ingest *in);

/* A layer with this content whose blob is in the store, or NULL. */
const struct record_layer *ingest_find(const struct ingest *in, const char *diff_id);

/* Brings in layer `index` of the record; those below it are done. Of the layer, diff_id is what it
 * must have ("" if that is not known yet), blob the digest of the bytes in the archive (likewise)
 * and media_type what was said of them (likewise). All of it is filled in. A plain tar is kept
 * compressed, so blob may become another. */
int ingest_layer(struct ingest *in, const struct extent *from, struct image_record *record,
                 size_t index, struct cay_error *err);
