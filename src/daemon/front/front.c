#include "daemon/front/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/build/builds.h"
#include "api/build/contexts.h"
#include "api/metrics/metrics.h"
#include "api/shape/shape.h"
#include "api/toolbox/outputs.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "confine/landlock.h"
#include "confine/privilege.h"
#include "confine/seccomp.h"
#include "engine/engines.h"
#include "engine/link/client.h"
#include "engine/spec.h"
#include "manager/access/retire.h"

enum {
    DRAIN_MS = 10 * 1000,
    ABANDONED_MS = 2 * 1000, /* without a supervisor a new daemon waits for us to go */
    CHANGES_MS = 2 * 1000,   /* of DRAIN_MS, for what waits in the manager to be given up */
    ANSWER_MS = 500,         /* for the last answers to go out */
    LINGER_MS = 1000,        /* for clients to come and be told to try again */
    LOOK_US = 20 * 1000,
};

/* ---- giving up privilege ---- */

static void raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* fewer connections then */
}

/* Of a front that is retired: a key was removed. */
static volatile sig_atomic_t wants_cut;

static void on_cut(int number) {
    (void)number;
    wants_cut = 1;
}

/* A terminal's Ctrl-C reaches us too; what it means is the supervisor's business. */
static void reset_signals(void) {
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR2};
    const struct sigaction cut = {.sa_handler = on_cut, .sa_flags = SA_RESTART};
    (void)sigaction(SIGUSR1, &cut, NULL);
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        (void)signal(ignored[i], SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL);
    privilege_unblock_signals(); /* the supervisor blocks them for the time until here */
}

/* The folder `daemon`, this process in /proc, and random numbers for SQLite. */
static int restrict_files(struct front *f, struct cay_error *err) {
    int abi = landlock_abi();
    if (abi == 0)
        return 0;
    /* Stays open: the rule is about this inode, and the kernel would make another one. */
    f->proc = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closep) int folder = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closep) int random = open("/dev/urandom", O_PATH | O_CLOEXEC);
    const struct landlock_place places[] = {
        {folder, LANDLOCK_CHANGE}, {f->proc, LANDLOCK_LIST}, {random, LANDLOCK_READ}};
    int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
                ? -errno
                : landlock_restrict_to(abi, places, ARRAY_LEN(places));
    return r < 0 ? error_sys(err, -r, "applying Landlock to the front") : 0;
}

