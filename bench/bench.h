/* What one run of the benchmark measures, and where it keeps it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "command.h"
#include "engine/link/program.h"
#include "stats.h"

struct cay_error;

enum { ROWS_MAX = 32, PEERS_MAX = 12, RATES_MAX = 8, RATE_STEPS = 4, NAME_SIZE = 48 };

enum { BENCH_PAUSE_MAX = 4 };

struct bench_options {
    const char *programs; /* folder with cay and cay-launcher */
    const char *trues;    /* folder with static-true and musl-true; either may be missing */
    const char *scratch;  /* an empty folder; sockets and the state folder go there */
    const char *peers;    /* file, see peers.h; or NULL */
    const char *daemon;   /* state folder of a daemon that runs; or NULL */
    int64_t latency_ms;   /* time for all rows of the first table */
    int64_t rate_ms;      /* time for each cell of the second; 0: none */
    unsigned density;     /* idle sandboxes; 0: none */
    int64_t pause[BENCH_PAUSE_MAX]; /* processes that stand still during rates and density */
    size_t pause_count;
};

/* Somebody else's program that does a comparable thing. */
struct peer {
    char name[NAME_SIZE];
    double weight; /* share of the time, beside 1 for an ordinary row */
    bool rated;    /* measured with several workers too */
    char why[160]; /* not empty: it could not be measured, because of this */
    struct command command;
};

struct row;
typedef int row_fn(struct row *r, struct cay_error *err);

/* One line of the table of latencies. */
struct row {
    char name[NAME_SIZE];
    row_fn *run; /* NULL: filled by another row */
    double weight;
    int64_t gap_us; /* idle time before each run */
    struct command command;
    struct box_host *host; /* for rows of the launcher */
    struct row *behind;    /* where the time until everything is gone goes */
    struct series times;
    int64_t spent_us;
    char why[160]; /* not empty: given up because of this */
};

/* Fresh sandboxes per second with so many workers; negative: not measured. */
struct rate {
    char name[NAME_SIZE];
    double per_second[RATE_STEPS];
};

struct density {
    unsigned count;
    int64_t create_us, first_us, last_us; /* all; p50 of the first and of the last tenth */
    int64_t kill_us, close_us;
    double used_kb, available_kb, kernel_kb, pss_kb, group_kb; /* for each */
};

struct bench {
    struct bench_options options;
    struct peer peers[PEERS_MAX];
    size_t peer_count;
    struct row rows[ROWS_MAX];
    size_t row_count;
    unsigned workers[RATE_STEPS];
    struct rate rates[RATES_MAX];
    size_t rate_count;
    struct density density;
};

/* Starts the launcher under test; its state is in the scratch folder. */
int bench_launcher(const struct bench_options *o, unsigned ready, struct launcher_client *ret,
                   struct cay_error *err);

/* Reads the peers file: a peer per line, fields separated by tabs: name, weight, 1 if it is rated,
 * mount namespace or "-", program, arguments. "%w" in an argument becomes the number of a worker.
 * With weight 0 the next field says why it could not be measured. */
int bench_read_peers(struct bench *b, struct cay_error *err);

/* The command of a peer for one worker. Its strings live until the end. */
int peer_command(const struct peer *p, unsigned worker, struct command *ret, struct cay_error *err);

/* The three parts. */
int bench_latency(struct bench *b, struct cay_error *err);
int bench_rates(struct bench *b, struct cay_error *err);
int bench_density(struct bench *b, struct cay_error *err);

/* The report. */
void report_machine(void);
void report_latency(struct bench *b);
void report_rates(const struct bench *b);
void report_density(const struct density *d);
void report_goals(struct bench *b);

/* The row with this name, or NULL. */
struct row *bench_row(struct bench *b, const char *name);
