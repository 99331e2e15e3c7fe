/* Named volumes. One with a limit is a disk (disk.h) in STATE/volume-disks/ID, whose folder "fs" is
 * the volume: mounted for each sandbox that has it, by descriptor, and all share one file system.
 * The loop device goes with the last of them, whoever is killed. One without a limit is the folder
 * STATE/volumes/ID. The files of both belong to the image store's ids, so that every sandbox sees
 * the same owners.
 *
 * Disks lie apart from folders, whose content sandboxes choose: a file that looks like a disk there
 * is never mounted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/volume/volume.h"

/* Of the state folder. */
#define VOLUMES_FOLDER      "volumes"
#define VOLUME_DISKS_FOLDER "volume-disks"

/* Both are made if they are not there. */
int volume_open_store(const struct volume_rules *rules, struct cay_error *err);
int volume_open_disks(const struct volume_rules *rules, struct cay_error *err);

/* Makes an empty volume for so many bytes, 0: without a limit; there already is fine. */
int volume_make(const struct volume_rules *rules, const char *id, uint64_t bytes,
                struct cay_error *err);

/* Raises the limit, whether or not sandboxes use it; as large already is fine. One without a limit
 * gets one, while nobody uses it (volume_convert.h). */
int volume_grow(const struct volume_rules *rules, const char *id, uint64_t bytes,
                struct cay_error *err);

/* "ID" or "ID/PATH", as volume_open. Folders of the path are made; the volume is not: one that is
 * missing is lost. A file system with errors is repaired first, if nobody uses it. */
int volume_open_named(const struct volume_rules *rules, const char *source, bool *ret_is_mount,
                      struct cay_error *err);
