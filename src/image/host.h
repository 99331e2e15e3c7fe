/* The host image: the host's /usr, read-only, over a small synthetic root. It needs no download.
 * The root is kept below STATE/images/host/FINGERPRINT and made anew when the host changes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cay_error;

enum { HOST_BINDS_MAX = 7, HOST_MASKS_MAX = 3, HOST_FINGERPRINT_SIZE = 17 };

/* A folder of the host to bind read-only, nosuid and nodev; target is absolute and exists. */
struct host_bind {
    const char *source;
    const char *target;
};

/* A folder that exists in one of the binds but must not be seen: an empty one goes over it. */
struct host_mask {
    const char *path;
    bool writable; /* the sandbox may install things there */
};

/* Move it freely, but release it once. */
struct host_image {
    int root_fd; /* O_PATH: the root; lower layer only, never writable to a sandbox */
    int lock_fd; /* an empty file; while it or a copy is open the root is not removed */
    char fingerprint[HOST_FINGERPRINT_SIZE];
    struct host_bind binds[HOST_BINDS_MAX]; /* in mount order */
    size_t bind_count;
    struct host_mask masks[HOST_MASKS_MAX];
    size_t mask_count;
};

#define HOST_IMAGE_NONE ((struct host_image){.root_fd = -1, .lock_fd = -1})

/* Opens the image, making its root if this host has none yet. Any number of processes may do so at
 * once. state_dir must exist. */
int host_image_open(const char *state_dir, struct host_image *ret, struct cay_error *err);

/* As host_image_open for the host whose "/" is host_root; sources are relative to it. */
int host_image_open_from(const char *host_root, const char *state_dir, struct host_image *ret,
                         struct cay_error *err);

/* The ids of a user of the image, "USER[:GROUP]" by name or number, as a look-up inside gives them;
 * false if there is none of that name. */
bool host_image_user(const char *text, unsigned *uid, unsigned *gid);

/* Closes the descriptors; HOST_IMAGE_NONE is fine. */
void host_image_close(struct host_image *image);
