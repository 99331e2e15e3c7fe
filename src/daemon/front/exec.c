#include "daemon/front/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "confine/privilege.h"

#define NAME    "cayd-front"
#define PROGRAM "/proc/self/exe" /* the supervisor's own, also after an upgrade of the file */

/* The descriptors that a front is started with. */
enum {
    FD_CONTROL = 3,
    FD_LAUNCHER,
    FD_LOCK,
    FD_ORDERS,
    FD_CONFIG,
    FD_LOCAL,
    FD_TCP, /* the last two may be missing */
    FD_TLS,
    FD_END,
};

struct orders {
    char state_dir[PATH_MAX], socket[PATH_MAX], config_files[PATH_MAX];
    char listen[128], log_level[16], log_format[16], key[ADMIN_KEY_SIZE]; /* "": none */
    enum engine_kind engine;
    bool holds[ENGINE_KINDS];
    bool is_root, is_ours, has_tcp, has_tls;
    uid_t ids;
    struct cay_error no_disk_limits;
    unsigned front_restarts, launcher_restarts;
    pid_t supervisor;
};

/* ---- the supervisor's side ---- */

static int copy(char *to, size_t size, const char *from) {
    return from == NULL ? 0 : str_copy(to, size, from);
}

#define COPY(to, from) copy(to, sizeof(to), from)

static void list_files(const struct config *c, char *text, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < CONFIG_SOURCES && n < size - 1; i++)
        if (c->files[i].path != NULL)
            n += (size_t)snprintf(text + n, size - n, "%s%s", n == 0 ? "" : " ", c->files[i].path);
}

static int fill(struct orders *o, const struct front_options *f, struct cay_error *err) {
    const struct settings *s = f->settings;
    *o = (struct orders){.engine = s->engine,
                         .is_root = s->is_root,
                         .is_ours = f->sockets.is_ours,
                         .has_tcp = f->sockets.tcp >= 0,
                         .has_tls = s->tls.cert != NULL,
                         .ids = s->ids.base,
                         .no_disk_limits = s->no_disk_limits,
                         .front_restarts = f->front_restarts,
                         .launcher_restarts = f->launcher_restarts,
                         .supervisor = f->supervisor};
    memcpy(o->holds, s->holds, sizeof o->holds);
    list_files(s->config, o->config_files, sizeof o->config_files);
    if (COPY(o->state_dir, s->state_dir) < 0 || COPY(o->socket, s->socket) < 0 ||
        COPY(o->listen, s->listen) < 0 || COPY(o->log_level, s->log_level) < 0 ||
        COPY(o->log_format, s->log_format) < 0 || COPY(o->key, s->key) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "an option of the daemon is too long");
    return 0;
}

static int pack(const struct front_options *f, struct cay_error *err) {
    struct orders o;
    int r = fill(&o, f, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = memfd_create("cay-front", MFD_CLOEXEC);
    r = fd < 0 ? -errno : fd_write_all(fd, &o, sizeof o);
    explicit_bzero(o.key, sizeof o.key);
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    return r < 0 ? error_sys(err, -r, "passing the settings on") : TAKE_FD(fd);
}

/* The environment of who started the daemon may hold secrets, and the front needs none of it but
 * what changes how libraries work. */
static void choose_environment(char **ret, size_t max) {
    static const char *const kept[] = {
        "TZ=",   "LANG=", "LC_",   "LD_LIBRARY_PATH=", "ASAN_", "UBSAN_",
        "LSAN_", "TSAN_", "GCOV_", "MALLOC_"};
    size_t n = 0;
    for (char **e = environ; *e != NULL && n < max - 1; e++)
        for (size_t i = 0; i < ARRAY_LEN(kept); i++)
            if (str_starts(*e, kept[i]) && n < max - 1)
                ret[n++] = *e;
    ret[n] = NULL;
}

static int spawn(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes, pid_t *ret) {
    static const int blocked[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    const char *const argv[] = {NAME, NULL};
    char *env[32];
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(blocked); i++)
        (void)sigaddset(&set, blocked[i]); /* until it handles or ignores them */
    (void)posix_spawnattr_setsigmask(attributes, &set);
    (void)posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK);
    choose_environment(env, ARRAY_LEN(env));
    return posix_spawn(ret, PROGRAM, actions, attributes, (char *const *)(uintptr_t)argv, env);
}

