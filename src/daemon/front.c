#include "daemon/front.h"

#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/builds.h"
#include "api/contexts.h"
#include "api/http.h"
#include "api/images.h"
#include "api/metrics.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "daemon/archives.h"
#include "daemon/control.h"
#include "daemon/describe.h"
#include "daemon/egress.h"
#include "daemon/pulls.h"
#include "engine/native/idrange.h"
#include "engine/native/native_engine.h"
#include "engine/native/seccomp.h"
#include "image/alias.h"
#include "manager/interpreters.h"
#include "manager/manager.h"

enum {
    DRAIN_MS = 10 * 1000,
    ABANDONED_MS = 2 * 1000, /* without a supervisor a new daemon waits for us to go */
    STORE_ANSWER_MAX = 8192,
    ANSWER_MS = 500, /* for the last answers to go out */
};

struct front {
    const struct front_options *options;
    struct manager *manager;
    struct engine *engine, *other; /* the second is started when it is needed */
    struct http *http;
    struct image_ops images;
    struct builds *builds;
    struct contexts *contexts;
    struct interpreters *interpreters;
    struct egress_link egress;
    pthread_rwlock_t config_lock;
    struct config *config; /* what counts now; the first is the settings' */
};

/* ---- giving up privilege ---- */

static void raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* fewer connections then */
}

/* A terminal's Ctrl-C reaches us too; what it means is the supervisor's business. */
static void reset_signals(void) {
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        (void)signal(ignored[i], SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL);
}

static int drop(const struct settings *s, struct cay_error *err) {
    if (s->is_root && (setgroups(0, NULL) < 0 || setresgid(DAEMON_ID, DAEMON_ID, DAEMON_ID) < 0 ||
                       setresuid(DAEMON_ID, DAEMON_ID, DAEMON_ID) < 0))
        return error_errno(err, "becoming user %u", (unsigned)DAEMON_ID);
    int r = seccomp_confine(&(struct seccomp_options){.whose = SECCOMP_FRONT}, err);
    if (r < 0)
        return r;
    char folder[PATH_MAX];
    if (getcwd(folder, sizeof folder) != NULL && access(folder, W_OK | X_OK) < 0) {
        (void)error_errno(err, "reaching %s as user %u", folder, (unsigned)geteuid());
        return error_remedy(err, "let others pass through the folders above it (chmod o+x), or "
                                 "name another with --state-dir");
    }
    return 0;
}

/* ---- the manager ---- */

static int ensure(void *user, const struct image_wish *wish, char id[static HEX_SIZE],
                  struct cay_error *err) {
    struct front *f = user;
    struct image_wish meant = *wish;
    char other[REFERENCE_TEXT_SIZE];
    if (builds_is_name(wish->name))
        return builds_run(f->builds, wish->name, wish->cancel_fd, id, err);
    (void)pthread_rwlock_rdlock(&f->config_lock);
    int r = image_alias(&f->config->images.aliases, wish->name, other, err);
    (void)pthread_rwlock_unlock(&f->config_lock);
    if (r == 1)
        meant.name = other;
    return r < 0 ? r : pulls_ask(f->options->control, &meant, id, err);
}

/* The same for nobody in particular. */
static int ensure_for(struct front *f, const char *name, enum engine_kind engine,
                      char id[static HEX_SIZE], struct cay_error *err) {
    struct image_wish wish = {.name = name, .engine = engine, .progress_fd = -1, .cancel_fd = -1};
    return ensure(f, &wish, id, err);
}

static int describe(void *user, struct sandbox_record *r, struct cay_error *err) {
    struct front *f = user;
    int e = r->image[0] == '\0' ? 0 : describe_ask(f->options->control, r, err);
    if (e < 0 || r->work_dir[0] != '\0')
        return e;
    (void)pthread_rwlock_rdlock(&f->config_lock);
    e = str_copy(r->work_dir, sizeof r->work_dir, f->config->sandbox.work_dir);
    (void)pthread_rwlock_unlock(&f->config_lock);
    return e < 0 ? error_set(err, CAY_INVALID_ARGUMENT, "[sandbox] work_dir is too long") : 0;
}

