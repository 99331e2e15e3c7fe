/* An unpacked layer as a tar again, the same bytes for the same files: sorted, PAX, numeric owners,
 * whiteouts as ".wh.NAME", hard links within the layer as links. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "image/reference.h"

struct cay_error;

struct layer_tar_options {
    int64_t mtime_max; /* later times are set to this (seconds); 0: all times as they are */
};

/* Takes the bytes in order; negative with err filled ends it. */
typedef int (*tar_sink)(void *user, const void *data, size_t len, struct cay_error *err);

/* fs: the folder of the layer. sink may be NULL, when only the digest is wanted. */
struct layer_tar_result {
    char diff_id[HEX_SIZE];
    uint64_t tar_size, bytes, entries;
};
int layer_tar_write(int fs, const struct layer_tar_options *options, tar_sink sink, void *user,
                    struct layer_tar_result *ret, struct cay_error *err);
