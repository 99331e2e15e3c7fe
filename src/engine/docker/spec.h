/* A sandbox as Docker's API wants it: what a container is made of, hardened whatever is asked for.
 */
#pragma once

#include <stddef.h>

#include "engine/spec.h"

struct buf;
struct cay_error;
struct image_record;

/* Where the folder with the way in is seen inside (transport/handshake.h). */
#define DOCKER_DOOR_INSIDE "/.cay"
#define DOCKER_WORK_INSIDE "/workspace"
#define DOCKER_WAY_INSIDE  "/.cay-way"   /* of gVisor: a mount that only cay-init's id may enter */
#define DOCKER_INIT_USER   "65533:65533" /* IDRANGE_INIT_ID */

/* Names of Docker's volumes: of the programs that containers are started with, and of a named
 * volume of ours. */
#define DOCKER_TOOLS_PREFIX  "cay-tools-"
#define DOCKER_VOLUME_PREFIX "cay-volume-"
enum { DOCKER_VOLUME_SIZE = sizeof DOCKER_VOLUME_PREFIX + ID_SIZE };

struct docker_plan {
    const struct sandbox_spec *spec;
    const char *image; /* as Docker knows it */
    const char *home;  /* label: whose it is */
    const char *version;
    const char *runtime; /* "": Docker's default */
    bool is_far;         /* on another machine: door and sources are volumes of Docker's */
    bool by_stream;      /* cay-init comes from beside cay-enter, and its orders by a stream */
    const char *door;    /* folder of the host, shown read-only */
    const char *work;    /* folder of the host for the work folder of a read-only root; or NULL */
    uint64_t files;      /* descriptors of a process, at most; 0: what Docker gives */
    uint64_t processes;  /* of a user, at most; the same */
    bool has_network;
    const char *const *sources; /* host folders of spec->mounts, in their order */
};

/* The body of a request to create the container. */
int docker_spec_create(const struct docker_plan *p, struct buf *out, struct cay_error *err);
/* The body of a request for a container that only has a volume at DOCKER_DOOR_INSIDE, to fill it.
 */
int docker_spec_filler(const char *image, const char *volume, struct buf *out,
                       struct cay_error *err);
/* The body of a request for the named volume with this id. */
int docker_spec_volume(const char *id, const char *home, struct buf *out, struct cay_error *err);
/* The body of a request for the network of containers that have one. */
int docker_spec_network(struct buf *out, struct cay_error *err);
/* The body of a request for an image of a container: what the image that it was made from says of
 * commands, instead of how the container is started; and none of our labels. */
int docker_spec_commit(const struct image_record *from, struct buf *out, struct cay_error *err);
/* The body of a request to change its limits: those that are not 0. */
int docker_spec_update(const struct sandbox_spec *spec, struct buf *out, struct cay_error *err);
