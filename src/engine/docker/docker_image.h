/* Images of cay's store in Docker: their ids are the same, so an image that Docker has is used as
 * it is, and one that it lacks is saved by cay-image and loaded. */
#pragma once

struct cay_error;
struct docker_api;

/* A name, so that `docker image prune` leaves it alone. */
int docker_image_name(struct docker_api *api, const char *id, struct cay_error *err);

/* Sees to it that Docker has the image with this id. */
int docker_image_ensure(struct docker_api *api, const char *state_dir, const char *id,
                        struct cay_error *err);
