/* What the files of the Docker engine share; not for others. */
#pragma once

#include <pthread.h>

#include "engine/docker/docker_api.h"
#include "engine/docker/docker_engine.h"
#include "engine/native/volume.h"

struct docker_engine {
    struct engine engine; /* first */
    struct docker_api *api;
    char home[PATH_MAX]; /* the state folder; labels our containers */
    int state_dir;
    int folder; /* STATE/docker */
    int init;   /* memfd with cay-init */
    struct volume_rules volumes;
    pthread_t listener; /* of events */
    bool listening;
    bool closing; /* read and written atomically */
    bool is_able; /* Docker can limit what we limit; the same */
};

static inline struct docker_engine *docker_of(struct engine *e) {
    return (struct docker_engine *)e;
}

/* "/containers/cay-ID" and what follows. */
int docker_path(char out[static DOCKER_PATH_SIZE], const char *id, const char *rest,
                struct cay_error *err);
/* -CAY_NOT_FOUND if there is no container. rest may ask for its size. */
int docker_inspect(struct docker_engine *d, const char *id, const char *rest,
                   struct docker_container *ret, struct cay_error *err);
int docker_list(struct docker_engine *d, struct engine_sandbox **ret, size_t *ret_count,
                struct cay_error *err);

/* docker_start.c */
int docker_start(struct engine *e, const struct sandbox_spec *spec, const char *image, int listener,
                 struct cay_error *err);

/* docker_events.c: tells of ends, by a thread of its own. */
int docker_events_start(struct docker_engine *d, struct cay_error *err);
void docker_events_stop(struct docker_engine *d);
