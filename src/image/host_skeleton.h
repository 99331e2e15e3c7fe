/* The root of the host image without /usr: generated accounts and network files, and the few
 * pieces of the host's /etc that programs in /usr need and that say nothing about the host. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cay_error;

/* How the host has one of the top-level folders that belong to /usr. */
enum host_top_kind { HOST_TOP_ABSENT, HOST_TOP_LINK, HOST_TOP_FOLDER };

enum { HOST_TOP_COUNT = 6 };
extern const char *const host_tops[HOST_TOP_COUNT]; /* "bin", "sbin", "lib", … */

struct host_layout {
    enum host_top_kind tops[HOST_TOP_COUNT]; /* of host_tops */
};

/* A number that changes when the skeleton of this host would, and the host's layout. host_root is a
 * descriptor of "/" (another folder in tests). Some twenty stat calls. */
uint64_t host_skeleton_fingerprint(int host_root, struct host_layout *ret);

/* Fills the empty folder dest. */
int host_skeleton_build(int host_root, const struct host_layout *layout, int dest,
                        struct cay_error *err);