static int write_archive(void *user, const struct sandbox_record *r, int progress,
                         uint64_t *ret_bytes, struct cay_error *err) {
    const struct front *f = user;
    return archives_ask_write(f->options->control, r, progress, ret_bytes, err);
}

static int restore_archive(void *user, const struct sandbox_record *r, int progress,
                           struct cay_error *err) {
    const struct front *f = user;
    bool ignored;
    return archives_ask_restore(f->options->control, ARCHIVE_WHOLE, r, progress, &ignored, err);
}

static int remove_archive(void *user, const char *id, struct cay_error *err) {
    const struct front *f = user;
    return archives_ask_remove(f->options->control, ARCHIVE_WHOLE, id, false, err);
}

static int write_backup(void *user, const struct sandbox_record *r, uint64_t max_bytes,
                        uint64_t *ret_bytes, struct cay_error *err) {
    const struct front *f = user;
    return archives_ask_backup(f->options->control, r, max_bytes, ret_bytes, err);
}

static int restore_backup(void *user, const struct sandbox_record *r, int progress, bool *ret,
                          struct cay_error *err) {
    const struct front *f = user;
    return archives_ask_restore(f->options->control, ARCHIVE_BACKUP, r, progress, ret, err);
}

static int end_backup(void *user, const char *id, struct cay_error *err) {
    const struct front *f = user;
    return archives_ask_remove(f->options->control, ARCHIVE_BACKUP, id, true, err);
}

static int remove_backup(void *user, const char *id, struct cay_error *err) {
    const struct front *f = user;
    return archives_ask_remove(f->options->control, ARCHIVE_BACKUP, id, false, err);
}

static const struct archive_ops archives = {.write = write_archive,
                                            .restore = restore_archive,
                                            .remove = remove_archive,
                                            .backup = write_backup,
                                            .restore_backup = restore_backup,
                                            .end_backup = end_backup,
                                            .remove_backup = remove_backup};

static int set_network(void *user, const char *id, const char *network, int door,
                       struct cay_error *err) {
    struct front *f = user;
    return egress_link_set(&f->egress, id, network, door, err);
}

static void drop_network(void *user, const char *id) {
    struct front *f = user;
    egress_link_drop(&f->egress, id);
}

static void proxy_lost(void *user) {
    const struct front *f = user;
    manager_network_again(f->manager);
}

static const struct network_ops networks = {.set = set_network, .drop = drop_network};

/* ---- images for clients ---- */

