/* What the rest of cay knows of this engine. */
#include "engine/docker/runtime.h"
#include "engine/engines.h"
#include "engine/link/run.h"

extern const struct engine_type engine_type_docker; /* of config/engines.h */

/* Where Docker is. */
static const char *const variables[] = {
    "DOCKER_HOST=",
    "DOCKER_TLS_VERIFY=",
    "DOCKER_CERT_PATH=",
    "DOCKER_CONTEXT=",
    "DOCKER_CONFIG=",
    "HOME=",
    "PATH=",
    NULL,
};

static enum tier best_tier(bool is_root, const char *const keys[static ENGINE_KEYS]) {
    (void)is_root;
    return docker_runtime_tier(keys[ENGINE_KEY_DOCKER_RUNTIME]);
}

static int open_for_runs(const char *state_dir, struct engine **ret, struct cay_error *err) {
    return link_run_open(ENGINE_DOCKER, state_dir, ret, err);
}

const struct engine_type engine_type_docker = {
    .program = "cay-docker",
    .role = "docker",
    .title = "Docker engine",
    .folder = "docker",
    .keep = "keep",
    .variables = variables,
    .abilities = ENGINE_HAS_BRIDGE | ENGINE_HAS_IMAGES | ENGINE_HAS_ARCHIVES |
                 ENGINE_LIMITS_AT_START | ENGINE_HAS_PROBE,
    .ping_rounds = 5,
    .best_tier = best_tier,
    .open = open_for_runs,
};
