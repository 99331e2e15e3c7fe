/* Pulling an image: layers in parallel, each unpacked as it arrives, nothing visible before all of
 * it is verified. */
#pragma once

#include <stdbool.h>

#include "image/store.h"
#include "imager/layer/manifest.h"
#include "imager/registry/credentials.h"
#include "imager/registry/registry.h"

struct cay_error;
struct progress;

enum pull_policy { PULL_MISSING, PULL_ALWAYS, PULL_NEVER };

struct pull_options {
    enum pull_policy policy;
    struct platform platform;
    /* Asked before the first request to a registry; NULL: anonymous. */
    int (*find_credential)(void *user, const char *registry, struct credential *ret,
                           struct cay_error *err);
    void *user;
    struct registry_options registry;
    const struct strv *insecure_registries; /* besides registry.insecure; NULL: none */
    const struct strv *registries; /* those that keys may use: [images] registries; NULL: all */
    const struct strv *aliases;    /* "NAME=NAME", for the base images of builds; NULL: none */
    struct progress *progress;
};

/* The image's id. For an owner the registry must be one that keys may use. With PULL_MISSING
 * nothing is asked of the registry if the name is there. The error says which registry, why, and
 * what to do. */
int image_pull(const struct image_store *store, const struct reference *ref,
               const struct pull_options *options, char id[static HEX_SIZE], struct cay_error *err);
