/* cay-bench-python: Python programs in fresh sandboxes beside bare python3, in one run.
 * bench/python prepares what it needs and calls it. All rows take turns, as in latency.c. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "bench.h"
#include "python_http.h"
#include "python_rows.h"

enum { WAITING = 4, SETTLE_NS = 20000000, ROW_COUNT = 11, WORKERS = 2 };

static const char hello[] = "print(1)";
static const char groupby[] =
    "import pandas\n"
    "print(pandas.DataFrame({'a': [1, 2, 1], 'b': [1, 2, 3]}).groupby('a').b.sum().sum())";

enum kind { BARE, ON_DEMAND, WAITS, HTTP, COMMAND, PREPARED };

struct python_row {
    const char *name;
    enum kind kind;
    const char *code;
    double weight;
    struct python_host *host;
    struct command command;
    struct series times;
    int64_t spent_us;
    char why[160];
};

enum {
    R_BARE,
    R_DEMAND,
    R_WAITS,
    R_HTTP_DEMAND,
    R_HTTP,
    R_CAY,
    R_PREPARED,
    R_DOCKER,
    R_BIG,
    R_BIG_DEMAND,
    R_BIG_WAITS
};
static struct python_row rows[ROW_COUNT] = {
    [R_BARE] = {"bare python3 -c 'print(1)'", BARE, hello, 1},
    [R_DEMAND] = {"launcher: woken on demand", ON_DEMAND, hello, 1},
    [R_WAITS] = {"launcher: one waits", WAITS, hello, 3},
    [R_HTTP_DEMAND] = {"HTTP, keep-alive: woken on demand", HTTP, hello, 1},
    [R_HTTP] = {"HTTP, keep-alive: one waits", HTTP, hello, 3},
    [R_CAY] = {"cay python, without a daemon", COMMAND, hello, 2},
    [R_PREPARED] = {"cay python, with a daemon", PREPARED, hello, 2},
    [R_DOCKER] = {"docker run … python3 -c 'print(1)'", COMMAND, hello, 3},
    [R_BIG] = {"bare: import pandas, groupby", BARE, groupby, 4},
    [R_BIG_DEMAND] = {"launcher, pandas: woken on demand", ON_DEMAND, groupby, 1},
    [R_BIG_WAITS] = {"launcher, pandas: one waits", WAITS, groupby, 3},
};

static struct python_http http;
static double rates[2]; /* bare, ours */

static void settle(void) {
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = SETTLE_NS}, NULL);
}

static int run_once(struct python_row *r, int64_t *us, struct cay_error *err) {
    const struct command bare = {.argv = {"/usr/bin/python3", "-c", r->code}};
    int f = 0;
    switch (r->kind) {
    case BARE:
        return command_run(&bare, us, err);
    case COMMAND:
        return command_run(&r->command, us, err);
    case PREPARED:
        settle();
        return command_run(&r->command, us, err);
    case ON_DEMAND:
        return python_on_demand(r->host, r->code, us, err);
    case WAITS:
        /* Woken in quiet, as in a daemon that has time between two programs. */
        f = python_fill(r->host, WAITING, err);
        settle();
        return f < 0 ? f : python_from_pool(r->host, r->code, us, err);
    case HTTP:
        settle();
        return python_http_run(&http, r->code, r == &rows[R_HTTP_DEMAND], us, err);
    }
    return 0;
}

static void run_row(struct python_row *r) {
    struct cay_error err = {0};
    int64_t us, begin = clock_us();
    if (run_once(r, &us, &err) < 0)
        (void)snprintf(r->why, sizeof r->why, "%.150s", err.message);
    else if (series_add(&r->times, us) < 0)
        (void)snprintf(r->why, sizeof r->why, "no memory");
    r->spent_us += clock_us() - begin;
}

static void measure(int64_t ms) {
    double all = 0;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (rows[i].why[0] == '\0')
            run_row(&rows[i]); /* the first makes what the others find ready */
        series_free(&rows[i].times);
        rows[i].spent_us = 0;
        all += rows[i].why[0] == '\0' ? rows[i].weight : 0;
    }
    int64_t begin = clock_us(), end = begin + ms * 1000;
    while (clock_us() < end) {
        struct python_row *r = &rows[(size_t)random() % ROW_COUNT];
        if (r->why[0] == '\0' &&
            (double)r->spent_us <= (double)(clock_us() - begin) * r->weight / all)
            run_row(r);
    }
}

/* ---- programs per second, by a worker for each processor ---- */

