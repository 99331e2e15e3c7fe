/* Makes sure that an image is there for containers: as Docker has it, as cay's store has it, or as
 * Docker fetches it. */
#pragma once

#include <stdbool.h>

#include "image/reference.h"

struct cay_error;
struct docker_api;
struct progress;

enum docker_policy { DOCKER_PULL_MISSING, DOCKER_PULL_ALWAYS, DOCKER_PULL_NEVER };

struct docker_wish {
    const char *state_dir;
    const char *config; /* configuration file; "": none */
    const char *owner;  /* for whom cay's store is looked at (image/store.h); "": who sees all */
    const char *name;   /* as a user typed it */
    enum docker_policy policy;
    struct progress *progress; /* or NULL */
};

/* "missing", "always", "never"; false for another word. */
bool docker_policy_parse(const char *word, enum docker_policy *ret);

/* Whether it is a name of cay's own in Docker, by which others get no sandbox. */
bool docker_is_own_name(const struct reference *ref);

/* The id of the image, which is in cay's store then, and in Docker. */
int docker_ensure(struct docker_api *api, const struct docker_wish *w, char id[static HEX_SIZE],
                  struct cay_error *err);
