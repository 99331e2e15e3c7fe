/* cay-bench: measures cay beside other programs, in one run. bench/run prepares them and calls it.
 */
#include "bench.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"

static int usage(void) {
    (void)fprintf(stderr, "usage: cay-bench --programs DIR --scratch DIR [--trues DIR]\n"
                          "                 [--peers FILE] [--daemon STATE] [--latency-ms N]\n"
                          "                 [--rate-ms N] [--density N] [--pause PID]...\n");
    return 2;
}

static int to_number(const char *text, int64_t max, int64_t *ret) {
    return str_to_i64(text, 0, max, ret);
}

static int parse(int argc, char **argv, struct bench_options *o) {
    static const struct option options[] = {
        {"programs", required_argument, NULL, 'p'}, {"scratch", required_argument, NULL, 's'},
        {"trues", required_argument, NULL, 't'},    {"peers", required_argument, NULL, 'e'},
        {"daemon", required_argument, NULL, 'a'},   {"latency-ms", required_argument, NULL, 'l'},
        {"rate-ms", required_argument, NULL, 'r'},  {"density", required_argument, NULL, 'd'},
        {"pause", required_argument, NULL, 'q'},    {0},
    };
    int letter, r = 0;
    int64_t density = o->density;
    while (r == 0 && (letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (letter == 'p')
            o->programs = optarg;
        else if (letter == 's')
            o->scratch = optarg;
        else if (letter == 't')
            o->trues = optarg;
        else if (letter == 'e')
            o->peers = optarg;
        else if (letter == 'a')
            o->daemon = optarg;
        else if (letter == 'l')
            r = to_number(optarg, 3600000, &o->latency_ms);
        else if (letter == 'r')
            r = to_number(optarg, 60000, &o->rate_ms);
        else if (letter == 'd')
            r = to_number(optarg, 1500, &density);
        else if (letter == 'q' && o->pause_count < BENCH_PAUSE_MAX)
            r = to_number(optarg, INT32_MAX, &o->pause[o->pause_count++]);
        else
            r = -1;
    }
    o->density = (unsigned)density;
    return r < 0 || optind != argc || o->programs == NULL || o->scratch == NULL ? -1 : 0;
}

/* A thousand sandboxes are thousands of descriptors, which the launcher inherits the right to. */
static void raise_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* fewer sandboxes then, which is reported */
}

static int part(int r, const char *name, const struct cay_error *err) {
    if (r < 0)
        (void)fprintf(stderr, "cay-bench: %s: %s; %s\n", name, err->message, err->remedy);
    return r < 0;
}

/* Daemons of peers that have no row in a table must not take part in it. */
static void signal_paused(const struct bench_options *o, int number) {
    for (size_t i = 0; i < o->pause_count; i++)
        (void)kill((pid_t)o->pause[i], number); /* gone is as good as stopped */
}

int main(int argc, char **argv) {
    static struct bench b = {
        .options = {.trues = "", .latency_ms = 60000, .rate_ms = 3000, .density = 1000}};
    struct cay_error err = {0};
    if (parse(argc, argv, &b.options) < 0)
        return usage();
    raise_descriptors();
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* nothing may be printed twice by a fork */
    if (part(bench_read_peers(&b, &err), "peers", &err))
        return 1;
    report_machine();
    int failed = part(bench_latency(&b, &err), "latency", &err);
    report_latency(&b);
    signal_paused(&b.options, SIGSTOP);
    if (b.options.rate_ms > 0)
        failed |= part(bench_rates(&b, &err), "rates", &err);
    report_rates(&b);
    if (b.options.density > 0)
        failed |= part(bench_density(&b, &err), "density", &err);
    signal_paused(&b.options, SIGCONT);
    report_density(&b.density);
    report_goals(&b);
    return failed;
}
