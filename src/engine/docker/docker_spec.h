/* A sandbox as Docker's API wants it: what a container is made of, hardened whatever is asked for.
 */
#pragma once

#include <stddef.h>

#include "engine/spec.h"

struct buf;
struct cay_error;

/* Where the folder with the way in is seen inside (docker_door.h). */
#define DOCKER_DOOR_INSIDE "/.cay"
#define DOCKER_WORK_INSIDE "/workspace"

struct docker_plan {
    const struct sandbox_spec *spec;
    const char *image; /* as Docker knows it */
    const char *home;  /* label: the state folder */
    const char *version;
    const char *door;   /* folder of the host, shown read-only */
    const char *work;   /* folder of the host for the work folder of a read-only root; or NULL */
    uint64_t files;     /* descriptors of a process, at most */
    uint64_t processes; /* of a user, at most */
    const char *const *sources; /* host folders of spec->mounts, in their order */
};

/* The body of a request to create the container. */
int docker_spec_create(const struct docker_plan *p, struct buf *out, struct cay_error *err);
/* The body of a request to change its limits: those that are not 0. */
int docker_spec_update(const struct sandbox_spec *spec, struct buf *out, struct cay_error *err);
