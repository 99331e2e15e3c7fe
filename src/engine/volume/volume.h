/* Volumes, as somebody asks for them who has fewer rights than we do: host folders below those that
 * are allowed, and named volumes (volume_named.h). */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "engine/spec.h"

struct cay_error;

/* Before the path of an allowed folder: what belongs to the host's root there may be written. */
#define VOLUME_ROOT_PREFIX "root:"

struct volume_rules {
    const char *const *roots; /* allowed, absolute, some with VOLUME_ROOT_PREFIX; NULL-terminated */
    int state_dir;
    bool own_userns;  /* we are root of our own user namespace only */
    bool shares_root; /* root inside is the host's root */
};

enum volume_kind {
    VOLUME_FOLDER,   /* its owner becomes the sandbox's user */
    VOLUME_UNMAPPED, /* of the host's root or its group: nobody's inside, mounted read-only */
    VOLUME_MOUNT,    /* the root of a detached mount, to be used itself */
};

/* An O_PATH descriptor of what is asked for. A host path is resolved below an allowed folder, and
 * no symlink leads out of it; the state folder is not shown, nor what holds it. The host's root is
 * mapped into a sandbox only where the folder has VOLUME_ROOT_PREFIX. */
int volume_open(const struct volume_rules *rules, const struct mount_spec *m, enum volume_kind *ret,
                struct cay_error *err);
/* True for an absolute path, with or without VOLUME_ROOT_PREFIX. */
bool volume_root_is_valid(const char *root);

/* Where the kernel says that a descriptor leads to. 0 or -errno. */
int volume_real_path(int fd, char out[static PATH_MAX]);