static void work(const struct bench_options *o, bool is_bare, int64_t ms, int out) {
    struct cay_error err;
    struct python_host host;
    const struct command bare = {.argv = {"/usr/bin/python3", "-c", hello}};
    uint32_t count = 0;
    int64_t us;
    int r = is_bare ? 0 : python_host_open(&host, o, NULL, &err);
    if (r == 0 && !is_bare)
        r = python_on_demand(&host, hello, &us, &err);
    int64_t end = clock_ms() + ms;
    while (r == 0 && clock_ms() < end) {
        r = is_bare ? command_run(&bare, &us, &err) : python_on_demand(&host, hello, &us, &err);
        count += r == 0;
    }
    if (r == 0)
        r = fd_write_all(out, &count, sizeof count);
    if (!is_bare)
        python_host_close(&host);
    _exit(r < 0);
}

static double measure_rate(const struct bench_options *o, bool is_bare, int64_t ms) {
    int p[2];
    double sum = 0;
    if (pipe2(p, O_CLOEXEC) < 0)
        return -1;
    for (int i = 0; i < WORKERS; i++)
        if (fork() == 0)
            work(o, is_bare, ms, p[1]);
    (void)close(p[1]);
    uint32_t count;
    while (fd_read_all(p[0], &count, sizeof count) == 1)
        sum += count;
    (void)close(p[0]);
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    return sum * 1000 / (double)ms;
}

/* ---- the report ---- */

static double p50(int i) {
    return (double)series_at(&rows[i].times, 0.5);
}

static void goal(const char *text, double value, double wanted, bool below) {
    bool known = value > 0;
    bool met = below ? value <= wanted : value >= wanted;
    (void)printf("%-8s %s: %.2f\n", !known ? "unknown" : met ? "met" : "missed", text, value);
}

static double ratio(int a, int b) {
    return p50(b) > 0 ? p50(a) / p50(b) : 0;
}

static void report(void) {
    (void)printf("%-38s %7s %12s %12s %12s %8s\n", "time of one program", "n", "p50", "p99", "best",
                 "x");
    for (int i = 0; i < ROW_COUNT; i++) {
        char a[32], b[32], c[32];
        if (rows[i].why[0] != '\0')
            (void)printf("%-38s skipped: %s\n", rows[i].name, rows[i].why);
        else
            (void)printf(
                "%-38s %7zu %12s %12s %12s %8.1f\n", rows[i].name, rows[i].times.count,
                stats_time((int64_t)p50(i), a), stats_time(series_at(&rows[i].times, 0.99), b),
                stats_time(series_at(&rows[i].times, 0), c), ratio(i >= R_BIG ? R_BIG : R_BARE, i));
    }
    (void)printf("\nprograms per second, %d workers: bare %.0f, fresh sandboxes %.0f\n\ngoals\n",
                 WORKERS, rates[0], rates[1]);
    goal("on demand, times faster than bare (5)", ratio(R_BARE, R_DEMAND), 5, false);
    goal("one waits, times faster than bare (20)", ratio(R_BARE, R_WAITS), 20, false);
    goal("one waits, times faster than docker run (100)", ratio(R_DOCKER, R_WAITS), 100, false);
    goal("pandas on demand, times faster than bare (30)", ratio(R_BIG, R_BIG_DEMAND), 30, false);
    goal("pandas, one waits, times faster than bare (30)", ratio(R_BIG, R_BIG_WAITS), 30, false);
    goal("per second, of the rate of bare python (1)", rates[0] > 0 ? rates[1] / rates[0] : 0, 1,
         false);
    goal("cay python with a daemon, times faster than bare (3)", ratio(R_BARE, R_PREPARED), 3,
         false);
    goal("cay python without a daemon, times bare (1)", ratio(R_CAY, R_BARE), 1, true);
    goal("milliseconds that HTTP adds (1)",
         p50(R_HTTP) > 0 ? MAX(p50(R_HTTP) - p50(R_WAITS), 1) / 1000 : 0, 1, true);
}

/* ---- from the outside ---- */

static int usage(void) {
    (void)fprintf(stderr, "usage: cay-bench-python --programs DIR --scratch DIR [--socket PATH]\n"
                          "                        [--daemon STATE] [--latency-ms N] [--rate-ms N] "
                          "[--only TEXT] [DOCKER…]\n");
    return 2;
}

static void skip(int row, const char *why) {
    (void)snprintf(rows[row].why, sizeof rows[row].why, "%.150s", why);
}

