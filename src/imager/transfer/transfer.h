/* Images as files: load, save, import, export. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "image/store.h"

struct cay_error;
struct progress;

/* One image that was loaded. */
struct loaded_image {
    char id[HEX_SIZE];
    struct strv names; /* canonical references that it was given; may be empty */
};

/* Loads every image of an archive or a folder: what `docker save` writes (all three shapes), an OCI
 * layout as a folder or a tar, compressed as a whole or not. input is a file, a pipe, or a folder.
 * The caller frees the array (loaded_images_free). */
int image_load(const struct image_store *store, int input, struct progress *progress,
               struct loaded_image **ret, size_t *ret_count, struct cay_error *err);
void loaded_images_free(struct loaded_image *images, size_t count);

/* Writes one OCI archive with manifest.json besides, so that `docker load` takes it too. */
int image_save(const struct image_store *store, const struct reference *const *names,
               const char *const *ids, size_t count, int output, struct progress *progress,
               struct cay_error *err);

/* An image of one layer from a tar of a root file system. changes are Dockerfile instructions as
 * `docker import --change` takes them (CMD, ENTRYPOINT, ENV, EXPOSE, LABEL, USER, VOLUME, WORKDIR).
 */
int image_import(const struct image_store *store, int input, const char *const *changes,
                 struct progress *progress, char id[static HEX_SIZE], struct cay_error *err);

/* The whole root file system of an image as one tar. */
int image_export(const struct image_store *store, const char *id, int output,
                 struct cay_error *err);
