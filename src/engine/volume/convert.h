/* A folder without a limit becomes a disk with one. */
#pragma once

#include <stdint.h>

#include "engine/volume/named.h"

#define VOLUME_NEW_PREFIX ".new-" /* of a disk that is being filled; locked meanwhile */

/* Copies the volume STATE/volumes/ID to a new disk, which takes its place; nobody uses it. What
 * fails, or is killed, leaves the folder as it was. -CAY_RESOURCE_EXHAUSTED if it does not fit. */
int volume_convert(const struct volume_rules *rules, const char *id, uint64_t bytes,
                   struct cay_error *err);
/* Removes the folder of a volume that is a disk now. */
int volume_drop_folder(const struct volume_rules *rules, const char *id, struct cay_error *err);
