/* Images of cay's store in Docker, and of Docker's in cay's store: their ids are the same, so an
 * image that is there is used as it is, and one that is not comes over by way of cay-image. */
#pragma once

#include "image/reference.h"

struct cay_error;
struct docker_api;

/* 1 with the id of the image that Docker has by this name ("docker.io/library/x:tag"), 0 if it has
 * none. */
int docker_image_find(struct docker_api *api, const char *name, char id[static HEX_SIZE],
                      struct cay_error *err);

/* A name, so that `docker image prune` leaves it alone. */
int docker_image_name(struct docker_api *api, const char *id, struct cay_error *err);

/* Takes a name ("sha256:ID" is one) from an image of Docker's, which goes with its last. 1 if there
 * was one, else 0. */
int docker_image_remove(struct docker_api *api, const char *name, struct cay_error *err);

/* Sees to it that Docker has the image with this id of cay's store. */
int docker_image_ensure(struct docker_api *api, const char *state_dir, const char *id,
                        struct cay_error *err);

/* The other way: from Docker into cay's store, by a name or "sha256:ID", with its names. id is the
 * one that it has there, which may be another if Docker writes the image anew (podman does). */
int docker_image_fetch(struct docker_api *api, const char *state_dir, const char *name,
                       char id[static HEX_SIZE], struct cay_error *err);

/* Who we are to this registry, as Docker wants to hear it: a header's value. config is the
 * configuration file, "" for none. The caller frees it. */
int docker_image_credential(const char *registry, const char *config, char **ret,
                            struct cay_error *err);
/* Removes an image of cay's store that has no name and that nobody needs; others stay. */
void docker_image_forget(const char *state_dir, const char *id);
