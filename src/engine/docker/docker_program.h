/* Starting cay-docker, which is for Docker what cay-launcher is for the native engine; whoever does
 * needs nothing else of the Docker engine, and none of its libraries. */
#pragma once

#include "engine/link/program.h"

struct cay_error;

#define DOCKER_PROGRAM "cay-docker"

/* How it shall work: for sandboxes that stay, or for one that goes with it. */
#define DOCKER_PROGRAM_KEEP "keep"
#define DOCKER_PROGRAM_RUN  "run"

/* "json" in the environment of cay-docker: it logs JSON. */
#define DOCKER_LOG_VARIABLE "CAY_DOCKER_LOG"

/* Where the latter keeps its folders, in the state folder. */
#define DOCKER_RUN_FOLDER "docker-run"

/* The words of `cay-docker ensure` (docker_ensure.h), which answers as cay-image does; owner is
 * that of images, config may be NULL. They point to what was given. */
#define DOCKER_OWNER_NONE "-"
enum { DOCKER_ENSURE_WORDS = 9 };
void docker_program_ensure(const char *state_dir, const char *config, const char *policy,
                           bool is_quiet, const char *owner, const char *image,
                           const char *argv[static DOCKER_ENSURE_WORDS]);

/* As link_spawn. Of the environment it gets what says where Docker is. The runtime is that of
 * containers, or "". */
int docker_program_start(const char *state_dir, const char *how, const char *const *folders,
                         const char *runtime, int sock, pid_t *ret, struct cay_error *err);