static void skip_all_but(const char *text) {
    for (int i = 0; i < ROW_COUNT; i++)
        if (strstr(rows[i].name, text) == NULL)
            skip(i, "not asked for");
}

static int parse(int argc, char **argv, struct bench_options *o, const char **socket) {
    static const struct option options[] = {
        {"programs", required_argument, NULL, 'p'},   {"scratch", required_argument, NULL, 's'},
        {"socket", required_argument, NULL, 'u'},     {"daemon", required_argument, NULL, 'a'},
        {"latency-ms", required_argument, NULL, 'l'}, {"rate-ms", required_argument, NULL, 'r'},
        {"only", required_argument, NULL, 'o'},       {0},
    };
    int letter, r = 0;
    while (r == 0 && (letter = getopt_long(argc, argv, "+", options, NULL)) != -1) {
        if (letter == 'p')
            o->programs = optarg;
        else if (letter == 's')
            o->scratch = optarg;
        else if (letter == 'u')
            *socket = optarg;
        else if (letter == 'a')
            o->daemon = optarg;
        else if (letter == 'l')
            r = str_to_i64(optarg, 0, 3600000, &o->latency_ms);
        else if (letter == 'r')
            r = str_to_i64(optarg, 0, 60000, &o->rate_ms);
        else if (letter == 'o')
            skip_all_but(optarg);
        else
            r = -1;
    }
    for (int i = 0; r == 0 && optind + i < argc && i < COMMAND_ARGS_MAX; i++)
        rows[R_DOCKER].command.argv[i] = argv[optind + i];
    return r < 0 || o->programs == NULL || o->scratch == NULL ? -1 : 0;
}

/* Whole commands, as people type them. */
static int prepare_commands(const struct bench_options *o, struct cay_error *err) {
    static char cay[256], state[256];
    if (str_format(cay, sizeof cay, "%s/cay", o->programs) < 0 ||
        str_format(state, sizeof state, "%s/state", o->scratch) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the folder names are too long");
    rows[R_CAY].command =
        (struct command){.argv = {cay, "python", "--state-dir", state, "-c", hello}};
    rows[R_PREPARED].command =
        (struct command){.argv = {cay, "python", "--state-dir", o->daemon, "-c", hello}};
    if (o->daemon == NULL)
        skip(R_PREPARED, "no daemon");
    return 0;
}

static int prepare(const struct bench_options *o, struct python_host *plain,
                   struct python_host *big, const char *socket, struct cay_error *err) {
    static const char *const modules[] = {"numpy", "pandas", NULL};
    struct cay_error why = {0};
    int r = python_host_open(plain, o, NULL, err);
    if (r < 0)
        return r;
    rows[R_DEMAND].host = rows[R_WAITS].host = plain;
    rows[R_BIG_DEMAND].host = rows[R_BIG_WAITS].host = big;
    bool wanted = rows[R_BIG_DEMAND].why[0] == '\0' || rows[R_BIG_WAITS].why[0] == '\0';
    if (wanted && python_host_open(big, o, modules, &why) < 0)
        for (int i = R_BIG; i <= R_BIG_WAITS; i++)
            skip(i, why.message);
    if (socket == NULL || python_http_open(&http, socket, &why) < 0) {
        skip(R_HTTP, socket == NULL ? "no daemon" : why.message);
        skip(R_HTTP_DEMAND, socket == NULL ? "no daemon" : why.message);
    }
    if (rows[R_DOCKER].command.argv[0] == NULL)
        skip(R_DOCKER, "not there");
    return prepare_commands(o, err);
}

int main(int argc, char **argv) {
    struct bench_options o = {.latency_ms = 40000, .rate_ms = 5000};
    struct cay_error err = {0};
    struct python_host plain = {0}, big = {.client = LAUNCHER_CLIENT_NONE, .warm = -1};
    const char *socket = NULL;
    if (parse(argc, argv, &o, &socket) < 0)
        return usage();
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* nothing may be printed twice by a fork */
    if (prepare(&o, &plain, &big, socket, &err) < 0) {
        (void)fprintf(stderr, "cay-bench-python: %s; %s\n", err.message, err.remedy);
        return 1;
    }
    report_machine();
    measure(o.latency_ms);
    python_host_close(&plain);
    python_host_close(&big);
    for (int i = 0; i < 2 && o.rate_ms > 0; i++)
        rates[i] = measure_rate(&o, i == 0, o.rate_ms);
    report();
    return 0;
}
