#include "engine/link/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "engine/link/client.h"
#include "engine/link/program.h"
#include "engine/volume/volume.h"
#include "image/image.h"

enum { OOM_MS = 500, OOM_LOOK_MS = 20, FOLDER_SIZE = 64 };

struct link_run {
    struct engine engine; /* first */
    struct engine *linked;
    pid_t pid;
    int folder; /* of the state folder: where the socket has its name for a moment */
};

static struct link_run *run_of(struct engine *e) {
    return (struct link_run *)e;
}

/* A pair of a listening socket and a connection to it, which nobody else can have: its name is gone
 * before anybody could look. */
static int make_sockets(const struct link_run *l, const char *id, int *ret_listener,
                        int *ret_connection, struct cay_error *err) {
    _cleanup_(closep) int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    _cleanup_(closep) int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[ID_SIZE + sizeof ".sock"];
    (void)snprintf(name, sizeof name, "%s.sock", id);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", l->folder,
                   name);
    if (listener < 0 || connection < 0 || fchmod(listener, 0600) < 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof address) < 0)
        return error_errno(err, "making the socket of the sandbox");
    int r = 0;
    if (listen(listener, 1) < 0 ||
        connect(connection, (struct sockaddr *)&address, sizeof address) < 0)
        r = error_errno(err, "connecting to the socket of the sandbox");
    (void)unlinkat(l->folder, name, 0);
    if (r == 0) {
        *ret_listener = TAKE_FD(listener);
        *ret_connection = TAKE_FD(connection);
    }
    return r;
}

static int engine_run(struct engine *e, const struct sandbox_spec *spec, const struct image *image,
                      struct engine_run *ret, struct cay_error *err) {
    struct link_run *l = run_of(e);
    _cleanup_(closep) int listener = -1, connection = -1;
    int64_t begin = clock_us();
    int r = make_sockets(l, spec->id, &listener, &connection, err);
    if (r < 0)
        return r;
    r = l->linked->ops->start(l->linked, spec, image != NULL ? image->record->id : "", listener,
                              err);
    if (r < 0)
        return r;
    *ret = (struct engine_run){.connection = TAKE_FD(connection), .start_us = clock_us() - begin};
    memcpy(ret->id, spec->id, sizeof ret->id);
    return 0;
}

/* The engine learns of it a moment after the process has died. */
static bool engine_run_oom_killed(struct engine *e, const struct engine_run *run, bool was_killed) {
    struct link_run *l = run_of(e);
    struct engine_stats stats = {0};
    struct cay_error ignored;
    int64_t deadline = clock_deadline(OOM_MS);
    while (was_killed && l->linked->ops->stats(l->linked, run->id, &stats, &ignored) == 0) {
        if (stats.oom_kills > 0 || clock_expired(deadline))
            break;
        (void)usleep(OOM_LOOK_MS * 1000);
    }
    return stats.oom_kills > 0;
}

/* What cannot be removed goes when the engine is closed, or with the next run. */
static void engine_run_end(struct engine *e, struct engine_run *run) {
    struct link_run *l = run_of(e);
    struct cay_error ignored;
    (void)l->linked->ops->remove(l->linked, run->id, &ignored);
}

static void engine_close(struct engine *e) {
    struct link_run *l = run_of(e);
    if (l->linked != NULL)
        l->linked->ops->close(l->linked);
    while (l->pid != 0 && waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    fd_close(&l->folder);
    free(l);
}

static const struct engine_ops ops = {.run = engine_run,
                                      .run_oom_killed = engine_run_oom_killed,
                                      .run_end = engine_run_end,
                                      .close = engine_close};

static int open_folder(enum engine_kind kind, const char *state_dir, struct cay_error *err) {
    char name[FOLDER_SIZE];
    link_run_folder(kind, name, sizeof name);
    _cleanup_(closep) int state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return error_errno(err, "opening the state folder");
    if (mkdirat(state, name, 0700) < 0 && errno != EEXIST)
        return error_errno(err, "making %s in the state folder", name);
    int fd = openat(state, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? error_errno(err, "opening %s in the state folder", name) : fd;
}

static int start(enum engine_kind kind, const char *state_dir, struct link_run *l,
                 struct cay_error *err) {
    /* Whoever may use such an engine may do all that it can. */
    static const char *const everything[] = {VOLUME_ROOT_PREFIX "/", NULL};
    const char *keys[ENGINE_KEYS];
    int pair[2];
    l->folder = open_folder(kind, state_dir, err);
    if (l->folder < 0)
        return l->folder;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the socket of %s", engine_type(kind)->program);
    engine_keys_read(keys);
    int r = link_start_program(kind, LINK_RUN, state_dir, everything, keys, pair[1], &l->pid, err);
    (void)close(pair[1]);
    if (r == 0)
        return link_open(pair[0], NULL, NULL, &l->linked, err);
    (void)close(pair[0]);
    return r;
}

void link_run_folder(enum engine_kind kind, char *out, size_t size) {
    (void)snprintf(out, size, "%s-run", engine_kind_name(kind));
}

int link_run_open(enum engine_kind kind, const char *state_dir, struct engine **ret,
                  struct cay_error *err) {
    struct link_run *l = calloc(1, sizeof *l);
    if (l == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    *l = (struct link_run){.engine = {.ops = &ops}, .folder = -1};
    int r = start(kind, state_dir, l, err);
    if (r < 0) {
        engine_close(&l->engine);
        return r;
    }
    *ret = &l->engine;
    return 0;
}
