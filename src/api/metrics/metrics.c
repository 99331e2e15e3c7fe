#include "api/metrics/metrics.h"

#include <stdatomic.h>
#include <stdio.h>

#include "api/metrics/page.h"
#include "api/metrics/prometheus.h"
#include "api/route.h"
#include "base/auto.h"

static const int64_t bounds_us[] = {1000,    2000,    5000,     10000,    25000,
                                    50000,   100000,  250000,   500000,   1000000,
                                    2500000, 5000000, 10000000, 30000000, 60000000};
enum { BOUNDS = ARRAY_LEN(bounds_us) };

/* Of requests, which there are of many routes. */
static const int64_t http_bounds_us[] = {5000, 25000, 100000, 500000, 2500000, 10000000};
enum { HTTP_BOUNDS = ARRAY_LEN(http_bounds_us) };

/* Statuses that we answer with; the last row is for whatever else. */
static const unsigned statuses[] = {101, 200, 201, 202, 204, 400, 401, 403, 404, 405,
                                    409, 413, 429, 500, 501, 503, 504, 507, 0};
enum { STATUSES = ARRAY_LEN(statuses), CODES = CAY_INTERNAL + 1 };

struct histogram {
    atomic_uint_fast64_t counts[BOUNDS + 1];
    atomic_uint_fast64_t sum_us;
};

static atomic_uint_fast64_t counters[METRICS_COUNTER_COUNT];
static struct histogram histograms[METRICS_HISTOGRAM_COUNT];
static atomic_uint_fast64_t failures[CODES];
static atomic_uint_fast64_t create_failures[CODES];
static atomic_uint_fast64_t outcomes[METRICS_OUTCOMES];
static atomic_uint_fast64_t requests[METRICS_ROUTES_MAX][STATUSES];

struct latency {
    atomic_uint_fast64_t counts[HTTP_BOUNDS + 1];
    atomic_uint_fast64_t sum_us;
};
static struct latency latencies[METRICS_ROUTES_MAX];

static void add(atomic_uint_fast64_t *to, uint64_t n) {
    (void)atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static uint64_t get(atomic_uint_fast64_t *from) {
    return atomic_load_explicit(from, memory_order_relaxed);
}

/* ---- counting ---- */

void metrics_count(enum metrics_counter which, uint64_t times) {
    add(&counters[which], times);
}

void metrics_observe(enum metrics_histogram which, int64_t us) {
    size_t i = 0;
    while (i < BOUNDS && us > bounds_us[i])
        i++;
    add(&histograms[which].counts[i], 1);
    add(&histograms[which].sum_us, (uint64_t)MAX(us, (int64_t)0));
}

void metrics_failed(enum cay_code code) {
    add(&failures[(unsigned)code < CODES ? code : CAY_INTERNAL], 1);
}

void metrics_create_failed(enum cay_code code) {
    add(&create_failures[(unsigned)code < CODES ? code : CAY_INTERNAL], 1);
}

void metrics_command(enum metrics_outcome outcome) {
    add(&outcomes[outcome], 1);
}

/* What became another protocol lasts as long as its client likes: that is no latency. */
static void note_latency(struct latency *l, unsigned status, int64_t us) {
    size_t i = 0;
    if (status == 101)
        return;
    while (i < HTTP_BOUNDS && us > http_bounds_us[i])
        i++;
    add(&l->counts[i], 1);
    add(&l->sum_us, (uint64_t)MAX(us, (int64_t)0));
}

void metrics_request(size_t route, unsigned status, int64_t us) {
    size_t i = 0, row = MIN(route, (size_t)METRICS_ROUTES_MAX - 1);
    while (i < STATUSES - 1 && statuses[i] != status)
        i++;
    add(&requests[row][i], 1);
    note_latency(&latencies[row], status, us);
}

/* ---- writing ---- */

static void write_counters(struct buf *out) {
    static const struct {
        const char *name, *help;
    } rows[] = {
#define METRICS_ROW(id, name, help) [id] = {name, help},
        METRICS_COUNTERS(METRICS_ROW)};
    for (size_t i = 0; i < METRICS_COUNTER_COUNT; i++)
        prometheus_counter(out, rows[i].name, rows[i].help, (double)get(&counters[i]));
}

static void write_histograms(struct buf *out) {
    static const struct { const char *name, *help; } rows[] = {METRICS_HISTOGRAMS(METRICS_ROW)};
#undef METRICS_ROW
    for (size_t i = 0; i < METRICS_HISTOGRAM_COUNT; i++) {
        uint64_t counts[BOUNDS + 1];
        for (size_t k = 0; k <= BOUNDS; k++)
            counts[k] = get(&histograms[i].counts[k]);
        prometheus_histogram(out, rows[i].name, rows[i].help, bounds_us, BOUNDS, counts,
                             get(&histograms[i].sum_us));
    }
}

static void write_classes(struct buf *out, const char *name, const char *help,
                          atomic_uint_fast64_t *counts) {
    prometheus_family(out, name, "counter", help);
    for (int code = CAY_OK + 1; code < CODES; code++) {
        const struct prometheus_label labels[] = {{"class", cay_code_name((enum cay_code)code)},
                                                  {NULL, NULL}};
        prometheus_sample(out, name, labels, (double)get(&counts[code]));
    }
}

static void write_outcomes(struct buf *out) {
    static const char name[] = "cay_commands_total";
    static const char *const names[METRICS_OUTCOMES] = {
        [METRICS_OK] = "ok",   [METRICS_FAILED] = "failed",   [METRICS_SIGNAL] = "signal",
        [METRICS_OOM] = "oom", [METRICS_TIMEOUT] = "timeout", [METRICS_LOST] = "lost"};
    prometheus_family(out, name, "counter",
                      "Commands that the toolbox, sessions and Python routes ran to their end.");
    for (size_t i = 0; i < METRICS_OUTCOMES; i++) {
        const struct prometheus_label labels[] = {{"outcome", names[i]}, {NULL, NULL}};
        prometheus_sample(out, name, labels, (double)get(&outcomes[i]));
    }
}

static void write_route(struct buf *out, const char *name, size_t row, const char *method,
                        const char *pattern) {
    char status[16];
    for (size_t i = 0; i < STATUSES; i++) {
        uint64_t n = get(&requests[row][i]);
        if (n == 0)
            continue;
        (void)snprintf(status, sizeof status, "%u", statuses[i]);
        const struct prometheus_label labels[] = {{"method", method},
                                                  {"route", pattern},
                                                  {"status", statuses[i] != 0 ? status : "other"},
                                                  {NULL, NULL}};
        prometheus_sample(out, name, labels, (double)n);
    }
}

static void write_requests(struct buf *out, const struct route_table *const *tables, size_t count) {
    static const char name[] = "cay_http_requests_total";
    prometheus_family(out, name, "counter", "Requests by pattern of the path, and by status.");
    size_t row = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < tables[i]->count && row < METRICS_ROUTES_MAX - 1; j++, row++)
            write_route(out, name, row, tables[i]->rows[j].method, tables[i]->rows[j].pattern);
    write_route(out, name, METRICS_ROUTES_MAX - 1, "", "none");
}

