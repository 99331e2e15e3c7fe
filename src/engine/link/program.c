#include "engine/link/program.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/program.h"
#include "base/str.h"

enum { CLIENT_FD = 3 };

enum { FOLDERS_MAX = 256 };

/* The caller may have blocked signals that it handles itself. */
static int spawn(const char *program, const posix_spawn_file_actions_t *actions,
                 const char *const *argv, const char *const *env, pid_t *ret) {
    posix_spawnattr_t attributes;
    sigset_t none;
    (void)sigemptyset(&none);
    int r = posix_spawnattr_init(&attributes);
    if (r != 0)
        return r;
    r = posix_spawnattr_setsigmask(&attributes, &none);
    if (r == 0)
        r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    if (r == 0)
        r = posix_spawn(ret, program, actions, &attributes, (char **)(uintptr_t)argv,
                        (char **)(uintptr_t)env);
    (void)posix_spawnattr_destroy(&attributes);
    return r;
}

static int spawn_launcher(const char *program, const char *state_dir, const char *how,
                          const char *const *folders, const char *const *env, int theirs,
                          pid_t *ret) {
    const char *argv[4 + FOLDERS_MAX] = {program, state_dir, how};
    for (size_t i = 0; folders[i] != NULL; i++) {
        if (i == FOLDERS_MAX)
            return -E2BIG;
        argv[3 + i] = folders[i];
    }
    static const char *const none[] = {NULL};
    if (env == NULL)
        env = none;
    posix_spawn_file_actions_t actions;
    int r = posix_spawn_file_actions_init(&actions);
    if (r != 0)
        return -r;
    r = posix_spawn_file_actions_adddup2(&actions, theirs, CLIENT_FD);
    if (r == 0)
        r = spawn(program, &actions, argv, env, ret);
    (void)posix_spawn_file_actions_destroy(&actions);
    return -r;
}

int link_spawn(const char *program, const char *state_dir, const char *how,
               const char *const *folders, const char *const *env, int sock, pid_t *ret,
               struct cay_error *err) {
    int r = spawn_launcher(program, state_dir, how, folders, env, sock, ret);
    return r < 0 ? error_sys(err, -r, "starting the launcher '%s'", program) : 0;
}

/* ---- by descriptor ---- */

enum { VARIABLES_MAX = 32, VARIABLE_SIZE = 256 };

struct environment {
    const char *v[VARIABLES_MAX + 1];
    char keys[ENGINE_KEYS][VARIABLE_SIZE];
};

/* Where the engine is, how we log, and its keys of the configuration. */
static int choose_environment(enum engine_kind kind, const char *const *keys,
                              struct environment *ret) {
    const char *const *wanted = engine_type(kind)->variables;
    size_t count = 0;
    for (size_t i = 0; i < ENGINE_KEYS; i++) {
        if (!engine_key_is_of((enum engine_key)i, kind))
            continue;
        if (str_format(ret->keys[i], VARIABLE_SIZE, "%s=%s",
                       engine_key_variable((enum engine_key)i), keys[i]) < 0)
            return -ENAMETOOLONG;
        ret->v[count++] = ret->keys[i];
    }
    if (log_is_json())
        ret->v[count++] = LINK_LOG_VARIABLE "=json";
    for (; *wanted != NULL && count < VARIABLES_MAX; wanted++)
        for (char **e = environ; *e != NULL; e++)
            if (str_starts(*e, *wanted)) {
                ret->v[count++] = *e;
                break;
            }
    ret->v[count] = NULL;
    return 0;
}

int link_start_program(enum engine_kind kind, const char *how, const char *state_dir,
                       const char *const *folders, const char *const keys[static ENGINE_KEYS],
                       int sock, pid_t *ret, struct cay_error *err) {
    const struct engine_type *type = engine_type(kind);
    struct environment env;
    char program[PATH_MAX];
    if (type->variables != NULL && choose_environment(kind, keys, &env) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT,
                         "a value in [%s] of the configuration is too long",
                         engine_kind_name(kind));
    int r = program_find(type->program, program, sizeof program, err);
    return r < 0 ? r
                 : link_spawn(program, state_dir, how, folders,
                              type->variables != NULL ? env.v : NULL, sock, ret, err);
}

/* ---- by hand ---- */

int launcher_client_start(const char *program, const char *state_dir, unsigned ready,
                          const char *const *folders, struct launcher_client *ret,
                          struct cay_error *err) {
    char how[16];
    int pair[2];
    (void)snprintf(how, sizeof how, "%u", ready);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the launcher's socket");
    pid_t pid = 0;
    int r = link_spawn(program, state_dir, how, folders, NULL, pair[1], &pid, err);
    (void)close(pair[1]);
    if (r < 0) {
        (void)close(pair[0]);
        return r;
    }
    *ret = (struct launcher_client){.pid = pid, .sock = pair[0]};
    return 0;
}

int launcher_client_send(const struct launcher_client *c, uint64_t tag,
                         const struct sandbox_spec *spec, int connection, int listener,
                         struct cay_error *err) {
    static struct launcher_request r;
    int fds[2];
    size_t count = 0;
    if (spec->mount_count > SPEC_MOUNTS_MAX)
        return error_set(err, CAY_INVALID_ARGUMENT, "more than %d volumes", SPEC_MOUNTS_MAX);
    r.op = LAUNCHER_START;
    r.fds = 0;
    r.tag = tag;
    r.spec = *spec;
    r.spec.mounts = NULL; /* means nothing elsewhere */
    if (spec->mount_count > 0)
        memcpy(r.mounts, spec->mounts, spec->mount_count * sizeof r.mounts[0]);
    if (connection >= 0) {
        r.fds |= LAUNCHER_CONNECTION;
        fds[count++] = connection;
    }
    if (listener >= 0) {
        r.fds |= LAUNCHER_LISTENER;
        fds[count++] = listener;
    }
    int code = fd_send(c->sock, &r, launcher_request_size(spec->mount_count), fds, count);
    return code < 0 ? error_sys(err, -code, "asking the launcher for a sandbox") : 0;
}

int launcher_client_end(const struct launcher_client *c, uint64_t tag, struct cay_error *err) {
    struct launcher_request r = {.op = LAUNCHER_END, .tag = tag};
    int code = fd_send(c->sock, &r, launcher_request_size(0), NULL, 0);
    return code < 0 ? error_sys(err, -code, "asking the launcher to end a sandbox") : 0;
}

int launcher_client_next(const struct launcher_client *c, struct launcher_answer *ret,
                         struct cay_error *err) {
    ssize_t n;
    do
        n = recv(c->sock, ret, sizeof *ret, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_errno(err, "waiting for the launcher");
    if (n == 0)
        return error_set(err, CAY_UNAVAILABLE, "the launcher has ended");
    if ((size_t)n != sizeof *ret)
        return error_set(err, CAY_INTERNAL, "the launcher sent %zd bytes", n);
    ret->id[ID_SIZE - 1] = '\0';
    if (ret->event == LAUNCHER_FAILED)
        error_sanitize(&ret->err);
    return 0;
}

void launcher_client_stop(struct launcher_client *c) {
    if (c->pid == 0)
        return;
    fd_close(&c->sock);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *c = LAUNCHER_CLIENT_NONE;
}
