/* The bodies of Daytona's requests. Keys that we do not know are passed over, since each version of
 * the SDKs adds some; what we know and cannot do is refused as CAY_UNSUPPORTED. */
#pragma once

#include "base/buf.h"
#include "manager/manager.h"

struct cay_error;

/* CreateSandbox. What is left out stays zero; the caller releases both also after a failure.
 * *ret_dockerfile is set, and image_name is not, if the image has to be built. */
int daytona_read_create(const struct buf *body, struct sandbox_record *ret, char **ret_dockerfile,
                        struct cay_error *err);
/* Limits: processors, and GiB of memory and disk. */
int daytona_read_resize(const struct buf *body, struct manager_update *ret, struct cay_error *err);
/* network-settings: 0 if it is what every sandbox has. */
int daytona_read_network(const struct buf *body, struct cay_error *err);

/* CreateSnapshot: its name, and the image that it is made from, or the Dockerfile if it has to be
 * built. */
struct daytona_snapshot {
    char name[REFERENCE_TEXT_SIZE], image[REFERENCE_TEXT_SIZE];
    char *dockerfile; /* to be released, also after a failure; NULL: there is an image */
};
int daytona_read_snapshot(const struct buf *body, struct daytona_snapshot *ret,
                          struct cay_error *err);
/* The name in the body of a sandbox's snapshot. */
int daytona_read_keep(const struct buf *body, char name[static REFERENCE_TEXT_SIZE],
                      struct cay_error *err);

/* The image of a Dockerfile that says FROM and nothing else: 0 with its name, 1 if it says more, so
 * that it has to be built. */
int daytona_read_from(const char *dockerfile, char *image, size_t size, struct cay_error *err);
