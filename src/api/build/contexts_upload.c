/* Contexts on their way in: one file, or parts that are put together at their end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/build/contexts_internal.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"

enum { COPY_SIZE = 256 * 1024, LOOK_BYTES = 16 << 20 /* then the limit is looked at again */ };

struct context_upload {
    int owner;  /* his folder, whose limit counts */
    int folder; /* where it gets its name */
    int file;
    char making[CONTEXT_NAME_SIZE], name[CONTEXT_NAME_SIZE];
    uint64_t bytes, looked;
    struct hasher *hasher;
    bool is_done;
};

static int refuse_size(struct cay_error *err) {
    error_set(err, CAY_LIMIT_REACHED, "a build context has more than %d MiB",
              (int)(CONTEXT_BYTES_MAX >> 20));
    return error_remedy(err, "leave out what the build does not need, or fetch it in the build");
}

static int refuse_parts(struct cay_error *err) {
    error_set(err, CAY_NOT_FOUND, "there is no such upload in parts");
    return error_remedy(err, "begin it anew; one that is not finished within a day is given up");
}

/* ---- one file ---- */

static int open_parts(int folder, const char *hash, const char *id) {
    char name[CONTEXT_NAME_SIZE];
    if (!id_is_valid(id))
        return -ENOENT;
    (void)snprintf(name, sizeof name, CONTEXT_PARTS "%s-%s", id, hash);
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int open_places(struct context_upload *u, const struct contexts *c, const char *owner,
                       const char *hash, const char *id, struct cay_error *err) {
    u->owner = contexts_folder(c, owner);
    if (u->owner < 0)
        return error_storage(err, -u->owner, "opening the folder of build contexts");
    u->folder = id == NULL ? fcntl(u->owner, F_DUPFD_CLOEXEC, 3) : open_parts(u->owner, hash, id);
    if (u->folder == -ENOENT)
        return refuse_parts(err);
    return u->folder < 0 ? error_storage(err, id == NULL ? errno : -u->folder, "keeping a context")
                         : 0;
}

static int make_file(struct context_upload *u, struct cay_error *err) {
    char random[ID_SIZE];
    int r = id_new(random, err);
    if (r < 0)
        return r;
    (void)snprintf(u->making, sizeof u->making, CONTEXT_PUT "%s", random);
    u->file =
        openat(u->folder, u->making, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    u->hasher = hasher_new();
    if (u->file < 0)
        return error_storage(err, errno, "keeping a build context");
    return u->hasher == NULL ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

int context_upload_begin(struct contexts *c, const char *owner, const char *hash, const char *id,
                         unsigned part, uint64_t bytes, struct context_upload **ret,
                         struct cay_error *err) {
    if (bytes > CONTEXT_BYTES_MAX)
        return refuse_size(err);
    struct context_upload *u = calloc(1, sizeof *u);
    if (u == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    u->owner = u->folder = u->file = -1;
    if (id == NULL)
        context_file_name(hash, u->name);
    else
        (void)snprintf(u->name, sizeof u->name, "%u", part);
    int r = open_places(u, c, owner, hash, id, err);
    if (r == 0)
        r = contexts_make_room(u->owner, bytes, err);
    if (r == 0)
        r = make_file(u, err);
    if (r < 0)
        context_upload_free(u);
    else
        *ret = u;
    return r;
}

int context_upload_write(struct context_upload *u, const char *data, size_t len,
                         struct cay_error *err) {
    u->bytes += len;
    if (u->bytes > CONTEXT_BYTES_MAX)
        return refuse_size(err);
    hasher_add(u->hasher, data, len);
    int r = fd_write_all(u->file, data, len);
    if (r < 0)
        return error_storage(err, -r, "keeping a build context");
    if (u->bytes - u->looked < LOOK_BYTES)
        return 0;
    u->looked = u->bytes;
    return contexts_make_room(u->owner, 0, err);
}

/* On the disk before it has its name: what is there is whole, also after a power failure. */
static int settle(struct context_upload *u, struct cay_error *err) {
    if (fdatasync(u->file) < 0 || renameat(u->folder, u->making, u->folder, u->name) < 0)
        return error_storage(err, errno, "keeping a build context");
    u->is_done = true;
    return 0;
}

int context_upload_end(struct context_upload *u, const char *sha256,
                       char digest[static HASH_HEX_SIZE], struct cay_error *err) {
    unsigned char hash[HASH_SIZE];
    hasher_end(u->hasher, hash);
    hash_hex(hash, digest);
    if (sha256 != NULL && !str_equal(sha256, digest)) {
        error_set(err, CAY_INVALID_ARGUMENT, "the body is not what its digest says");
        return error_remedy(err, "send it again");
    }
    return settle(u, err);
}

void context_upload_free(struct context_upload *u) {
    if (!u->is_done && u->file >= 0)
        (void)unlinkat(u->folder, u->making, 0); /* swept otherwise */
    fd_close(&u->file);
    fd_close(&u->folder);
    fd_close(&u->owner);
    hasher_free(u->hasher);
    free(u);
}

/* ---- parts ---- */

int context_parts_begin(struct contexts *c, const char *owner, const char *hash,
                        char id[static CONTEXT_ID_SIZE], struct cay_error *err) {
    char name[CONTEXT_NAME_SIZE];
    _cleanup_(closep) int folder = contexts_folder(c, owner);
    if (folder < 0)
        return error_storage(err, -folder, "opening the folder of build contexts");
    int r = contexts_make_room(folder, 0, err);
    if (r == 0)
        r = id_new(id, err);
    if (r < 0)
        return r;
    (void)snprintf(name, sizeof name, CONTEXT_PARTS "%s-%s", id, hash);
    return mkdirat(folder, name, 0700) < 0 ? error_storage(err, errno, "keeping a build context")
                                           : 0;
}

static int copy_part(struct context_upload *u, int parts, unsigned number, char *block,
                     struct cay_error *err) {
    char name[16];
    (void)snprintf(name, sizeof name, "%u", number);
    _cleanup_(closep) int fd = openat(parts, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        error_set(err, CAY_INVALID_ARGUMENT, "part %u was never sent", number);
        return error_remedy(err, "send it, and end the upload again");
    }
    for (;;) {
        ssize_t n = fd < 0 ? -1 : TEMP_FAILURE_RETRY(read(fd, block, COPY_SIZE));
        if (n < 0)
            return error_storage(err, errno, "reading a part of a build context");
        int r = n == 0 ? 0 : context_upload_write(u, block, (size_t)n, err);
        if (r < 0 || n == 0)
            return r;
    }
}

static int join(struct context_upload *u, int parts, const unsigned *numbers, size_t count,
                struct cay_error *err) {
    char digest[HASH_HEX_SIZE];
    _cleanup_(freep) char *block = malloc(COPY_SIZE);
    int r = block == NULL ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = copy_part(u, parts, numbers[i], block, err);
    return r < 0 ? r : context_upload_end(u, NULL, digest, err);
}

int context_parts_end(struct contexts *c, const char *owner, const char *hash, const char *id,
                      const unsigned *numbers, size_t count, struct cay_error *err) {
    struct context_upload *u = NULL;
    _cleanup_(closep) int folder = contexts_folder(c, owner);
    _cleanup_(closep) int parts = folder < 0 ? folder : open_parts(folder, hash, id);
    if (parts == -ENOENT)
        return refuse_parts(err);
    if (parts < 0)
        return error_storage(err, -parts, "opening the parts of a build context");
    int r = context_upload_begin(c, owner, hash, NULL, 0, 0, &u, err);
    if (r < 0)
        return r;
    r = join(u, parts, numbers, count, err);
    context_upload_free(u);
    return r < 0 ? r : context_parts_drop(c, owner, hash, id, err);
}

int context_parts_drop(struct contexts *c, const char *owner, const char *hash, const char *id,
                       struct cay_error *err) {
    char name[CONTEXT_NAME_SIZE];
    if (!id_is_valid(id))
        return 0;
    _cleanup_(closep) int folder = contexts_folder(c, owner);
    (void)snprintf(name, sizeof name, CONTEXT_PARTS "%s-%s", id, hash);
    int r = folder < 0 ? folder : path_remove_tree(folder, name);
    return r < 0 ? error_storage(err, -r, "removing the parts of a build context") : 0;
}
