/* An unpacked layer as a tar again, the same bytes for the same files: folders before what is in
 * them, that sorted bytewise by name, PAX, numeric owners, whole seconds, whiteouts as ".wh.NAME",
 * hard links within the layer as links. Of extended attributes user.* and file capabilities are
 * kept; sockets are left out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/reference.h"
#include "imager/layer/tar_stream.h"

struct cay_error;

struct layer_tar_options {
    int64_t mtime_max; /* later times are set to this (seconds); 0: all times as they are */
    bool upper;        /* of an overlay in use: opaque folders are told as ".wh..wh..opq" */
    bool merged;       /* no layer but a whole tree: names that begin with ".wh." mean nothing */
    /* Not NULL: not a layer but these folders of fs as they are, to be unpacked by
     * unpack_archive(): the overlay's own marks, times to the nanosecond, access lists, holes,
     * sockets; without limits. NULL-terminated. */
    const char *const *tops;
};

/* fs: the folder of the layer. sink may be NULL, when only the digest is wanted. */
struct layer_tar_result {
    char diff_id[HEX_SIZE];
    uint64_t tar_size, bytes, entries;
};
int layer_tar_write(int fs, const struct layer_tar_options *options, tar_sink sink, void *user,
                    struct layer_tar_result *ret, struct cay_error *err);
