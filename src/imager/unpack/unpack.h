/* Unpacking a layer in a child process that has nothing but the target folder: no network, no other
 * file, no capability but those over file ownership in its user namespace, a seccomp filter. The
 * archive is hostile. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "image/reference.h"

struct cay_error;

struct unpack_limits {
    uint64_t bytes;   /* of all files; 0: 64 GiB */
    uint64_t entries; /* 0: 2,000,000 */
    unsigned depth;   /* of folders; 0: 256 */
    unsigned ratio;   /* of uncompressed to compressed bytes, beyond the first GiB; 0: 1,000 */
};

struct unpack_result {
    char blob[HEX_SIZE];    /* digest of the bytes read */
    char diff_id[HEX_SIZE]; /* digest of the uncompressed tar */
    uint64_t blob_size;
    uint64_t bytes, entries;
    uint64_t skipped; /* device nodes and the like that were left out */
};

/* How often the child tells how far it is; in bytes of input. */
typedef void (*unpack_progress)(void *user, uint64_t bytes_in);

/* Reads a tar from in (a file or a pipe; gzip, zstd or plain, told by its first bytes) to its end
 * and applies it to root with OCI's rules: whiteouts remove, a folder over a folder replaces its
 * attributes, everything else replaces. root is a descriptor of a folder: either an empty one, or
 * the merged folder of an overlay over the layers below. The caller has one thread; others ask an
 * unpacker (unpacker.h). */
int unpack_layer(int in, int root, const struct unpack_limits *limits, unpack_progress progress,
                 void *user, struct unpack_result *ret, struct cay_error *err);

/* The same for what layer_tar_write() made of folders "as they are" (its `tops`), into a folder
 * where these are empty. Nothing is left out, and nothing limits it but the disk. */
int unpack_archive(int in, int root, unpack_progress progress, void *user,
                   struct unpack_result *ret, struct cay_error *err);
