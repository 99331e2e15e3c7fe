#include "api/build/contexts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/build/contexts_internal.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"

enum {
    COUNT_MAX = 512,               /* of one owner */
    FRESH_MS = 3600 * 1000,        /* what was used since then stays */
    AGE_MS = 7 * 24 * 3600 * 1000, /* what was not, goes */
};

static const uint64_t owner_bytes_max = UINT64_C(4) << 30;
static const char nobody[] =
    "daemon"; /* folder of who has no key of his own; no key's id is this */

bool context_is_hash(const char *text) {
    size_t len = strlen(text);
    return len == CONTEXT_HASH_SIZE - 1 && strspn(text, "0123456789abcdef") == len;
}

void context_file_name(const char *hash, char out[static CONTEXT_NAME_SIZE]) {
    (void)snprintf(out, CONTEXT_NAME_SIZE, "%.*s.tar", CONTEXT_HASH_SIZE - 1, hash);
}

/* ---- folders ---- */

static int make_folder(int dir, const char *name) {
    if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int contexts_folder(const struct contexts *c, const char *owner) {
    return make_folder(c->folder, owner[0] != '\0' ? owner : nobody);
}

static int drop_unfinished(void *user, int folder, const char *name) {
    (void)user;
    if (str_starts(name, CONTEXT_PUT) || str_starts(name, CONTEXT_PARTS))
        (void)path_remove_tree(folder, name); /* else it goes with its age */
    return 0;
}

static int clean_owner(void *user, int dir, const char *name) {
    (void)user;
    _cleanup_(closep) int folder =
        openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0)
        (void)path_each(folder, drop_unfinished, NULL);
    return 0;
}

int contexts_open(const char *folder, struct contexts **ret, struct cay_error *err) {
    struct contexts *c = calloc(1, sizeof *c);
    if (c == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    c->folder = make_folder(AT_FDCWD, folder);
    int r = c->folder < 0 ? c->folder : id_random(c->master, sizeof c->master);
    if (r < 0) {
        contexts_free(c);
        return error_storage(err, -r, "opening the folder of build contexts");
    }
    (void)path_each(c->folder, clean_owner, NULL);
    contexts_sweep(c);
    *ret = c;
    return 0;
}

void contexts_free(struct contexts *c) {
    fd_close(&c->folder);
    explicit_bzero(c->master, sizeof c->master);
    free(c);
}

/* ---- how much there is ---- */

/* The oldest that may go, and all together. */
struct tally {
    uint64_t bytes;
    size_t count;
    int64_t oldest_ms; /* INT64_MAX: none */
    char oldest[CONTEXT_NAME_SIZE];
};

static int64_t time_of(const struct stat *st) {
    return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

static int count_part(void *user, int folder, const char *name) {
    struct stat st;
    struct tally *t = user;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        t->bytes += (uint64_t)st.st_size;
    return 0;
}

static int count_one(void *user, int folder, const char *name) {
    struct stat st;
    struct tally *t = user;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* gone since */
    t->count++;
    if (S_ISDIR(st.st_mode)) {
        _cleanup_(closep) int parts =
            openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (parts >= 0)
            (void)path_each(parts, count_part, t);
        return 0;
    }
    t->bytes += (uint64_t)st.st_size;
    int64_t used = time_of(&st);
    if (name[0] == '.' || used > clock_wall_ms() - FRESH_MS || used >= t->oldest_ms)
        return 0;
    if (str_copy(t->oldest, sizeof t->oldest, name) == 0)
        t->oldest_ms = used;
    return 0;
}

int contexts_make_room(int folder, uint64_t more, struct cay_error *err) {
    for (;;) {
        struct tally t = {.oldest_ms = INT64_MAX};
        char text[32];
        int r = path_each(folder, count_one, &t);
        if (r < 0)
            return error_storage(err, -r, "looking at build contexts");
        if (t.bytes + more <= owner_bytes_max && t.count < COUNT_MAX)
            return 0;
        if (t.oldest_ms < INT64_MAX && unlinkat(folder, t.oldest, 0) == 0)
            continue;
        error_set(err, CAY_LIMIT_REACHED,
                  "%zu build contexts with %s are kept for this key already", t.count,
                  str_bytes(t.bytes, text));
        return error_remedy(err, "wait an hour, after which the oldest make room; or send fewer "
                                 "and smaller files");
    }
}

struct measuring {
    void (*fn)(void *user, const char *owner, uint64_t bytes);
    void *user;
};

static int measure_owner(void *user, int dir, const char *name) {
    const struct measuring *m = user;
    struct tally t = {.oldest_ms = INT64_MAX};
    _cleanup_(closep) int folder =
        openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0 && id_is_valid(name) && path_each(folder, count_one, &t) == 0)
        m->fn(m->user, name, t.bytes);
    return 0;
}

void contexts_each(const struct contexts *c,
                   void (*fn)(void *user, const char *owner, uint64_t bytes), void *user) {
    (void)path_each(c->folder, measure_owner, &(struct measuring){fn, user});
}

/* ---- looking ---- */

static int refuse_missing(const char *hash, struct cay_error *err) {
    char shown[80];
    error_set(err, CAY_NOT_FOUND, "there is no build context '%s'",
              str_escape(shown, sizeof shown, hash));
    return error_remedy(err, "upload it first, as SDKs do: GET /api/object-storage/push-access");
}

int contexts_find(struct contexts *c, const char *owner, const char *hash, uint64_t *ret_bytes,
                  struct cay_error *err) {
    char name[CONTEXT_NAME_SIZE];
    struct stat st;
    if (!context_is_hash(hash))
        return refuse_missing(hash, err);
    _cleanup_(closep) int folder = contexts_folder(c, owner);
    context_file_name(hash, name);
    _cleanup_(closep) int fd =
        folder < 0 ? folder : openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && folder >= 0 && errno == ENOENT)
        return refuse_missing(hash, err);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_storage(err, errno, "opening a build context");
    (void)futimens(fd, NULL); /* it is used; else it only goes earlier */
    if (ret_bytes != NULL)
        *ret_bytes = (uint64_t)st.st_size;
    return TAKE_FD(fd);
}

/* One message with all of them, which waits in the socket. */
int contexts_pack(const int *fds, size_t count, struct cay_error *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "keeping build contexts");
    int r = fd_send(pair[1], "c", 1, fds, count);
    (void)close(pair[1]);
    if (r == 0)
        return pair[0];
    (void)close(pair[0]);
    return error_sys(err, -r, "keeping build contexts");
}

/* ---- age ---- */

static int sweep_one(void *user, int folder, const char *name) {
    struct stat st;
    const int64_t *now_ms = user;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    int64_t age_ms = *now_ms - time_of(&st);
    if (age_ms > (name[0] == '.' ? 24 * (int64_t)FRESH_MS : (int64_t)AGE_MS))
        (void)path_remove_tree(folder, name); /* the next time, else */
    return 0;
}

static int sweep_owner(void *user, int dir, const char *name) {
    _cleanup_(closep) int folder =
        openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return 0;
    (void)path_each(folder, sweep_one, user);
    (void)unlinkat(dir, name, AT_REMOVEDIR); /* unless there is something in it */
    return 0;
}

void contexts_sweep(struct contexts *c) {
    int64_t now_ms = clock_wall_ms();
    (void)path_each(c->folder, sweep_owner, &now_ms);
}
