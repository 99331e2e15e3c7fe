#include "api/metrics/page.h"

#include <cay.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/metrics/prometheus.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "manager/manager.h"
#include "manager/python/interpreters.h"
#include "manager/python/lender.h"

void metrics_page_build(struct buf *out) {
    const struct prometheus_label labels[] = {{"version", cay_version()}, {NULL, NULL}};
    prometheus_family(out, "cay_build_info", "gauge", "The version that runs; always 1.");
    prometheus_sample(out, "cay_build_info", labels, 1);
}

/* ---- sandboxes ---- */

static void write_states(struct buf *out, const struct manager_totals *t) {
    static const char name[] = "cay_sandboxes";
    prometheus_family(out, name, "gauge", "Sandboxes by state.");
    for (int i = 0; i < SANDBOX_STATE_COUNT; i++) {
        const struct prometheus_label labels[] = {
            {"state", sandbox_state_name((enum sandbox_state)i)}, {NULL, NULL}};
        prometheus_sample(out, name, labels, (double)t->by_state[i]);
    }
}

static void write_engines(struct buf *out, const struct manager_totals *t) {
    static const char name[] = "cay_engine_sandboxes";
    prometheus_family(out, name, "gauge", "Sandboxes by engine.");
    for (enum engine_kind k = ENGINE_NATIVE; k < ENGINE_KINDS; k++) {
        const struct prometheus_label labels[] = {{"engine", engine_kind_name(k)}, {NULL, NULL}};
        prometheus_sample(out, name, labels, (double)t->by_engine[k]);
    }
}

static void write_pool(struct buf *out, const struct manager_pool_totals *p) {
    double tries = (double)(p->recent_hits + p->recent_misses);
    prometheus_gauge(out, "cay_pool_size", "Sandboxes made ahead that wait to be taken.",
                     (double)p->size);
    prometheus_gauge(out, "cay_pool_target", "Sandboxes that shall wait to be taken.",
                     (double)p->target);
    prometheus_counter(out, "cay_pool_hits_total", "New sandboxes that came out of the pool.",
                       (double)p->hits);
    prometheus_counter(out, "cay_pool_misses_total",
                       "New sandboxes of images with a pool that had to be made.",
                       (double)p->misses);
    prometheus_counter(out, "cay_pool_dropped_total",
                       "Sandboxes of the pool that were removed unused.", (double)p->dropped);
    prometheus_gauge(out, "cay_pool_hit_ratio",
                     "Hits of hits and misses in the last five minutes; 0 without any.",
                     tries > 0 ? (double)p->recent_hits / tries : 0);
}

static void write_queue(struct buf *out, const struct manager_queue_totals *q) {
    prometheus_gauge(out, "cay_create_queue_waiting",
                     "Creations and starts that wait for their turn.", (double)q->waiting);
    prometheus_gauge(out, "cay_create_queue_running", "Creations and starts that have their turn.",
                     (double)q->running);
    prometheus_gauge(out, "cay_create_queue_keys", "Keys that have a creation or start waiting.",
                     (double)q->keys);
    prometheus_counter(out, "cay_create_queue_entered_total",
                       "Creations and starts that got their turn.", (double)q->entered);
    prometheus_counter(out, "cay_create_queue_wait_seconds_total",
                       "Time that these waited for it, all together.", (double)q->waited_us / 1e6);
    prometheus_counter(out, "cay_create_queue_refused_total",
                       "Creations and starts that were refused with 429: the queue was full.",
                       (double)q->refused);
}

/* One figure of every sandbox that has been measured. */
static void write_figure(struct buf *out, const struct manager_usage *all, size_t count,
                         const char *name, const char *type, const char *help, size_t offset,
                         double unit) {
    prometheus_family(out, name, type, help);
    for (size_t i = 0; i < count; i++) {
        if (!all[i].is_measured)
            continue;
        const struct prometheus_label labels[] = {
            {"id", all[i].id}, {"name", all[i].name}, {NULL, NULL}};
        uint64_t value;
        memcpy(&value, (const char *)&all[i].stats + offset, sizeof value);
        prometheus_sample(out, name, labels, (double)value / unit);
    }
}

