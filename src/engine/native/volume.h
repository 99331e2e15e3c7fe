/* Folders of the host inside sandboxes, as somebody asks for them who has fewer rights than we do:
 * host folders below those that are allowed, and named volumes, which lie in STATE/volumes/ID and
 * belong to the image store's ids, so that every sandbox sees the same owners. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "engine/spec.h"

struct cay_error;

#define VOLUMES_FOLDER "volumes" /* of the state folder */

struct volume_rules {
    const char *const *roots; /* allowed, absolute, NULL-terminated */
    int state_dir;
    bool own_userns; /* we are root of our own user namespace only */
};

/* An O_PATH descriptor of what is asked for. A host path is resolved below an allowed folder, and
 * no symlink leads out of it; the state folder is not shown, nor what holds it. */
int volume_open(const struct volume_rules *rules, const struct mount_spec *m,
                struct cay_error *err);

/* An O_PATH descriptor of a named volume, made if it is not there. */
int volume_make(const struct volume_rules *rules, const char *id, struct cay_error *err);
/* STATE/volumes, made if it is not there. */
int volume_open_store(const struct volume_rules *rules, struct cay_error *err);
/* Where the kernel says that a descriptor leads to. 0 or -errno. */
int volume_real_path(int fd, char out[static PATH_MAX]);