static int drop(struct front *f, struct cay_error *err) {
    const struct settings *s = f->options->settings;
    uid_t id = role_id(&s->ids, ROLE_FRONT);
    int r = s->is_root ? privilege_set_ids(id, id, true) : 0;
    if (r < 0)
        return error_sys(err, -r, "becoming user %u", (unsigned)id);
    r = privilege_clear_capabilities();
    if (r < 0)
        return error_sys(err, -r, "giving up capabilities");
    r = restrict_files(f, err);
    if (r < 0)
        return r;
    r = seccomp_confine(&(struct seccomp_options){.whose = SECCOMP_FRONT}, err);
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

/* Those before us may serve connections of it. */
static void key_gone(void *user) {
    const struct front *f = user;
    const struct control_message m = {.op = CONTROL_KEY_GONE};
    int r = control_send(f->options->control, &m, NULL, 0);
    if (r < 0)
        log_event(LOG_LEVEL_WARN, "connections of a removed key may go on", "errno", "%d", -r);
}

/* The supervisor starts it; if it cannot, the socket is closed, and the log says why. */
static int connect_other(void *user, struct cay_error *err) {
    const struct front_engine *other = user;
    struct control_message m = {.op = CONTROL_ENGINE, .number = other->kind};
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the socket of an engine");
    int r = control_send(other->front->options->control, &m, &pair[1], 1);
    (void)close(pair[1]);
    if (r == 0)
        return pair[0];
    (void)close(pair[0]);
    return error_sys(err, -r, "asking for an engine");
}

static int add_others(struct front *f, struct cay_error *err) {
    for (enum engine_kind k = ENGINE_UNSAID + 1; k < ENGINE_KINDS; k++) {
        if (k == f->options->settings->engine)
            continue;
        struct front_engine *other = &f->others[k];
        *other = (struct front_engine){.front = f, .kind = k};
        const struct link_source source = {connect_other, other};
        int r = link_open_later(&source, manager_ended, f->manager, &other->engine, err);
        if (r < 0)
            return r;
        manager_add_engine(f->manager, k, other->engine);
    }
    return 0;
}

static int start_manager(struct front *f, struct cay_error *err) {
    const struct settings *s = f->options->settings;
    struct manager_options options = {
        .folder = ".",
        .limits = front_limits(f->config),
        .ensure = front_ensure,
        .describe = front_describe,
        .archives = &front_archives,
        .network = &front_networks,
        .key_gone = key_gone,
        .user = f,
        .no_disk_limits = s->no_disk_limits,
        .engine = s->engine,
    };
    for (enum engine_kind k = ENGINE_UNSAID + 1; k < ENGINE_KINDS; k++)
        options.best_tier[k] = engine_type(k)->best_tier(s->is_root, f->config->engine);
    memcpy(options.has_left, s->holds, sizeof options.has_left);
    egress_link_init(&f->egress, f->options->control, &front_proxy_news, f);
    if (options.no_disk_limits.code != CAY_OK && s->engine == ENGINE_NATIVE)
        log_event(LOG_LEVEL_WARN, "sandboxes have no disk limit", "why", "%s; %s",
                  options.no_disk_limits.message, options.no_disk_limits.remedy);
    int r = front_defaults(f->config, &options.defaults, err);
    if (r == 0)
        r = manager_open(&options, &f->manager, err);
    if (r == 0) {
        f->ran_before = front_count_running(f);
        r = front_set_pool(f, f->config, err);
    }
    if (r == 0)
        r = link_open(f->options->launcher, manager_ended, f->manager, &f->engine, err);
    if (r == 0)
        r = add_others(f, err);
    if (r == 0)
        shape_use_engine(s->engine == ENGINE_NATIVE ? f->engine : f->others[ENGINE_NATIVE].engine);
    return r < 0 ? r : manager_start(f->manager, f->engine, err);
}

static int start_interpreters(struct front *f, struct cay_error *err) {
    const struct interpreters_options options = {
        .engine = f->engine,
        .has_once = f->options->settings->is_root &&
                    engine_can(f->options->settings->engine, ENGINE_HAS_ONCE),
        .describe = front_describe,
        .network = &front_networks,
        .user = f};
    int r = interpreters_new(&options, &f->interpreters, err);
    return r < 0 ? r : front_set_interpreters(f, f->config, err);
}

/* Where throw-away sandboxes can be had at all. What cannot be prepared is made by the clients. */
static void start_lender(struct front *f) {
    const struct settings *s = f->options->settings;
    struct cay_error err;
    const struct lender_options options = {.engine = f->engine,
                                           .interpreters = f->interpreters,
                                           .place = f->place,
                                           .owner = s->is_root ? 0 : getuid()};
    if (!s->is_root || !engine_can(s->engine, ENGINE_HAS_ONCE) || f->place.mount_ns == 0)
        return;
    if (lender_open(&options, &f->lender, &err) < 0)
        log_event(LOG_LEVEL_WARN, "no sandboxes are prepared for cay run", "why", "%s",
                  err.message);
}

static int start_http(struct front *f, struct cay_error *err) {
    const struct settings *s = f->options->settings;
    struct http_options options = {
        .manager = f->manager,
        .unix_socket = f->options->sockets.local,
        .tcp_socket = f->options->sockets.tcp,
        .owner = s->is_root ? 0 : getuid(),
        .key = s->key,
        .rules = front_rules(f->config),
        .tls = &s->tls,
        .images = &f->images,
        .builds = f->builds,
        .contexts = f->contexts,
        .outputs = f->outputs,
        .interpreters = f->interpreters,
        .lender = f->lender,
    };
    return http_start(&options, &f->http, err);
}

/* Until it serves, a front ends with its supervisor: the next daemon would wait for it, and there
 * is nothing to finish. */
static int tie_to(pid_t supervisor, struct cay_error *err) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return error_errno(err, "tying the front to its supervisor");
    return getppid() == supervisor ? 0 : error_set(err, CAY_UNAVAILABLE, "the supervisor ended");
}