static int ask_store(const struct front *f, enum store_verb verb, const char *name,
                     const char *other, struct buf *text, struct cay_error *err) {
    struct control_message m = {.op = CONTROL_STORE, .number = verb};
    if (str_copy(m.name, sizeof m.name, name) < 0 || str_copy(m.other, sizeof m.other, other) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the image's name is too long");
    return pulls_ask_store(f->options->control, &m, text, err);
}

static int change_store(const struct front *f, enum store_verb verb, const char *name,
                        const char *other, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(STORE_ANSWER_MAX);
    return ask_store(f, verb, name, other, &text, err);
}

static int list_images(void *user, struct buf *text, struct cay_error *err) {
    return ask_store(user, STORE_LIST, "", "", text, err);
}

static int name_image(void *user, const char *image, const char *name, struct cay_error *err) {
    char id[HEX_SIZE];
    int r = ensure_for(user, image, ENGINE_NATIVE, id, err);
    return r < 0 ? r : change_store(user, STORE_NAME, id, name, err);
}

static int unname_image(void *user, const char *name, struct cay_error *err) {
    return change_store(user, STORE_UNNAME, name, "", err);
}

static int keep_sandbox(void *user, const char *sandbox, const char *name, struct cay_error *err) {
    struct sandbox_record r;
    const struct front *f = user;
    int e = manager_get(f->manager, sandbox, &r, err);
    if (e < 0)
        return e;
    char image[HEX_SIZE];
    bool is_native = r.engine == ENGINE_NATIVE;
    e = is_native ? 0 : manager_snapshot(f->manager, &r, image, err);
    sandbox_record_free(&r);
    if (e < 0)
        return e;
    return is_native ? change_store(f, STORE_KEEP, sandbox, name, err)
                     : change_store(f, STORE_NAME, image, name, err);
}

static int build_image(void *user, const struct image_build_order *order, char id[static HEX_SIZE],
                       struct cay_error *err) {
    struct front *f = user;
    (void)pthread_rwlock_rdlock(&f->config_lock);
    int64_t timeout_ms = f->config->images.build_timeout_ms;
    (void)pthread_rwlock_unlock(&f->config_lock);
    return pulls_ask_build(f->options->control, order, timeout_ms, id, err);
}

/* The most that the native engine gives whoever runs the daemon. */
static enum tier best_tier(const struct settings *s) {
    return s->is_root ? TIER_FULL : TIER_ROOTLESS;
}

/* The work folder is left open: the image has a say before the configuration. So is the tier, if
 * the engine is to decide. */
static int fill_defaults(const struct config *c, struct sandbox_record *ret,
                         struct cay_error *err) {
    if (str_copy(ret->image_name, sizeof ret->image_name, c->sandbox.image) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "[sandbox] image is too long");
    if (str_copy(ret->network, sizeof ret->network, config_network(c)) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "[sandbox] network is too long");
    ret->memory_bytes = c->sandbox.memory;
    ret->disk_bytes = c->sandbox.disk;
    ret->cpu_quota_us = (uint32_t)(c->sandbox.cpus * 100000);
    ret->pids = (uint32_t)c->sandbox.pids;
    ret->tier = str_equal(c->sandbox.tier, "auto") ? TIER_NONE : tier_from_name(c->sandbox.tier);
    ret->auto_stop_minutes = c->manager.auto_stop_minutes;
    ret->auto_archive_minutes = c->manager.auto_archive_minutes;
    ret->auto_delete_minutes = c->manager.auto_delete_minutes;
    ret->on_failure = on_failure_from_name(c->manager.on_failure);
    return 0;
}

static enum network_reach reach_of(const char *name) {
    return str_equal(name, "none")     ? NETWORK_REACH_NONE
           : str_equal(name, "public") ? NETWORK_REACH_PUBLIC
                                       : NETWORK_REACH_PRIVATE;
}

static struct manager_limits limits_of(const struct config *c) {
    return (struct manager_limits){.max_sandboxes = c->manager.max_sandboxes,
                                   .idle_timeout_ms = c->manager.idle_timeout_ms,
                                   .network_max = reach_of(c->manager.network_max),
                                   .cleanup_interval_ms = c->manager.cleanup_interval_ms,
                                   .stop_grace_ms = c->manager.stop_timeout_ms,
                                   .sample_interval_ms = c->manager.sample_interval_ms,
                                   .warn_after_ms = c->manager.warn_after_ms};
}

static int set_pool(struct front *f, const struct config *c, struct cay_error *err) {
    return manager_set_pool(f->manager, (size_t)c->manager.pool_size, &c->manager.pool_images, err);
}

/* When a state folder had one engine, what lay in it told which. */
static enum engine_kind unmarked(const struct settings *s) {
    if (s->holds[ENGINE_NATIVE] != s->holds[ENGINE_DOCKER])
        return s->holds[ENGINE_NATIVE] ? ENGINE_NATIVE : ENGINE_DOCKER;
    return s->engine;
}

static enum engine_kind other_kind(const struct front *f) {
    return f->options->settings->engine == ENGINE_NATIVE ? ENGINE_DOCKER : ENGINE_NATIVE;
}

/* The supervisor starts it; if it cannot, the socket is closed, and the log says why. */
static int connect_other(void *user, struct cay_error *err) {
    struct front *f = user;
    struct control_message m = {.op = CONTROL_ENGINE, .number = other_kind(f)};
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the socket of an engine");
    int r = control_send(f->options->control, &m, &pair[1], 1);
    (void)close(pair[1]);
    if (r == 0)
        return pair[0];
    (void)close(pair[0]);
    return error_sys(err, -r, "asking for an engine");
}

static int add_other(struct front *f, struct cay_error *err) {
    const struct native_engine_source source = {connect_other, f};
    int r = native_engine_open_later(&source, manager_ended, f->manager, &f->other, err);
    if (r == 0)
        manager_add_engine(f->manager, other_kind(f), f->other);
    return r;
}

static int start_manager(struct front *f, struct cay_error *err) {
    const struct settings *s = f->options->settings;
    struct manager_options options = {
        .folder = ".",
        .limits = limits_of(f->config),
        .ensure = ensure,
        .describe = describe,
        .archives = &archives,
        .network = &networks,
        .user = f,
        .no_disk_limits = s->no_disk_limits,
        .engine = s->engine,
        .unmarked = unmarked(s),
        .best_tier = best_tier(s),
    };
    memcpy(options.has_left, s->holds, sizeof options.has_left);
    egress_link_init(&f->egress, f->options->control, proxy_lost, f);
    if (options.no_disk_limits.code != CAY_OK && s->engine == ENGINE_NATIVE)
        log_event(LOG_LEVEL_WARN, "sandboxes have no disk limit", "why", "%s; %s",
                  options.no_disk_limits.message, options.no_disk_limits.remedy);
    int r = fill_defaults(f->config, &options.defaults, err);
    if (r == 0)
        r = manager_open(&options, &f->manager, err);
    if (r == 0)
        r = set_pool(f, f->config, err);
    if (r == 0)
        r = native_engine_open(f->options->launcher, manager_ended, f->manager, &f->engine, err);
    if (r == 0)
        r = add_other(f, err);
    return r < 0 ? r : manager_start(f->manager, f->engine, err);
}

static int set_interpreters(struct front *f, const struct config *c, struct cay_error *err) {
    const struct settings *s = f->options->settings;
    struct sandbox_record defaults = {0};
    int r = fill_defaults(c, &defaults, err);
    const struct interpreters_rules rules = {
        .warm = c->python.warm,
        .preload = &c->python.preload,
        .waiting = (size_t)c->python.waiting,
        .spec = {.memory_bytes = defaults.memory_bytes,
                 .cpu_quota_us = defaults.cpu_quota_us,
                 .pids = defaults.pids,
                 .tier = defaults.tier != TIER_NONE ? defaults.tier : best_tier(s)},
        .work_dir = c->sandbox.work_dir,
        .index_url = c->python.index_url,
        .find_links = c->python.find_links,
    };
    return r < 0 ? r : interpreters_set_rules(f->interpreters, &rules, err);
}

static int start_interpreters(struct front *f, struct cay_error *err) {
    const struct interpreters_options options = {
        .engine = f->engine,
        .has_once = f->options->settings->is_root && f->options->settings->engine == ENGINE_NATIVE,
        .describe = describe,
        .network = &networks,
        .user = f};
    int r = interpreters_new(&options, &f->interpreters, err);
    return r < 0 ? r : set_interpreters(f, f->config, err);
}

static struct http_rules rules_of(const struct config *c) {
    return (struct http_rules){.hosts = &c->server.allowed_hosts,
                               .origins = &c->server.allowed_origins,
                               .metrics_public = c->server.metrics_public,
                               .client_timeout_ms = c->server.client_timeout_ms,
                               .public_url = c->server.public_url};
}

static int start_http(struct front *f, struct cay_error *err) {
    const struct settings *s = f->options->settings;
    struct http_options options = {
        .manager = f->manager,
        .unix_socket = f->options->sockets.local,
        .tcp_socket = f->options->sockets.tcp,
        .owner = s->is_root ? 0 : getuid(),
        .key = s->key,
        .rules = rules_of(f->config),
        .tls = &s->tls,
        .images = &f->images,
        .builds = f->builds,
        .contexts = f->contexts,
        .interpreters = f->interpreters,
    };
    return http_start(&options, &f->http, err);
}

struct fetching {
    struct front *front;
    struct strv names;
};

static void fetching_free(struct fetching *a) {
    strv_free(&a->names);
    free(a);
}

/* Images that shall be there before anybody asks for them, one after the other. */
static void *fetch_ahead(void *user) {
    struct fetching *a = user;
    for (size_t i = 0; i < a->names.len; i++) {
        struct cay_error err;
        char id[HEX_SIZE];
        if (ensure_for(a->front, a->names.v[i], a->front->options->settings->engine, id, &err) == 0)
            log_event(LOG_LEVEL_INFO, "image is ready", "image", "%s", a->names.v[i]);
        else
            log_event(LOG_LEVEL_WARN, "image could not be fetched", "why", "%s; %s", err.message,
                      err.remedy);
    }
    fetching_free(a);
    return NULL;
}

static int start_fetching(struct front *f, const struct strv *names, struct cay_error *err) {
    pthread_t thread;
    if (names->len == 0)
        return 0;
    struct fetching *a = calloc(1, sizeof *a);
    int r = a == NULL ? ENOMEM : 0;
    for (size_t i = 0; r == 0 && i < names->len; i++)
        r = -strv_push(&a->names, names->v[i]);
    if (r == 0) {
        a->front = f;
        r = pthread_create(&thread, NULL, fetch_ahead, a);
    }
    if (r == 0)
        return -pthread_detach(thread);
    if (a != NULL)
        fetching_free(a);
    return error_sys(err, r, "starting to fetch images ahead");
}

/* Until it serves, a front ends with its supervisor: the next daemon would wait for it, and there
 * is nothing to finish. */
static int tie_to(pid_t supervisor, struct cay_error *err) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return error_errno(err, "tying the front to its supervisor");
    return getppid() == supervisor ? 0 : error_set(err, CAY_UNAVAILABLE, "the supervisor ended");
}

