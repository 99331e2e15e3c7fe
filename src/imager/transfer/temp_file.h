/* Files without a name, in the folder of the store: what arrives through a pipe, and blobs whose
 * digest is known only at their end. They vanish with their descriptor. */
#pragma once

#include <stdint.h>

#include "image/store.h"

struct cay_error;
struct digest;

/* An fd to read and write. */
int spool_open(const struct image_store *store, struct cay_error *err);

/* How much may go into one: a bound against bombs, less if the disk has less. */
uint64_t spool_limit(int fd);

/* A blob that is being written. */
struct spool_blob {
    int fd;
    struct digest *digest;
    uint64_t size;
};
#define SPOOL_BLOB_NONE ((struct spool_blob){.fd = -1})

int spool_blob_begin(const struct image_store *store, struct spool_blob *ret,
                     struct cay_error *err);
/* A tar_sink whose user is a struct spool_blob. */
int spool_blob_write(void *blob, const void *data, size_t len, struct cay_error *err);
/* Its digest; nothing can be written any more. */
int spool_blob_finish(struct spool_blob *blob, char hex[static HEX_SIZE], struct cay_error *err);
/* Copies a finished one to the store, unless it is there already. */
int spool_blob_keep(const struct image_store *store, const struct spool_blob *blob, const char *hex,
                    struct cay_error *err);
void spool_blob_free(struct spool_blob *blob);

/* Copies size bytes from one file to the start of another. 0 or -errno (-ENODATA: too short). */
int spool_copy(int from, uint64_t offset, uint64_t size, int to);