static int start(struct front *f, struct cay_error *err) {
    const struct outputs_rules rules = front_outputs_rules(f);
    raise_descriptor_limit();
    /* While there is one thread; without /proc there are no prepared sandboxes. */
    (void)prepared_look_around(&f->place, err);
    struct spec_host host; /* Landlock closes /proc/sys: what is read here stays known */
    int r = spec_look_up_host(&host, err);
    if (r == 0)
        r = drop(f, err);
    if (r == 0)
        r = tie_to(f->options->supervisor, err); /* changing ids would untie it */
    f->images = front_image_ops(f);
    if (r == 0)
        r = builds_new(&f->images, &f->builds, err);
    if (r == 0)
        r = builds_keep(f->builds, "builds", err);
    if (r == 0)
        r = contexts_open("contexts", &f->contexts, err);
    if (r == 0)
        r = outputs_open("outputs", &rules, &f->outputs, err);
    if (r == 0)
        r = start_manager(f, err);
    if (r == 0)
        front_store_begin(f);
    if (r == 0)
        r = start_interpreters(f, err);
    if (r == 0)
        start_lender(f);
    if (r == 0)
        r = front_watch_start(f, err);
    if (r == 0)
        r = start_http(f, err);
    return r < 0 ? r : front_fetch_ahead(f, &f->config->images.prepull, err);
}

/* ---- serving ---- */

/* A negative result ends the front: the supervisor starts anew. */
static int take_launcher(struct front *f, int sock) {
    struct cay_error err;
    if (sock < 0)
        return -EPROTO;
    int r = link_reconnect(f->engine, sock, &err);
    metrics_count(METRICS_LAUNCHER_RESTARTS, 1);
    if (r < 0)
        log_event(LOG_LEVEL_ERROR, "the new launcher is of no use", "why", "%s", err.message);
    return r;
}

/* How to finish. */
struct end {
    int64_t wait_ms; /* for what is under way */
    enum drain_how how;
};

/* Until it is time to finish. */
static struct end serve(struct front *f) {
    for (;;) {
        struct control_message m;
        int fds[CONTROL_FDS_MAX];
        int r = control_receive(f->options->control, &m, fds);
        if (r == -EINTR)
            continue;
        if (r <= 0)
            return (struct end){.wait_ms = ABANDONED_MS};
        if (m.op == CONTROL_LAUNCHER) {
            if (take_launcher(f, TAKE_FD(fds[0])) < 0)
                return (struct end){.how = DRAIN_LEAVE}; /* to the next front */
        }
        if (m.op == CONTROL_RELOAD)
            front_take_reload(f, &m, fds);
        for (size_t i = 0; i < CONTROL_FDS_MAX; i++)
            fd_close(&fds[i]);
        if (m.op == CONTROL_DRAIN)
            return (struct end){.wait_ms = DRAIN_MS, .how = (enum drain_how)m.number};
    }
}

/* A retired front has no manager that could tell of whom a connection is that lasts. */
static void serve_to_the_end(struct front *f) {
    (void)prctl(PR_SET_NAME, "cayd-retired", 0, 0, 0);
    if (tie_to(f->options->supervisor, NULL) < 0)
        return;
    while (!http_is_left(f->http)) {
        if (wants_cut) {
            wants_cut = 0;
            manager_key_end_uses(f->manager);
        }
        manager_key_end_expired(f->manager);
        (void)usleep(LOOK_US);
    }
}

/* Everything that the next front needs is let go of: database, launcher, threads of the manager.
 * Connections that became something else need none of it; they and those that are idle are served
 * to their ends, by a process that does nothing else any more. */