static int start(struct front *f, struct cay_error *err) {
    raise_descriptor_limit();
    int r = drop(f->options->settings, err);
    if (r == 0)
        r = tie_to(f->options->supervisor, err); /* changing ids would untie it */
    f->images =
        (struct image_ops){list_images, name_image, unname_image, keep_sandbox, build_image, f};
    if (r == 0)
        r = builds_new(&f->images, &f->builds, err);
    if (r == 0)
        r = builds_keep(f->builds, "builds", err);
    if (r == 0)
        r = contexts_open("contexts", &f->contexts, err);
    if (r == 0)
        r = start_manager(f, err);
    if (r == 0)
        r = start_interpreters(f, err);
    if (r == 0)
        r = start_http(f, err);
    return r < 0 ? r : start_fetching(f, &f->config->images.prepull, err);
}

/* ---- serving ---- */

/* A negative result ends the front: the supervisor starts anew. */
static int take_launcher(struct front *f, int sock) {
    struct cay_error err;
    if (sock < 0)
        return -EPROTO;
    int r = native_engine_reconnect(f->engine, sock, &err);
    metrics_count(METRICS_LAUNCHER_RESTARTS, 1);
    if (r < 0)
        log_event(LOG_LEVEL_ERROR, "the new launcher is of no use", "why", "%s", err.message);
    return r;
}

