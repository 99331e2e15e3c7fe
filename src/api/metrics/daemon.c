#include <stdio.h>

#include "api/call.h"
#include "api/metrics/page.h"
#include "api/metrics/prometheus.h"
#include "api/metrics/vitals.h"
#include "manager/engines.h"

/* ---- engines ---- */

static double is_up(const struct manager_engine *e) {
    return e->is_up;
}

static double waiting(const struct manager_engine *e) {
    return (double)e->health.waiting;
}

static double ping_seconds(const struct manager_engine *e) {
    return (double)e->health.wait_us / 1e6;
}

void metrics_page_engines(struct buf *out, struct manager *m) {
    static const struct {
        const char *name, *help;
        double (*value)(const struct manager_engine *e);
    } rows[] = {
        {"cay_engine_up", "Whether an engine answers: 1 or 0.", is_up},
        {"cay_engine_requests_waiting", "Requests that an engine has not answered yet.", waiting},
        {"cay_engine_ping_seconds",
         "How long the last ping of an engine waited for its answer, or waits so far.",
         ping_seconds},
    };
    struct manager_engine engines[ENGINE_KINDS] = {0};
    for (enum engine_kind k = ENGINE_NATIVE; k < ENGINE_KINDS; k++)
        manager_engine_look(m, k, &engines[k]);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        prometheus_family(out, rows[i].name, "gauge", rows[i].help);
        for (enum engine_kind k = ENGINE_NATIVE; k < ENGINE_KINDS; k++) {
            const struct prometheus_label labels[] = {{"engine", engine_kind_name(k)},
                                                      {NULL, NULL}};
            if (engines[k].is_used)
                prometheus_sample(out, rows[i].name, labels, rows[i].value(&engines[k]));
        }
    }
}

/* ---- disks and processes ---- */

/* One figure of every disk or process: an unsigned 64 bit number at this offset. */
struct figure {
    const char *name, *type, *help;
    size_t offset;
    double unit;
};

static double read_figure(const void *row, const struct figure *f) {
    uint64_t value;
    memcpy(&value, (const char *)row + f->offset, sizeof value);
    return (double)value / f->unit;
}

static void write_disks(struct buf *out, const struct vitals *v) {
#define AT(member) offsetof(struct vitals_disk, member), 1
    static const struct figure figures[] = {
        {"cay_disk_size_bytes", "gauge", "Size of a file system that the daemon needs.", AT(bytes)},
        {"cay_disk_free_bytes", "gauge", "Bytes that are free for users.", AT(free_bytes)},
        {"cay_disk_inodes", "gauge", "Inodes of the file system; 0: without a fixed number.",
         AT(inodes)},
        {"cay_disk_free_inodes", "gauge", "Inodes that are free.", AT(free_inodes)},
    };
#undef AT
    for (size_t i = 0; i < ARRAY_LEN(figures); i++) {
        prometheus_family(out, figures[i].name, figures[i].type, figures[i].help);
        for (size_t k = 0; k < VITALS_DISKS && v->disks[k].place != NULL; k++) {
            const struct prometheus_label labels[] = {{"place", v->disks[k].place}, {NULL, NULL}};
            prometheus_sample(out, figures[i].name, labels, read_figure(&v->disks[k], &figures[i]));
        }
    }
}

static void write_processes(struct buf *out, const struct vitals *v) {
#define AT(member) offsetof(struct vitals_process, member)
    static const struct figure figures[] = {
        {"cay_process_resident_memory_bytes", "gauge", "Memory of a process of the daemon.",
         AT(memory_bytes), 1},
        {"cay_process_cpu_seconds_total", "counter", "Processor time of a process of the daemon.",
         AT(cpu_us), 1e6},
        {"cay_process_open_fds", "gauge", "Open descriptors of a process of the daemon.", AT(fds),
         1},
        {"cay_process_max_fds", "gauge", "Descriptors that a process of the daemon may open.",
         AT(fds_max), 1},
    };
#undef AT
    for (size_t i = 0; i < ARRAY_LEN(figures); i++) {
        prometheus_family(out, figures[i].name, figures[i].type, figures[i].help);
        for (size_t k = 0; k < v->process_count; k++) {
            const struct prometheus_label labels[] = {{"process", v->processes[k].name},
                                                      {NULL, NULL}};
            prometheus_sample(out, figures[i].name, labels,
                              read_figure(&v->processes[k], &figures[i]));
        }
    }
}

void metrics_page_vitals(struct buf *out) {
    struct vitals v;
    vitals_get(&v);
    write_disks(out, &v);
    write_processes(out, &v);
}

/* ---- HTTP ---- */

void metrics_page_http(struct buf *out, const struct call *c) {
    static const char name[] = "cay_http_connections";
    static const char *const sockets[] = {"unix", "tcp"};
    struct call_load load;
    call_load(c, &load);
    prometheus_gauge(out, "cay_http_requests_in_flight", "Requests that are not answered yet.",
                     (double)load.requests);
    prometheus_family(out, name, "gauge", "Open connections.");
    for (size_t i = 0; i < ARRAY_LEN(sockets); i++) {
        const struct prometheus_label labels[] = {{"socket", sockets[i]}, {NULL, NULL}};
        prometheus_sample(out, name, labels, (double)load.connections[i]);
    }
}
