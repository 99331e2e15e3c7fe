/* What the disks of running sandboxes may still take from the file system that holds their files.
 *
 * A disk is a sparse file, and a block that it cannot get when the kernel writes back is lost,
 * although the sandbox was told that it is written. So near the end of the space each file system
 * gets a share of what is left: the rest of its free blocks is reserved (ext4's reserved_clusters),
 * and a write beyond the share fails at once, in the program that writes. Shares together never
 * exceed what is left, however fast sandboxes write. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/spec.h"

enum { DISK_DEVICE_SIZE = 16 };

/* A disk that is attached: of a sandbox, or a named volume. */
struct disk_share {
    int folder; /* that was listed; borrowed */
    char id[ID_SIZE];
    char device[DISK_DEVICE_SIZE]; /* "loop7" */
    uint64_t errors;               /* that the file system has counted */
    /* By disk_share_measure: */
    bool is_measured;
    uint64_t block_bytes;
    uint64_t free_blocks;     /* that no file has, nor data that waits to be written */
    uint64_t reserved_blocks; /* of these: which it may not use now, */
    uint64_t usual_blocks;    /* and which it may not use when there is no lack of space */
    uint64_t promised_bytes;  /* accepted from the sandbox, but without a block of the host yet */
    uint64_t share_bytes;     /* by disk_share_divide: what it may take in addition */
};

/* Adds the disks below a folder that are attached; the caller frees the array. 0 or -errno. */
int disk_share_list(int folder, struct disk_share **all, size_t *count);

/* How much it has taken and may take. False if that cannot be found out. */
bool disk_share_measure(struct disk_share *d);

/* Divides so many bytes: half among those that write, half among all. */
void disk_share_divide(struct disk_share *all, size_t count, uint64_t bytes);

/* Lets it take its share and no more. *ret_limited: that is less than it has free. 0 or -errno. */
int disk_share_apply(const struct disk_share *d, bool *ret_limited);
/* Lets it take all that it has free; it need not be measured. */
void disk_share_lift(const struct disk_share *d);

/* Whether it has accepted data that is not on the host's disk yet. */
bool disk_share_is_writing(const struct disk_share *d);

/* Waits until what it has accepted is on the host's disk. */
int disk_share_flush(const struct disk_share *d);