static void write_latency(struct buf *out, const char *name, size_t row, const char *method,
                          const char *pattern) {
    struct latency *l = &latencies[row];
    uint64_t counts[HTTP_BOUNDS + 1], total = 0;
    for (size_t i = 0; i <= HTTP_BOUNDS; i++)
        total += counts[i] = get(&l->counts[i]);
    if (total == 0)
        return;
    const struct prometheus_label labels[] = {{"method", method}, {"route", pattern}, {NULL, NULL}};
    prometheus_histogram_sample(out, name, labels, http_bounds_us, HTTP_BOUNDS, counts,
                                get(&l->sum_us));
}

static void write_latencies(struct buf *out, const struct route_table *const *tables,
                            size_t count) {
    static const char name[] = "cay_http_request_seconds";
    prometheus_family(out, name, "histogram",
                      "Requests from their head to the end of the answer, by pattern of the path.");
    size_t row = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < tables[i]->count && row < METRICS_ROUTES_MAX - 1; j++, row++)
            write_latency(out, name, row, tables[i]->rows[j].method, tables[i]->rows[j].pattern);
    write_latency(out, name, METRICS_ROUTES_MAX - 1, "", "none");
}

void metrics_write(struct buf *out, struct manager *m, struct interpreters *python,
                   const struct key *caller, const struct route_table *const *tables,
                   size_t count) {
    metrics_page_build(out);
    metrics_page_sandboxes(out, m, caller);
    metrics_page_keys(out, m, caller);
    metrics_page_space(out, m);
    if (python != NULL)
        metrics_page_python(out, python);
    write_histograms(out);
    write_classes(out, "cay_errors_total", "Requests that failed, by the class of the error.",
                  failures);
    write_classes(out, "cay_sandbox_create_failures_total",
                  "Sandboxes that could not be made, by the class of the error.", create_failures);
    write_outcomes(out);
    write_requests(out, tables, count);
    write_latencies(out, tables, count);
    write_counters(out);
    metrics_page_engines(out, m);
    metrics_page_vitals(out);
    metrics_page_process(out);
}
