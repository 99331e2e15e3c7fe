/* Building an image from a Dockerfile. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "image/store.h"
#include "imager/pull/pull.h"

struct cay_error;
struct progress;
struct runner;

struct build_options {
    int context;            /* folder, read-only to us; -1: none */
    const char *dockerfile; /* its text */
    size_t dockerfile_len;
    int64_t dockerfile_mtime; /* seconds; 0: not known */
    /* Text of DOCKERFILE.dockerignore; NULL: there is none, and .dockerignore in the context
     * counts.
     */
    const char *ignore;
    size_t ignore_len;
    struct strv args; /* "K=V" of --build-arg */
    struct strv labels;
    const char *target;  /* stage to stop at, or NULL */
    const char *network; /* "none" */
    bool no_cache;
    int64_t source_date_epoch; /* -1: the newest of base image, context files and Dockerfile */
    uint64_t memory_bytes;
    double cpus;
    int log; /* the streamed log goes here */
    /* How a base image that is not there is pulled. */
    struct pull_options pull;
    struct runner *runner;
};

/* The id of the image of the last stage (or of the target); it has no name yet. */
int image_build(const struct image_store *store, const struct build_options *options,
                char id[static HEX_SIZE], struct cay_error *err);
