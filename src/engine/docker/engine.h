/* The Docker engine: a container for each sandbox (docs/engines.md). What there is of a sandbox is
 * in Docker, found by labels; the state folder has docker/ID with the way in
 * (transport/handshake.h). */
#pragma once

#include "engine/engine.h"

/* Where throw-away sandboxes have their folders, in the state folder (link_run_folder). */
#define DOCKER_RUN_FOLDER "docker-run"

struct cay_error;
struct docker_host;

struct docker_engine_options {
    const struct docker_host *host;
    const struct cay_error *unusable; /* why the host cannot be used, or NULL */
    const char *state_dir;            /* absolute */
    const char *runtime;              /* of containers; "": Docker's default */
    bool is_run; /* for one sandbox, which goes with this process (docker/oneshot.c) */
    const char *const *folders; /* below which folders of the host may be shown; NULL-terminated */
    void (*ended)(void *user, const struct engine_end *end);
    void *user;
};

/* Does not fail because there is no Docker: that is said by each operation, until there is one. */
int docker_engine_open(const struct docker_engine_options *o, struct engine **ret,
                       struct cay_error *err);

/* Removes the sandbox of this process, if it has one; for an engine with is_run. Nothing may be
 * under way. */
void docker_runs_end(struct engine *e);
