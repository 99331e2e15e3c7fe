/* The blobs of one pull: downloaded by a few threads in the order in which they are needed, each
 * readable while it still grows, each in the store once its digest is right. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "image/store.h"
#include "imager/layer/manifest.h"
#include "imager/registry/registry.h"

struct cay_error;
struct progress;
struct pull_blobs;

/* One to get. */
struct pull_blob {
    struct descriptor blob;
    unsigned item; /* of the progress */
};

/* Starts to get them; no digest may occur twice. store, registry and progress must outlive it. */
int pull_blobs_start(const struct image_store *store, struct registry *registry,
                     struct progress *progress, const struct pull_blob *list, size_t count,
                     struct pull_blobs **ret, struct cay_error *err);

/* Writes a blob into fd as it arrives, unverified, until its end, or until nobody reads fd any
 * more; both are success. From here on the progress is the reader's to tell. */
int pull_blobs_feed(struct pull_blobs *b, size_t index, int fd, struct cay_error *err);

/* Waits until the digest of a blob is known to be right. The error is that of the first blob that
 * failed, which ends the others too. */
int pull_blobs_verify(struct pull_blobs *b, size_t index, struct cay_error *err);

/* Waits until all are in the store for good. */
int pull_blobs_finish(struct pull_blobs *b, struct cay_error *err);

/* True if a blob had the wrong content, and was dropped: another try begins it anew. */
bool pull_blobs_spoiled(struct pull_blobs *b);

/* Ends the threads, leaving what came so far to a later pull. NULL is fine. */
void pull_blobs_stop(struct pull_blobs *b);
