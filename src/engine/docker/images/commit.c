/* What a sandbox has written, as an image of Docker's: an archive, from which its container is made
 * again, or a snapshot, which comes into cay's store too. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/docker/images/image.h"
#include "engine/docker/internal.h"
#include "engine/docker/spec.h"
#include "image/image.h"
#include "image/store.h"

#define ARCHIVE "cay-archive" /* repository of archives; the tag is the sandbox's id */
#define MARK    "archive-"    /* in STATE/docker, with the id */

enum { BODY_MAX = 1 << 20 };

/* An image with the configuration of the one that the sandbox was made from: that of the container
 * starts cay-init. The container stands still. ret_may_come: Docker may still make it later. */
static int commit(struct docker_engine *d, const char *id, const char *image,
                  const char *repository, const char *tag, bool *ret_may_come,
                  char ret[static HEX_SIZE], struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    _cleanup_(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    char path[DOCKER_PATH_SIZE];
    struct image from = IMAGE_NONE;
    if (str_format(path, sizeof path, "/commit?container=cay-%s&pause=0&repo=%s&tag=%s", id,
                   repository, tag) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of a sandbox");
    int r = image_open(d->home, image, &from, err);
    if (r < 0)
        return r;
    r = docker_spec_commit(from.record, &body, err);
    image_close(&from);
    if (r < 0)
        return r;
    struct docker_call call = {.method = "POST",
                               .path = path,
                               .body = buf_text(&body),
                               .body_len = body.len,
                               .timeout_ms = DOCKER_SLOW_MS};
    r = docker_do(d->api, &call, &a, err);
    *ret_may_come = a.status == 0;
    if (r == 0)
        r = docker_parse_image_id(buf_text(&a.body), a.body.len, ret, err);
    return r < 0 ? error_prefix(err, "making an image of the container") : 0;
}

/* ---- archives ---- */

/* A file of ours says that there may be one, so that nobody else asks Docker for it. */
static int mark(const struct docker_engine *d, const char *id, bool on, struct cay_error *err) {
    char name[sizeof MARK + ID_SIZE];
    if (str_format(name, sizeof name, MARK "%s", id) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of a sandbox");
    if (!on)
        return unlinkat(d->folder, name, 0) < 0 && errno != ENOENT
                   ? error_errno(err, "forgetting the archive of sandbox %s", id)
                   : 0;
    _cleanup_(closep) int fd =
        openat(d->folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 || fsync(d->folder) < 0
               ? error_errno(err, "noting that sandbox %s has an archive", id)
               : 0;
}

static bool is_marked(const struct docker_engine *d, const char *id) {
    char name[sizeof MARK + ID_SIZE];
    return str_format(name, sizeof name, MARK "%s", id) == 0 &&
           faccessat(d->folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* One of a time that did not come to its end would lose its name to the next, and stay. Docker
 * refuses to remove the one that the container was made from, which goes with the next. */
static void drop_unused(struct docker_engine *d, const char *id) {
    char name[DOCKER_ARCHIVE_SIZE];
    if (docker_archive_find(d, id, name, NULL) > 0)
        (void)docker_image_remove(d->api, name, NULL);
}

int docker_archive(struct engine *e, const char *id, const char *image, uint64_t *ret_bytes,
                   struct cay_error *err) {
    struct docker_engine *d = docker_of(e);
    struct docker_container c;
    char made[HEX_SIZE];
    bool may_come; /* then the file says that there may be one */
    int r = docker_inspect(d, id, "/json?size=1", &c, err);
    if (r < 0)
        return r;
    drop_unused(d, id);
    r = mark(d, id, true, err);
    if (r == 0)
        r = commit(d, id, image, ARCHIVE, id, &may_come, made, err);
    if (r == 0)
        *ret_bytes = c.size_rw;
    return r;
}

int docker_archive_find(struct docker_engine *d, const char *id,
                        char name[static DOCKER_ARCHIVE_SIZE], struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    char path[DOCKER_PATH_SIZE];
    if (!id_is_valid(id) || str_format(name, DOCKER_ARCHIVE_SIZE, ARCHIVE ":%s", id) < 0 ||
        str_format(path, sizeof path, "/images/%s/json", name) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of a sandbox");
    if (!is_marked(d, id))
        return 0;
    int r = docker_ask(d->api, &(struct docker_call){.method = "GET", .path = path}, &a, err);
    if (r < 0 || a.status == 404)
        return r;
    return a.status < 400 ? 1 : docker_refused(&a, "looking for the archive", err);
}

int docker_unarchive(struct engine *e, const char *id, struct cay_error *err) {
    struct docker_engine *d = docker_of(e);
    char name[DOCKER_ARCHIVE_SIZE];
    int r = docker_archive_find(d, id, name, err);
    if (r > 0)
        r = docker_image_remove(d->api, name, err);
    if (r >= 0)
        r = mark(d, id, false, err);
    return r < 0 ? r : image_store_unpin(d->home, id, err);
}

int docker_archive_from(struct docker_engine *d, const char *id, const char *image,
                        struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    char path[DOCKER_PATH_SIZE], name[sizeof "cay:" + 12];
    if (str_format(path, sizeof path, "/images/sha256:%s/tag?repo=" ARCHIVE "&tag=%s", image, id) <
        0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of an image");
    int r = mark(d, id, true, err);
    if (r == 0)
        r = docker_do(d->api, &(struct docker_call){.method = "POST", .path = path}, &a, err);
    (void)snprintf(name, sizeof name, "cay:%.12s", image);
    if (r == 0) /* the other name keeps it, and goes with the sandbox */
        (void)docker_image_remove(d->api, name, NULL);
    return r;
}

/* ---- into cay's store ---- */

/* Makes an image of what the container has written, in Docker (`made`) for the moment, and in the
 * store (`ret`). */
static int commit_to_both(struct docker_engine *d, const char *id, const char *image,
                          struct docker_passing *p, char made[static HEX_SIZE],
                          char ret[static HEX_SIZE], struct cay_error *err) {
    char name[HEX_SIZE + sizeof "sha256:"];
    int r = docker_passing_begin(d, p, err);
    if (r == 0)
        r = commit(d, id, image, DOCKER_PASSING_REPOSITORY, p->token, &p->may_come, made, err);
    if (r < 0)
        return r;
    if (str_format(name, sizeof name, "sha256:%s", made) < 0)
        return error_set(err, CAY_INTERNAL, "Docker gave no id of an image");
    return docker_image_fetch(d->api, d->home, name, ret, err);
}

int docker_commit_to_store(struct docker_engine *d, const char *id, const char *image,
                           char ret[static HEX_SIZE], struct cay_error *err) {
    struct docker_passing p = DOCKER_PASSING_INIT;
    char made[HEX_SIZE];
    int r = commit_to_both(d, id, image, &p, made, ret, err);
    docker_passing_end(d, &p);
    return r;
}

int docker_snapshot(struct engine *e, const char *id, const char *image, char ret[static HEX_SIZE],
                    struct cay_error *err) {
    struct docker_engine *d = docker_of(e);
    struct docker_passing p = DOCKER_PASSING_INIT;
    char made[HEX_SIZE];
    int r = commit_to_both(d, id, image, &p, made, ret, err);
    if (r == 0 && str_equal(made, ret)) /* else it comes from the store when it is used */
        r = docker_image_name(d->api, ret, err);
    docker_passing_end(d, &p);
    return r;
}
