/* What the front has counted since it began, and the page of all metrics. Counting is an atomic
 * addition: no lock, any thread. */
#pragma once

#include <cay/errors.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct interpreters;
struct key;
struct manager;
struct route_table;

/* name in the text, help */
#define METRICS_COUNTERS(X)                                                                        \
    X(METRICS_LAUNCHER_RESTARTS, "cay_launcher_restarts_total",                                    \
      "Launchers that ended and were replaced since the daemon began.")                            \
    X(METRICS_FRONT_RESTARTS, "cay_front_restarts_total",                                          \
      "Fronts that ended and were replaced since the daemon began.")                               \
    X(METRICS_RELOADS, "cay_reloads_total", "Times the configuration was read again.")             \
    X(METRICS_RELOAD_FAILURES, "cay_reload_failures_total",                                        \
      "Times the configuration was not taken over because it is broken.")

#define METRICS_HISTOGRAMS(X)                                                                      \
    X(METRICS_CREATE, "cay_sandbox_create_seconds",                                                \
      "From the request for a new sandbox until it runs, image included.")                         \
    X(METRICS_START, "cay_sandbox_start_seconds", "From the request to start until it runs.")      \
    X(METRICS_FIRST, "cay_exec_first_byte_seconds",                                                \
      "From the request for an operation until the first byte from the sandbox.")                  \
    X(METRICS_EXEC, "cay_exec_seconds",                                                            \
      "Whole operations in sandboxes: commands, transfers, terminals.")

enum metrics_counter {
#define METRICS_ENUM(id, name, help) id,
    METRICS_COUNTERS(METRICS_ENUM) METRICS_COUNTER_COUNT
};
enum metrics_histogram { METRICS_HISTOGRAMS(METRICS_ENUM) METRICS_HISTOGRAM_COUNT };
#undef METRICS_ENUM

enum { METRICS_ROUTES_MAX = 320 };

/* How a command that the daemon ran for a client ended. */
enum metrics_outcome {
    METRICS_OK,      /* with exit code 0 */
    METRICS_FAILED,  /* with another */
    METRICS_SIGNAL,  /* it was killed */
    METRICS_OOM,     /* for want of memory; counted in addition, since it shows later */
    METRICS_TIMEOUT, /* by its time limit, or that of its silence */
    METRICS_LOST,    /* not known: the client, the sandbox or its connection went away */
    METRICS_OUTCOMES
};

void metrics_count(enum metrics_counter which, uint64_t times);
void metrics_observe(enum metrics_histogram which, int64_t us);
/* A request or an operation that failed with an error of this class. */
void metrics_failed(enum cay_code code);
/* A request is done; route is its row in the table, METRICS_ROUTES_MAX - 1 if it had none. */
void metrics_request(size_t route, unsigned status, int64_t us);
/* A sandbox could not be made. */
void metrics_create_failed(enum cay_code code);
void metrics_command(enum metrics_outcome outcome);

/* Appends the page, with the sandboxes that the caller sees (NULL: all); the tables are those that
 * rows were counted by. */
void metrics_write(struct buf *out, struct manager *m, struct interpreters *python,
                   const struct key *caller, const struct route_table *const *tables, size_t count);