#define FIGURE(name) offsetof(struct engine_stats, name)

static void write_usage(struct buf *out, struct manager *m, const struct key *caller) {
    _cleanup_(freep) struct manager_usage *all = NULL;
    size_t n = 0;
    if (manager_usage(m, caller, &all, &n, NULL) < 0)
        return; /* the page says less then */
    write_figure(out, all, n, "cay_sandbox_cpu_seconds_total", "counter",
                 "Processor time of a sandbox since it started.", FIGURE(cpu_us), 1e6);
    write_figure(out, all, n, "cay_sandbox_memory_bytes", "gauge", "Memory that a sandbox uses.",
                 FIGURE(memory_bytes), 1);
    write_figure(out, all, n, "cay_sandbox_memory_limit_bytes", "gauge",
                 "Memory that a sandbox may use.", FIGURE(memory_limit), 1);
    write_figure(out, all, n, "cay_sandbox_processes", "gauge",
                 "Processes and threads of a sandbox.", FIGURE(pids), 1);
    write_figure(out, all, n, "cay_sandbox_oom_kills_total", "counter",
                 "Processes of a sandbox that were killed for want of memory.", FIGURE(oom_kills),
                 1);
    write_figure(out, all, n, "cay_sandbox_disk_bytes", "gauge",
                 "What a sandbox has written; measured every few minutes.", FIGURE(disk_bytes), 1);
}

static void write_ends(struct buf *out, const struct manager_totals *t) {
    static const char name[] = "cay_sandbox_unexpected_ends_total";
    const struct prometheus_label oom[] = {{"reason", "oom"}, {NULL, NULL}};
    const struct prometheus_label other[] = {{"reason", "other"}, {NULL, NULL}};
    prometheus_family(out, name, "counter", "Sandboxes that ended although nobody asked for it.");
    prometheus_sample(out, name, oom, (double)t->ended_oom);
    prometheus_sample(out, name, other, (double)t->ended_unasked);
}

void metrics_page_sandboxes(struct buf *out, struct manager *m, const struct key *caller) {
    struct manager_totals t;
    manager_totals(m, caller, &t);
    write_states(out, &t);
    write_engines(out, &t);
    prometheus_gauge(out, "cay_sandboxes_limit", "Sandboxes that there may be at the same time.",
                     (double)t.limit);
    prometheus_gauge(out, "cay_operations", "Operations in sandboxes that are under way.",
                     (double)t.operations);
    write_pool(out, &t.pool);
    write_queue(out, &t.queue);
    prometheus_counter(out, "cay_audit_failures_total",
                       "Rows that could not be added to the audit.", (double)t.audit_failures);
    write_ends(out, &t);
    write_usage(out, m, caller);
}

/* ---- interpreters ---- */

void metrics_page_python(struct buf *out, struct interpreters *python) {
    struct interpreters_totals t;
    interpreters_total(python, &t);
    double tries = (double)(t.hits + t.misses);
    prometheus_gauge(out, "cay_python_frozen", "Images whose interpreter is held in memory.",
                     (double)t.frozen);
    prometheus_gauge(out, "cay_python_waiting", "Sandboxes in which an interpreter waits.",
                     (double)t.waiting);
    prometheus_gauge(out, "cay_python_waiting_target",
                     "Sandboxes in which an interpreter shall wait.", (double)t.target);
    prometheus_counter(out, "cay_python_hits_total",
                       "Programs that ran where an interpreter waited.", (double)t.hits);
    prometheus_counter(out, "cay_python_misses_total",
                       "Programs for which none waited, and one was woken.", (double)t.misses);
    prometheus_counter(out, "cay_python_dropped_total",
                       "Sandboxes with a waiting interpreter that were removed unused.",
                       (double)t.dropped);
    prometheus_gauge(out, "cay_python_hit_ratio", "Hits of hits and misses; 0 before the first.",
                     tries > 0 ? (double)t.hits / tries : 0);
}

