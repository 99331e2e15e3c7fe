/* The bodies of Daytona's requests. Keys that we do not know are passed over, since each version of
 * the SDKs adds some; what we know and cannot do is refused as CAY_UNSUPPORTED. */
#pragma once

#include "base/buf.h"
#include "manager/manager.h"

struct cay_error;

/* What an image has to be built from, and with. */
struct daytona_build {
    char *dockerfile;     /* NULL: nothing has to be built */
    struct strv contexts; /* hashes of files for COPY and ADD, which were uploaded before */
};
void daytona_build_free(struct daytona_build *b);

/* CreateSandbox. What is left out stays zero; the caller releases both also after a failure.
 * The Dockerfile is set, and image_name is not, if the image has to be built. */
int daytona_read_create(const struct buf *body, struct sandbox_record *ret,
                        struct daytona_build *ret_build, struct cay_error *err);
/* Whatever can be changed, by our names or Daytona's; an unknown member is
 * refused. The caller releases ret also after a failure; so with the next two.
 */
int daytona_read_update(const struct buf *body, struct manager_update *ret, struct cay_error *err);
/* Limits alone. */
int daytona_read_resize(const struct buf *body, struct manager_update *ret, struct cay_error *err);
/* network-settings. */
int daytona_read_network(const struct buf *body, struct manager_update *ret, struct cay_error *err);

/* CreateSnapshot: its name, and the image that it is made from, or the Dockerfile if it has to be
 * built. */
struct daytona_snapshot {
    char name[REFERENCE_TEXT_SIZE], image[REFERENCE_TEXT_SIZE];
    struct daytona_build build; /* to be released, also after a failure */
};
int daytona_read_snapshot(const struct buf *body, struct daytona_snapshot *ret,
                          struct cay_error *err);
/* The name in the body of a sandbox's snapshot. */
int daytona_read_keep(const struct buf *body, char name[static REFERENCE_TEXT_SIZE],
                      struct cay_error *err);

/* The image of a Dockerfile that says FROM and nothing else: 0 with its name, 1 if it says more, so
 * that it has to be built. */
int daytona_read_from(const char *dockerfile, char *image, size_t size, struct cay_error *err);
