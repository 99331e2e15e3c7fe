/* Inside of image_save(). Not for others. */
#pragma once

#include "image/store.h"
#include "imager/layer/manifest.h"
#include "imager/transfer/import_layer.h"
#include "imager/transfer/temp_file.h"

struct saved_image {
    struct image_record *record; /* layers and id as they are in the archive */
    const struct reference **names;
    size_t name_count;
    struct descriptor config, manifest;
};

/* In the store, or made for the archive: a document, or a layer that had no blob. */
struct saved_blob {
    char hex[HEX_SIZE];
    struct buf text;
    struct spool_blob spool;
};

struct saver {
    const struct image_store *store;
    struct progress *progress;
    struct ingest ingest; /* where a layer's blob may be known by another image */
    struct saved_image *images;
    size_t image_count;
    struct saved_blob *blobs; /* in the order of the archive; each once */
    size_t blob_count;
};

/* Makes what the image lacks, and adds its blobs. A layer that was never a tar, or cannot become
 * the same one again, gives the configuration another digest. */
int save_prepare(struct saver *s, struct saved_image *image, struct cay_error *err);