/* Puts fds[i] at FD_CONTROL + i, by way of numbers that are in the way of none. */
static int spawn_with(const int *fds, pid_t *ret) {
    int high[FD_END - FD_CONTROL];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int r = posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    for (size_t i = 0; i < ARRAY_LEN(high); i++) {
        high[i] = fds[i] >= 0 ? fcntl(fds[i], F_DUPFD_CLOEXEC, FD_END) : -1;
        if (r == 0 && fds[i] >= 0)
            r = high[i] < 0
                    ? errno
                    : posix_spawn_file_actions_adddup2(&actions, high[i], FD_CONTROL + (int)i);
    }
    if (r == 0)
        r = spawn(&actions, &attributes, ret);
    for (size_t i = 0; i < ARRAY_LEN(high); i++)
        fd_close(&high[i]);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return -r;
}

int front_spawn(const struct front_options *options, int lock, pid_t *ret, struct cay_error *err) {
    const struct settings *s = options->settings;
    _cleanup_(closep) int orders = pack(options, err);
    if (orders < 0)
        return orders;
    _cleanup_(closep) int config = config_pack(s->config, err);
    if (config < 0)
        return config;
    _cleanup_(closep) int tls = s->tls.cert != NULL ? tls_pack(&s->tls, err) : -1;
    if (tls < 0 && s->tls.cert != NULL)
        return tls;
    const int fds[] = {options->control,       options->launcher,    lock, orders, config,
                       options->sockets.local, options->sockets.tcp, tls};
    int r = spawn_with(fds, ret);
    return r < 0 ? error_sys(err, -r, "starting the front") : 0;
}

/* ---- the front's side ---- */

bool front_is_meant(int argc, char **argv) {
    return argc == 1 && str_equal(argv[0], NAME);
}

static const char *text_or_null(const char *text) {
    return text[0] != '\0' ? text : NULL;
}

static int read_settings(const struct orders *o, struct settings *s, struct cay_error *err) {
    *s = (struct settings){.listen = text_or_null(o->listen),
                           .socket = o->socket,
                           .config_files = o->config_files,
                           .log_level = text_or_null(o->log_level),
                           .log_format = text_or_null(o->log_format),
                           .engine = o->engine,
                           .is_root = o->is_root,
                           .ids = {.lock = -1, .base = o->ids},
                           .no_disk_limits = o->no_disk_limits};
    memcpy(s->state_dir, o->state_dir, sizeof s->state_dir);
    memcpy(s->key, o->key, sizeof s->key);
    memcpy(s->holds, o->holds, sizeof s->holds);
    int r = config_unpack(FD_CONFIG, &s->config, err);
    if (r == 0 && o->has_tls)
        r = tls_unpack(FD_TLS, &s->tls, err);
    return r;
}

static bool take_orders(struct orders *o) {
    static const int kept[] = {FD_CONTROL, FD_LAUNCHER, FD_LOCK, FD_LOCAL, FD_TCP};
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (fcntl(kept[i], F_SETFD, FD_CLOEXEC) < 0 && kept[i] != FD_TCP)
            return false;
    return fd_read_all(FD_ORDERS, o, sizeof *o) == 1;
}

int front_main(void) {
    static struct orders orders;
    static struct settings settings;
    struct cay_error err;
    if (!take_orders(&orders)) {
        (void)fputs("cayd-front: it is started by cayd only\n", stderr);
        return 2;
    }
    if (read_settings(&orders, &settings, &err) < 0) {
        (void)fprintf(stderr, "cayd-front: %s\n", err.message);
        return 1;
    }
    (void)close(FD_ORDERS);
    (void)close(FD_CONFIG);
    if (orders.has_tls)
        (void)close(FD_TLS);
    explicit_bzero(orders.key, sizeof orders.key);
    settings_apply_level(settings.log_level, settings.config);
    settings_apply_format(settings.log_format, settings.config);
    const struct front_options options = {
        .settings = &settings,
        .sockets = {.local = FD_LOCAL,
                    .tcp = orders.has_tcp ? FD_TCP : -1,
                    .is_ours = orders.is_ours},
        .control = FD_CONTROL,
        .launcher = FD_LAUNCHER,
        .front_restarts = orders.front_restarts,
        .launcher_restarts = orders.launcher_restarts,
        .supervisor = orders.supervisor,
    };
    return front_run(&options);
}
