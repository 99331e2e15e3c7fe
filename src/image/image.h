/* An image that a sandbox can start from: the host image, or one of the store. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "image/record.h"

struct cay_error;
struct image_store;

/* An image of the store, held: no prune removes it while this is open. */
struct image {
    struct image_record *record;
    int layers; /* O_PATH: the folder of all layers; each is at CHAIN/fs */
    int *locks; /* one for each layer of the record */
};
#define IMAGE_NONE ((struct image){.layers = -1})

/* Opens by id. -CAY_NOT_FOUND if it is not in the store, or not whole. */
int image_open(const char *state_dir, const char *id, struct image *ret, struct cay_error *err);
/* The same from a store that is open, wherever its path is. */
int image_open_from(const struct image_store *store, const char *id, struct image *ret,
                    struct cay_error *err);
void image_close(struct image *image);

/* Looks up a user or group ("name" or number) in the image's own /etc/passwd or /etc/group, as a
 * program inside would; no symlink is followed. `text` is "USER[:GROUP]". false if there is none.
 * A number needs no entry; its group is 0 then. Ids beyond 65535 are none that a sandbox has. */
bool image_user(const struct image *image, const char *text, unsigned *uid, unsigned *gid);
/* The same where image may be NULL, the host image; what is false leaves *uid and *gid alone. */
bool image_run_ids(const struct image *image, const char *user, uid_t *uid, gid_t *gid);
