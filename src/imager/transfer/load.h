/* Inside of image_load(): what the two kinds of archives share. Not for others. */
#pragma once

#include "imager/transfer/bundle.h"
#include "imager/transfer/import_layer.h"
#include "imager/transfer/transfer.h"

struct loader {
    const struct image_store *store;
    struct bundle bundle;
    struct ingest ingest;
    struct loaded_image *images;
    size_t count;
};

/* Each loads every image of the bundle. */
int load_docker(struct loader *l, struct cay_error *err);
int load_oci(struct loader *l, struct cay_error *err);

/* Reads a configuration (its digest must be hex, if that is not "") and keeps it: a record with its
 * id and the layers' diff_ids, nothing else of them. */
int load_config(struct loader *l, const char *path, const char *hex, struct image_record **ret,
                struct cay_error *err);

/* True if the image is in the store, with all of its layers. */
bool load_is_there(const struct loader *l, const char *id);

/* Adds the reference in its canonical form, once. */
int load_add_name(struct strv *names, const char *text, struct cay_error *err);

/* Gives an image, whose record is in the store, its names, and notes it as loaded. */
int load_finish(struct loader *l, const char *id, const struct strv *names, struct cay_error *err);