static void use_config(struct front *f, struct config *config) {
    (void)pthread_rwlock_wrlock(&f->config_lock);
    struct config *before = f->config;
    f->config = config;
    (void)pthread_rwlock_unlock(&f->config_lock);
    if (before != f->options->settings->config)
        config_free(before);
    settings_apply_level(f->options->settings->log_level, config);
}

/* What may be refused comes first: then everything stays as it was. */
static int apply(struct front *f, const struct config *c, struct tls *tls, struct cay_error *err) {
    struct sandbox_record defaults = {0};
    struct manager_limits limits = limits_of(c);
    struct http_rules rules = rules_of(c);
    int r = fill_defaults(c, &defaults, err);
    if (r == 0)
        r = http_set_tls(f->http, tls, err);
    if (r == 0)
        r = http_set_rules(f->http, &rules, err);
    if (r == 0)
        r = manager_configure(f->manager, &limits, &defaults, err);
    if (r == 0)
        r = set_interpreters(f, c, err);
    return r < 0 ? r : set_pool(f, c, err);
}

static int take_config(struct front *f, const int *fds, struct cay_error *err) {
    _cleanup_(config_freep) struct config *c = NULL;
    struct tls tls = {0};
    struct cay_error late;
    int r = config_unpack(fds[0], &c, err);
    if (r == 0 && fds[1] >= 0)
        r = tls_unpack(fds[1], &tls, err);
    if (r == 0)
        r = apply(f, c, &tls, err);
    tls_free(&tls);
    if (r < 0)
        return r;
    if (start_fetching(f, &c->images.prepull, &late) < 0)
        log_event(LOG_LEVEL_WARN, "images are not fetched ahead", "why", "%s", late.message);
    use_config(f, TAKE_PTR(c));
    return 0;
}

