/* A thread of the front that looks whether all is well: it pings the engines, measures disks and
 * processes for /healthz and /metrics, and tells the supervisor that the front lives. It never
 * waits for an engine, so that one that hangs is noticed. */
#include <cay.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "api/metrics/vitals.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/path.h"
#include "daemon/front/figures.h"
#include "daemon/front/internal.h"
#include "engine/engines.h"
#include "manager/engines.h"
#include "manager/record/audit.h"

enum {
    ROUND_MS = 2000,
    FIGURES_ROUNDS = 3, /* so does counting descriptors */
    RETAIN_ROUNDS = 5,
};

/* ---- measuring ---- */

static void measure_disks(struct vitals *v) {
    static const struct {
        const char *place, *path;
    } disks[VITALS_DISKS] = {{"state", "."}, {"sandboxes", "../sandboxes"}};
    size_t n = 0;
    for (size_t i = 0; i < VITALS_DISKS; i++) {
        struct statvfs s;
        if (statvfs(disks[i].path, &s) < 0)
            continue; /* a folder that nobody has needed yet */
        v->disks[n++] = (struct vitals_disk){.place = disks[i].place,
                                             .bytes = (uint64_t)s.f_blocks * s.f_frsize,
                                             .free_bytes = (uint64_t)s.f_bavail * s.f_frsize,
                                             .inodes = s.f_files,
                                             .free_inodes = s.f_favail};
    }
}

/* Ours are counted here too: without one left the supervisor cannot even be asked. */
static void measure_own_descriptors(struct vitals *v) {
    struct rlimit limit;
    ssize_t n = path_count_entries("/proc/self/fd");
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || (n < 0 && n != -EMFILE && n != -ENFILE))
        return;
    size_t i = 0;
    while (i < v->process_count && !str_equal(v->processes[i].name, "front"))
        i++;
    if (i == VITALS_PROCESSES)
        return;
    if (i == v->process_count)
        v->processes[v->process_count++] = (struct vitals_process){.name = "front"};
    v->processes[i].fds = n < 0 ? limit.rlim_cur : (uint64_t)n;
    v->processes[i].fds_max = limit.rlim_cur;
}

static void measure(struct front *f, unsigned round) {
    struct front_watch *w = &f->watch;
    w->vitals.at_ms = clock_ms();
    measure_disks(&w->vitals);
    if (round % FIGURES_ROUNDS == 0)
        (void)figures_ask(f->options->control, &w->vitals); /* else as they were */
    measure_own_descriptors(&w->vitals);
    vitals_set(&w->vitals);
}

/* ---- telling ---- */

static void log_change(struct front_watch *w, bool is_ready, const struct cay_error *why) {
    if (is_ready == w->is_ready)
        return;
    w->is_ready = is_ready;
    if (is_ready)
        log_event(LOG_LEVEL_INFO, "ready again", NULL, NULL);
    else
        log_event(LOG_LEVEL_WARN, "not ready", "why", "%s; %s", why->message, why->remedy);
}

/* For systemd's watchdog. What another daemon could do no better is no reason to withhold it: only
 * a launcher that hangs is. */
static void report_alive(struct front *f) {
    struct control_message m = {.op = CONTROL_ALIVE};
    struct manager_engine e;
    manager_engine_look(f->manager, ENGINE_NATIVE, &e);
    if (e.is_used && !e.is_up && e.is_silent)
        return;
    (void)control_send(f->options->control, &m, NULL, 0); /* gone: so are we, soon */
}

/* ---- the audit ---- */

static void retain_audit(struct front *f) {
    struct cay_error err;
    (void)pthread_rwlock_rdlock(&f->config_lock);
    const struct audit_retention keep = {.rows = f->config->manager.audit_rows,
                                         .keep_ms = f->config->manager.audit_keep_ms,
                                         .max_bytes = f->config->manager.audit_size};
    (void)pthread_rwlock_unlock(&f->config_lock);
    bool fails = manager_audit_retain(f->manager, &keep, &err) < 0;
    if (fails && !f->watch.retain_fails)
        log_event(LOG_LEVEL_WARN, "the audit is not sealed", "why", "%s; %s", err.message,
                  err.remedy);
    f->watch.retain_fails = fails;
}

/* ---- the thread ---- */

static void look(struct front *f, unsigned round) {
    struct cay_error err;
    for (enum engine_kind k = ENGINE_UNSAID + 1; k < ENGINE_KINDS; k++)
        if (round % engine_type(k)->ping_rounds == 0)
            manager_ping(f->manager, k);
    measure(f, round);
    report_alive(f);
    if (round % RETAIN_ROUNDS == RETAIN_ROUNDS - 1)
        retain_audit(f);
    log_change(&f->watch, manager_check_ready(f->manager, &err) == 0, &err);
}

/* False when it is time to end. */
static bool pause_for(struct front_watch *w, int64_t ms) {
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_mutex_lock(&w->lock);
    int r = 0;
    while (!w->is_ending && r != ETIMEDOUT)
        r = pthread_cond_timedwait(&w->changed, &w->lock, &until);
    bool goes_on = !w->is_ending;
    (void)pthread_mutex_unlock(&w->lock);
    return goes_on;
}

static void *run(void *arg) {
    struct front *f = arg;
    unsigned round = 0;
    do
        look(f, round++);
    while (pause_for(&f->watch, ROUND_MS));
    return NULL;
}

/* ---- the beginning ---- */

size_t front_count_running(const struct front *f) {
    struct manager_totals t;
    manager_totals(f->manager, NULL, &t);
    return t.by_state[SANDBOX_STARTED] + t.by_state[SANDBOX_PAUSED];
}

void front_log_serving(const struct front *f) {
    const struct settings *s = f->options->settings;
    char adopted[80], socket[PATH_MAX + 16];
    (void)snprintf(adopted, sizeof adopted, "%zu of %zu in %.2f s",
                   MIN(front_count_running(f), f->ran_before), f->ran_before,
                   (double)(clock_ms() - f->began_ms) / 1000);
    (void)snprintf(socket, sizeof socket, "%s%s%s", s->socket[0] == '/' ? "" : s->state_dir,
                   s->socket[0] == '/' ? "" : "/daemon/", s->socket);
    const struct log_field fields[] = {
        {"version", cay_version()},
        {"socket", socket},
        {"listen", s->listen != NULL ? s->listen : "none"},
        {"tls", s->tls.cert != NULL ? "yes" : "no"},
        {"engine", engine_kind_name(s->engine)},
        {"config", s->config_files[0] != '\0' ? s->config_files : "none"},
        {"adopted", adopted},
    };
    log_line(LOG_LEVEL_INFO, "serving", fields, ARRAY_LEN(fields));
}

int front_watch_start(struct front *f, struct cay_error *err) {
    struct front_watch *w = &f->watch;
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->changed, NULL);
    w->is_ready = true;
    int r = pthread_create(&w->thread, NULL, run, f);
    return r == 0 ? 0 : error_sys(err, r, "starting the watcher");
}

void front_watch_stop(struct front *f) {
    struct front_watch *w = &f->watch;
    (void)pthread_mutex_lock(&w->lock);
    w->is_ending = true;
    (void)pthread_cond_signal(&w->changed);
    (void)pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
}