static void hand_over(struct front *f, int64_t deadline) {
    const struct control_message m = {.op = CONTROL_RELEASED};
    front_watch_stop(f);
    lender_close(f->lender, MAX(deadline - CHANGES_MS - clock_ms(), (int64_t)0));
    interpreters_close(f->interpreters);
    bool is_quiet = manager_retire(f->manager, MAX(deadline - clock_ms(), (int64_t)0));
    if (!is_quiet) /* requests are cut off, and the end of this process lets go of everything */
        return;
    link_hang_up(f->engine);
    for (size_t k = 0; k < ENGINE_KINDS; k++)
        if (f->others[k].engine != NULL)
            link_hang_up(f->others[k].engine);
    manager_release_database(f->manager);
    if (control_send(f->options->control, &m, NULL, 0) == 0)
        serve_to_the_end(f);
}

static void log_end(struct front *f, unsigned requests, int64_t began_ms) {
    char had[16], left[16], refused[16], ms[32];
    (void)snprintf(had, sizeof had, "%u", requests);
    (void)snprintf(left, sizeof left, "%u", http_under_way(f->http));
    (void)snprintf(refused, sizeof refused, "%u", http_turned_away(f->http));
    (void)snprintf(ms, sizeof ms, "%lld", (long long)(clock_ms() - began_ms));
    const struct log_field fields[] = {
        {"requests", had}, {"unfinished", left}, {"refused", refused}, {"ms", ms}};
    log_line(LOG_LEVEL_INFO, "serving ended", fields, ARRAY_LEN(fields));
}

/* Requests that do not end in time are cut off: what was promised is on disk. Nothing is freed
 * then, since they may use it until the process has ended. */
static void finish(struct front *f, struct end end) {
    int64_t began = clock_ms(), deadline = began + end.wait_ms;
    unsigned requests = http_drain(f->http, end.how != DRAIN_STOP);
    lender_stop(f->lender);
    (void)http_settle(f->http, MAX(end.wait_ms - CHANGES_MS, (int64_t)0));
    if (end.how == DRAIN_HAND_OVER) {
        log_end(f, requests, began);
        hand_over(f, deadline);
        return;
    }
    http_end_runs();
    front_watch_stop(f);
    manager_drain(f->manager, MAX(deadline - clock_ms(), (int64_t)0));
    bool is_unused = http_wait(f->http, MAX(deadline - clock_ms(), (int64_t)ANSWER_MS));
    log_end(f, requests, began);
    if (!is_unused)
        return;
    lender_close(f->lender, deadline - clock_ms());
    interpreters_free(f->interpreters);
    f->engine->ops->close(f->engine);
    for (size_t k = 0; k < ENGINE_KINDS; k++)
        if (f->others[k].engine != NULL)
            f->others[k].engine->ops->close(f->others[k].engine);
    front_budget_end(f);
    manager_close(f->manager, ANSWER_MS);
    (void)http_linger(f->http, LINGER_MS);
}

int front_run(const struct front_options *options) {
    struct front f = {.options = options,
                      .config = options->settings->config,
                      .began_ms = clock_ms(),
                      .proc = -1};
    struct control_message m = {.op = CONTROL_READY};
    (void)prctl(PR_SET_NAME, "cayd-front", 0, 0, 0);
    reset_signals();
    (void)pthread_rwlock_init(&f.config_lock, NULL);
    (void)pthread_mutex_init(&f.budget_lock, NULL);
    (void)pthread_mutex_init(&f.store_lock, NULL);
    metrics_count(METRICS_FRONT_RESTARTS, options->front_restarts);
    metrics_count(METRICS_LAUNCHER_RESTARTS, options->launcher_restarts);
    int r = start(&f, &m.err);
    if (r < 0)
        m.op = CONTROL_FAILED;
    else
        front_log_serving(&f);
    if (control_send(options->control, &m, NULL, 0) < 0 || r < 0)
        return 1;
    (void)prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    finish(&f, serve(&f));
    return 0;
}