/* Without a descriptor: the supervisor could not read it, which is counted here. */
static void take_reload(struct front *f, const struct control_message *m, const int *fds) {
    struct control_message answer = {.op = CONTROL_RELOADED, .number = m->number};
    int r = fds[0] < 0 ? -CAY_INVALID_ARGUMENT : take_config(f, fds, &answer.err);
    if (r < 0)
        answer.op = CONTROL_REFUSED;
    metrics_count(r < 0 ? METRICS_RELOAD_FAILURES : METRICS_RELOADS, 1);
    if (fds[0] >= 0)
        (void)control_send(f->options->control, &answer, NULL, 0); /* gone: the next receive says */
}

/* Until it is time to finish; returns how long that may take. */
static int64_t serve(struct front *f) {
    for (;;) {
        struct control_message m;
        int fds[CONTROL_FDS_MAX];
        int r = control_receive(f->options->control, &m, fds);
        if (r == -EINTR)
            continue;
        if (r <= 0)
            return ABANDONED_MS;
        if (m.op == CONTROL_LAUNCHER) {
            if (take_launcher(f, TAKE_FD(fds[0])) < 0)
                return 0;
        }
        if (m.op == CONTROL_RELOAD)
            take_reload(f, &m, fds);
        for (size_t i = 0; i < CONTROL_FDS_MAX; i++)
            fd_close(&fds[i]);
        if (m.op == CONTROL_DRAIN)
            return DRAIN_MS;
    }
}

/* Requests that do not end in time are cut off: what was promised is on disk. */
static void finish(struct front *f, int64_t wait_ms) {
    int64_t deadline = clock_ms() + wait_ms;
    http_close_doors(f->http);
    manager_drain(f->manager, wait_ms);
    if (!http_wait(f->http, MAX(deadline - clock_ms(), (int64_t)ANSWER_MS)))
        return;
    interpreters_free(f->interpreters);
    f->engine->ops->close(f->engine);
    f->other->ops->close(f->other);
    manager_close(f->manager, ANSWER_MS);
}

int front_run(const struct front_options *options) {
    struct front f = {.options = options, .config = options->settings->config};
    struct control_message m = {.op = CONTROL_READY};
    (void)prctl(PR_SET_NAME, "cayd-front", 0, 0, 0);
    reset_signals();
    (void)pthread_rwlock_init(&f.config_lock, NULL);
    metrics_count(METRICS_FRONT_RESTARTS, options->front_restarts);
    metrics_count(METRICS_LAUNCHER_RESTARTS, options->launcher_restarts);
    int r = start(&f, &m.err);
    if (r < 0)
        m.op = CONTROL_FAILED;
    if (control_send(options->control, &m, NULL, 0) < 0 || r < 0)
        return 1;
    (void)prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    finish(&f, serve(&f));
    return 0;
}
