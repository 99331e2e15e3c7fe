#include "lib/throwaway.h"

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
#include "engine/docker/docker_program.h"
#include "engine/docker/docker_runtime.h"
#include "engine/link/client.h"
#include "engine/spec.h"
#include "engine/volume/volume.h"

enum { OOM_MS = 500, OOM_LOOK_MS = 20 };

struct throwaway {
    struct engine *engine;
    pid_t pid;
    int folder; /* of the state folder: where the socket has its name for a moment */
};

static int open_folder(const char *state_dir, struct cay_error *err) {
    _cleanup_(closep) int state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return error_errno(err, "opening the state folder");
    if (mkdirat(state, DOCKER_RUN_FOLDER, 0700) < 0 && errno != EEXIST)
        return error_errno(err, "making " DOCKER_RUN_FOLDER " in the state folder");
    int fd = openat(state, DOCKER_RUN_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? error_errno(err, "opening " DOCKER_RUN_FOLDER " in the state folder") : fd;
}

int throwaway_open(const char *state_dir, struct throwaway **ret, struct cay_error *err) {
    static const char *const everything[] = {VOLUME_ROOT_PREFIX "/",
                                             NULL}; /* who asks Docker may do all */
    int pair[2] = {-1, -1};
    struct throwaway *t = calloc(1, sizeof *t);
    if (t == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    t->folder = open_folder(state_dir, err);
    int r = t->folder < 0 ? t->folder : 0;
    if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        r = error_errno(err, "making the socket of cay-docker");
    if (r == 0)
        r = docker_program_start(state_dir, DOCKER_PROGRAM_RUN, everything, docker_runtime_chosen(),
                                 pair[1], &t->pid, err);
    fd_close(&pair[1]);
    if (r == 0)
        r = link_open(TAKE_FD(pair[0]), NULL, NULL, &t->engine, err);
    fd_close(&pair[0]);
    if (r < 0) {
        throwaway_close(t);
        return r;
    }
    *ret = t;
    return 0;
}

/* A pair of a listening socket and a connection to it, which nobody else can have: its name is gone
 * before anybody could look. */
static int make_sockets(const struct throwaway *t, const char *id, int *ret_listener,
                        int *ret_connection, struct cay_error *err) {
    _cleanup_(closep) int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    _cleanup_(closep) int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[ID_SIZE + sizeof ".sock"];
    (void)snprintf(name, sizeof name, "%s.sock", id);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", t->folder,
                   name);
    if (listener < 0 || connection < 0 || fchmod(listener, 0600) < 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof address) < 0)
        return error_errno(err, "making the socket of the sandbox");
    int r = 0;
    if (listen(listener, 1) < 0 ||
        connect(connection, (struct sockaddr *)&address, sizeof address) < 0)
        r = error_errno(err, "connecting to the socket of the sandbox");
    (void)unlinkat(t->folder, name, 0);
    if (r == 0) {
        *ret_listener = TAKE_FD(listener);
        *ret_connection = TAKE_FD(connection);
    }
    return r;
}

int throwaway_start(struct throwaway *t, const struct sandbox_spec *spec, const char *image,
                    int *ret_connection, struct cay_error *err) {
    _cleanup_(closep) int listener = -1, connection = -1;
    int r = make_sockets(t, spec->id, &listener, &connection, err);
    if (r == 0)
        r = t->engine->ops->start(t->engine, spec, image, listener, err);
    if (r == 0)
        *ret_connection = TAKE_FD(connection);
    return r;
}

/* Docker hears of it a moment after the process has died. */
bool throwaway_oom_killed(struct throwaway *t, const char *id) {
    struct engine_stats stats = {0};
    struct cay_error ignored;
    int64_t deadline = clock_deadline(OOM_MS);
    while (t->engine->ops->stats(t->engine, id, &stats, &ignored) == 0) {
        if (stats.oom_kills > 0 || clock_expired(deadline))
            break;
        (void)usleep(OOM_LOOK_MS * 1000);
    }
    return stats.oom_kills > 0;
}

int throwaway_remove(struct throwaway *t, const char *id, struct cay_error *err) {
    return t->engine->ops->remove(t->engine, id, err);
}

void throwaway_close(struct throwaway *t) {
    if (t == NULL)
        return;
    if (t->engine != NULL)
        t->engine->ops->close(t->engine);
    while (t->pid != 0 && waitpid(t->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    fd_close(&t->folder);
    free(t);
}
