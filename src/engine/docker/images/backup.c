/* Backups: what a container has written, as an image of cay's store, which is not Docker's and
 * stays if Docker loses everything. A pin there keeps it, and says whose it is. A sandbox whose
 * container is gone is made again from it as from an archive. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "engine/docker/images/image.h"
#include "engine/docker/internal.h"
#include "image/image.h"
#include "image/store.h"

enum { HOLDER_SIZE = sizeof IMAGE_STORE_BACKUP + ID_SIZE };

static int name_holder(const char *id, char out[static HOLDER_SIZE], struct cay_error *err) {
    if (!id_is_valid(id))
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of a sandbox");
    (void)snprintf(out, HOLDER_SIZE, IMAGE_STORE_BACKUP "%.*s", ID_LEN, id);
    return 0;
}

/* Holds it until the pin does: a prune must not come in between. */
static int pin(const struct docker_engine *d, const char *holder, const char *id,
               struct cay_error *err) {
    struct image held = IMAGE_NONE;
    int r = image_open(d->home, id, &held, err);
    if (r < 0)
        return r;
    r = image_store_pin(d->home, holder, id, err);
    image_close(&held);
    return r;
}

/* All but one; "": all. One who was killed between two pins has left both, and of these an older
 * one must not be what is restored some day. */
static int forget_others(const struct docker_engine *d, const char *holder, const char *but,
                         struct cay_error *err) {
    char other[HEX_SIZE];
    int r;
    while ((r = image_store_pinned(d->home, holder, but, other, err)) > 0) {
        r = image_store_unpin_one(d->home, holder, other, err);
        docker_image_forget(d->home, other);
        if (r < 0)
            return r;
    }
    return r;
}

int docker_backup(struct engine *e, const char *id, const char *image, uint64_t max_bytes,
                  uint64_t *ret_bytes, struct cay_error *err) {
    struct docker_engine *d = docker_of(e);
    struct docker_container c;
    char holder[HOLDER_SIZE], made[HEX_SIZE];
    int r = name_holder(id, holder, err);
    if (r == 0)
        r = docker_inspect(d, id, "/json?size=1", &c, err);
    if (r == 0 && c.size_rw > max_bytes)
        r = error_set(err, CAY_LIMIT_REACHED, "it is larger than it may be");
    if (r == 0)
        r = docker_commit_to_store(d, id, image, made, err);
    if (r == 0)
        r = pin(d, holder, made, err);
    if (r == 0)
        r = forget_others(d, holder, made, err);
    if (r == 0)
        *ret_bytes = MAX(c.size_rw, (uint64_t)1);
    return r;
}

/* That there was a container once is not so any more. */
static int forget_container(const struct docker_engine *d, const char *id, struct cay_error *err) {
    char made[ID_SIZE + sizeof "/in/" DOCKER_MADE_NAME];
    (void)snprintf(made, sizeof made, "%.*s/in/" DOCKER_MADE_NAME, ID_LEN, id);
    return unlinkat(d->folder, made, 0) < 0 && errno != ENOENT && errno != ENOTDIR
               ? error_errno(err, "forgetting the container of sandbox %s", id)
               : 0;
}

int docker_backup_restore(struct engine *e, const char *id, bool *ret, struct cay_error *err) {
    struct docker_engine *d = docker_of(e);
    struct docker_container c;
    char holder[HOLDER_SIZE], image[HEX_SIZE] = "";
    *ret = false;
    int r = name_holder(id, holder, err);
    if (r == 0)
        r = docker_inspect(d, id, "/json", &c, err);
    if (r != -CAY_NOT_FOUND)
        return r; /* it is there */
    r = image_store_pinned(d->home, holder, "", image, err);
    if (r <= 0)
        return r;
    r = docker_image_ensure(d->api, d->home, image, err);
    if (r == 0)
        r = docker_archive_from(d, id, image, err);
    if (r == 0)
        r = forget_container(d, id, err);
    *ret = r == 0;
    return r;
}

int docker_backup_remove(struct engine *e, const char *id, struct cay_error *err) {
    char holder[HOLDER_SIZE];
    int r = name_holder(id, holder, err);
    return r < 0 ? r : forget_others(docker_of(e), holder, "", err);
}
