#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "bench.h"
#include "names.h"

/* ---- tables ---- */

static void print_row(struct row *r, double plain, double launcher) {
    char p50[32], p99[32];
    double us = (double)series_at(&r->times, 0.5);
    if (r->times.count == 0) {
        printf("%-38s skipped: %s\n", r->name, r->why);
        return;
    }
    printf("%-38s %6zu %12s %12s", r->name, r->times.count, stats_time((int64_t)us, p50),
           stats_time(series_at(&r->times, 0.99), p99));
    printf(" %9.2f %11.2f%s%s\n", us / plain, us / launcher, r->why[0] != '\0' ? "  then: " : "",
           r->why);
}

void report_latency(struct bench *b) {
    struct row *plain = bench_row(b, ROW_PLAIN), *launcher = bench_row(b, ROW_LAUNCHER);
    double a = plain != NULL ? (double)series_at(&plain->times, 0.5) : 0;
    double c = launcher != NULL ? (double)series_at(&launcher->times, 0.5) : 0;
    printf("\n%-38s %6s %12s %12s %9s %11s\n", "time of one run", "n", "p50", "p99", "x plain",
           "x launcher");
    for (size_t i = 0; i < b->row_count; i++)
        print_row(&b->rows[i], a, c);
}

void report_rates(const struct bench *b) {
    if (b->rate_count == 0)
        return;
    printf("\n%-38s", "runs per second, by workers");
    for (size_t step = 0; step < RATE_STEPS; step++)
        printf(" %7u", b->workers[step]);
    printf("\n");
    for (size_t i = 0; i < b->rate_count; i++) {
        printf("%-38s", b->rates[i].name);
        for (size_t step = 0; step < RATE_STEPS; step++)
            if (b->rates[i].per_second[step] < 0)
                printf(" %7s", "failed");
            else
                printf(" %7.0f", b->rates[i].per_second[step]);
        printf("\n");
    }
}

void report_density(const struct density *d) {
    char a[32], b[32], c[32];
    if (d->count == 0)
        return;
    printf("\n%u idle sandboxes from one launcher\n", d->count);
    printf("  created in %s, %.0f per second; p50 of the first tenth %s, of the last %s\n",
           stats_time(d->create_us, a), d->count * 1e6 / (double)d->create_us,
           stats_time(d->first_us, b), stats_time(d->last_us, c));
    printf("  killed and reaped in %s; slots of the launcher removed in %s\n",
           stats_time(d->kill_us, a), stats_time(d->close_us, b));
    printf("  memory for each: %.0f KB less in the host without page cache, launcher included\n"
           "    (MemAvailable %.0f KB; of it slab, stacks, page tables, percpu %.0f KB)\n"
           "    PSS of its processes %.0f KB; charged to its control group %.0f KB\n",
           d->used_kb, d->available_kb, d->kernel_kb, d->pss_kb, d->group_kb);
}

/* ---- goals ---- */

static void goal(bool known, bool met, const char *what, const char *numbers) {
    printf("%-8s %s: %s\n", !known ? "unknown" : met ? "met" : "missed", what, numbers);
}

/* p50 of `name` as a multiple of p50 of `base`, at least or at most the limit. */
static void goal_ratio(struct bench *b, const char *what, const char *name, const char *base,
                       double limit, bool at_least) {
    struct row *x = bench_row(b, name), *y = bench_row(b, base);
    char text[256], p[32], q[32];
    if (x == NULL || y == NULL) {
        (void)snprintf(text, sizeof text, "'%s' was not measured", x == NULL ? name : base);
        goal(false, false, what, text);
        return;
    }
    int64_t mine = series_at(&x->times, 0.5), other = series_at(&y->times, 0.5);
    double ratio = (double)mine / (double)other;
    (void)snprintf(text, sizeof text, "%.2f (%s and %s)", ratio, stats_time(mine, p),
                   stats_time(other, q));
    goal(true, at_least ? ratio >= limit : ratio <= limit, what, text);
}

static void goal_time(struct bench *b, const char *what, const char *name, int64_t limit_us) {
    struct row *x = bench_row(b, name);
    char text[32] = "not measured";
    int64_t us = x == NULL ? 0 : series_at(&x->times, 0.5);
    goal(x != NULL, us < limit_us, what, x == NULL ? text : stats_time(us, text));
}

static void goal_rate(const struct bench *b) {
    double best = 0;
    char text[64] = "not measured";
    for (size_t step = 0; b->rate_count > 1 && step < RATE_STEPS; step++)
        best = MAX(best, b->rates[1].per_second[step]);
    if (best > 0)
        (void)snprintf(text, sizeof text, "%.0f", best);
    goal(best > 0, best >= 1000, "1,000 fresh sandboxes per second", text);
}

static void goal_density(const struct density *d) {
    char text[64] = "not measured";
    if (d->count > 0)
        (void)snprintf(text, sizeof text, "%.0f KB with %u alive", d->used_kb, d->count);
    goal(d->count > 0, d->used_kb < 512, "an idle sandbox takes less than 0.5 MB", text);
}

void report_goals(struct bench *b) {
    printf("\ngoals\n");
    goal_ratio(b, "launcher at most 2 times plain vfork+exec of the same", ROW_LAUNCHER, ROW_PLAIN,
               2, false);
    goal_ratio(b, "runc run at least 15 times the launcher", PEER_RUNC, ROW_LAUNCHER, 15, true);
    goal_ratio(b, "docker run at least 150 times the launcher", PEER_DOCKER, ROW_LAUNCHER, 150,
               true);
    goal_rate(b);
    goal_ratio(b, "cay run below bwrap --unshare-all", ROW_RUN, PEER_BWRAP, 1, false);
    goal_ratio(b, "cay run with a daemon at most 4 times plain", ROW_DAEMON, ROW_PLAIN, 4, false);
    goal_ratio(b, "bwrap at least 2 times cay run with a daemon", PEER_BWRAP, ROW_DAEMON, 2, true);
    goal_time(b, "start-up of cay below 1.5 ms", ROW_VERSION, 1500);
    goal_density(&b->density);
    goal_time(b, "exec in a running sandbox below 1 ms", ROW_EXEC, 1000);
    goal_ratio(b, "docker exec at least 50 times exec here", PEER_DOCKER_EXEC, ROW_EXEC, 50, true);
}