/* ---- prepared sandboxes ---- */

void metrics_page_prepared(struct buf *out, struct lender *lender) {
    static const char name[] = "cay_prepared_total";
    const struct prometheus_label command[] = {{"kind", "command"}, {NULL, NULL}};
    const struct prometheus_label program[] = {{"kind", "python"}, {NULL, NULL}};
    struct lender_totals t;
    lender_total(lender, &t);
    prometheus_family(out, name, "counter",
                      "Prepared sandboxes that were handed to cay run and cay python.");
    prometheus_sample(out, name, command, (double)t.commands);
    prometheus_sample(out, name, program, (double)t.programs);
    prometheus_counter(out, "cay_prepared_refused_total",
                       "Requests for a prepared sandbox that were refused.", (double)t.refused);
    prometheus_gauge(out, "cay_prepared_running", "Prepared sandboxes in use.", (double)t.running);
}

/* ---- this process ---- */

static double seconds(struct timeval t) {
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

/* Pages of memory, all and resident. */
static bool read_memory(uint64_t *ret_all, uint64_t *ret_resident) {
    char text[128];
    _cleanup_(fclosep) FILE *f = fopen("/proc/self/statm", "re");
    if (f == NULL || fgets(text, sizeof text, f) == NULL)
        return false;
    char *end;
    *ret_all = strtoull(text, &end, 10);
    *ret_resident = strtoull(end, NULL, 10);
    return true;
}

/* When this process began, by the wall clock: field 22 of proc_pid_stat(5) counts from the boot. */
static double read_start_time(void) {
    char text[1024];
    unsigned long long ticks;
    if (fd_read_file_at(-1, "/proc/self/stat", text, sizeof text) <= 0)
        return 0;
    const char *rest = strrchr(text, ')');
    if (rest == NULL || sscanf(rest + 1,
                               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                               "%*d %*d %*d %llu",
                               &ticks) != 1)
        return 0;
    struct timespec boot;
    if (clock_gettime(CLOCK_BOOTTIME, &boot) < 0)
        return 0;
    double up = (double)boot.tv_sec + (double)boot.tv_nsec / 1e9;
    return (double)clock_wall_ms() / 1e3 - up + (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* Read once: clocks are set, and the time that a process began must not change. */
static double start_time(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static double seconds_since_1970;
    (void)pthread_mutex_lock(&lock);
    if (seconds_since_1970 == 0)
        seconds_since_1970 = read_start_time();
    double result = seconds_since_1970;
    (void)pthread_mutex_unlock(&lock);
    return result;
}

void metrics_page_process(struct buf *out) {
    struct rusage use;
    struct rlimit files;
    uint64_t all = 0, resident = 0;
    if (getrusage(RUSAGE_SELF, &use) == 0)
        prometheus_counter(out, "process_cpu_seconds_total", "Processor time of the front.",
                           seconds(use.ru_utime) + seconds(use.ru_stime));
    if (read_memory(&all, &resident)) {
        double page = (double)sysconf(_SC_PAGESIZE);
        prometheus_gauge(out, "process_virtual_memory_bytes", "Address space of the front.",
                         (double)all * page);
        prometheus_gauge(out, "process_resident_memory_bytes", "Memory of the front.",
                         (double)resident * page);
    }
    prometheus_gauge(out, "process_open_fds", "Open descriptors of the front.",
                     (double)MAX(path_count_entries("/proc/self/fd"), (ssize_t)0));
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        prometheus_gauge(out, "process_max_fds", "Descriptors that the front may open.",
                         (double)files.rlim_cur);
    prometheus_gauge(out, "process_start_time_seconds",
                     "When the front began, in seconds since 1970.", start_time());
    prometheus_gauge(out, "process_threads", "Threads of the front.",
                     (double)MAX(path_count_entries("/proc/self/task"), (ssize_t)0));
}
