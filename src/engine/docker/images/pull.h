/* Docker fetches an image from its registry. */
#pragma once

#include "image/reference.h"

struct cay_error;
struct docker_api;
struct progress;

/* As long as it takes and Docker tells of it, with progress (or NULL). auth is who we are to the
 * registry (docker_image_credential). */
int docker_pull(struct docker_api *api, const struct reference *ref, const char *auth,
                struct progress *progress, struct cay_error *err);

/* The error for what Docker says of a pull that failed: its class, and what to do. */
int docker_pull_failed(const struct reference *ref, const char *message, struct cay_error *err);
