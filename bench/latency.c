/* The rows of the first table, interleaved: each round runs them in another order, and a row sits
 * out while it has had more than its share of the time. So slow rows get fewer samples, and
 * whatever else the machine does hits all of them alike. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "bench.h"
#include "box.h"
#include "names.h"

enum { READY = 4, SAMPLES_MAX = 5000, GAP_US = 25000, PATH_SIZE = 256 };

/* What the rows of the launcher share. */
struct box_host {
    struct launcher_client client;
    uint64_t tag;
    char running[PATH_SIZE]; /* socket of the sandbox that stays */
};

static const char *const in_box[] = {BUSYBOX, "true", NULL};

/* ---- kinds of rows ---- */

static int run_command(struct row *r, struct cay_error *err) {
    int64_t us;
    int code = command_run(&r->command, &us, err);
    if (code < 0)
        return code;
    return series_add(&r->times, us) < 0 ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

static int run_box(struct row *r, struct cay_error *err) {
    struct box_host *h = r->host;
    int64_t us, begin = clock_us();
    uint64_t tag = ++h->tag;
    int code = box_run(&h->client, tag, in_box, &us, err);
    if (code == 0)
        code = box_wait_ended(&h->client, tag, err);
    if (code < 0)
        return code;
    int64_t gone = clock_us() - begin;
    if (series_add(&r->times, us) < 0 ||
        (r->behind != NULL && series_add(&r->behind->times, gone) < 0))
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    return 0;
}

static int run_exec(struct row *r, struct cay_error *err) {
    int64_t us;
    int code = box_exec(r->host->running, in_box, &us, err);
    if (code < 0)
        return code;
    return series_add(&r->times, us) < 0 ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

/* ---- the list ---- */

static struct row *add(struct bench *b, const char *name, row_fn *run) {
    if (b->row_count == ROWS_MAX)
        abort();
    struct row *r = &b->rows[b->row_count++];
    *r = (struct row){.run = run, .weight = 1};
    (void)snprintf(r->name, sizeof r->name, "%s", name);
    return r;
}

/* A program with up to three arguments; not there if it is not installed. */
static struct row *add_program(struct bench *b, const char *name, const char *program,
                               const char *const *args) {
    if (access(program, X_OK) < 0)
        return NULL;
    struct row *r = add(b, name, run_command);
    r->command.argv[0] = strdup(program);
    for (size_t i = 0; args != NULL && args[i] != NULL; i++)
        r->command.argv[i + 1] = args[i];
    return r;
}

static int add_plain(struct bench *b, struct cay_error *err) {
    char path[PATH_SIZE];
    static const char *const args[] = {"true", NULL};
    if (add_program(b, ROW_PLAIN, BUSYBOX, args) == NULL) {
        error_set(err, CAY_NOT_FOUND, BUSYBOX " is not there, and all is measured against it");
        return error_remedy(err, "install busybox-static: scripts/setup --bench");
    }
    add_program(b, ROW_PLAIN_GAP, BUSYBOX, args)->gap_us = GAP_US;
    if (str_format(path, sizeof path, "%s/static-true", b->options.trues) == 0)
        (void)add_program(b, "plain: true, static glibc", path, NULL);
    if (str_format(path, sizeof path, "%s/musl-true", b->options.trues) == 0)
        (void)add_program(b, "plain: true, static musl", path, NULL);
    (void)add_program(b, "plain: /bin/true, dynamic glibc", "/bin/true", NULL);
    return 0;
}

static void add_launcher(struct bench *b, struct box_host *host) {
    struct row *r = add(b, ROW_LAUNCHER, run_box), *gone = add(b, ROW_GONE, NULL);
    r->weight = 2;
    r->host = host;
    r->behind = gone;
    r = add(b, ROW_LAUNCHER_GAP, run_box);
    r->host = host;
    r->gap_us = GAP_US;
    add(b, ROW_EXEC, run_exec)->host = host;
}

static int add_cay(struct bench *b, struct cay_error *err) {
    static char cay[PATH_SIZE], state[PATH_SIZE];
    static const char *const version[] = {"version", NULL};
    static const char *const run[] = {"run", "--state-dir", state, "--", "/bin/true", NULL};
    static const char *const busybox[] = {"run", "--state-dir", state, "--", BUSYBOX, "true", NULL};
    if (str_format(cay, sizeof cay, "%s/cay", b->options.programs) < 0 ||
        str_format(state, sizeof state, "%s/state", b->options.scratch) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the folder names are too long");
    if (add_program(b, ROW_VERSION, cay, version) == NULL)
        return error_set(err, CAY_NOT_FOUND, "'%s' is not built", cay);
    add_program(b, ROW_RUN, cay, run)->weight = 2;
    (void)add_program(b, ROW_RUN_BUSYBOX, cay, busybox);
    if (b->options.daemon == NULL)
        return 0;
    const char *const prepared[] = {"run", "--state-dir", b->options.daemon,
                                    "--",  "/bin/true",   NULL};
    add_program(b, ROW_DAEMON, cay, prepared)->weight = 2;
    add_program(b, ROW_DAEMON_GAP, cay, prepared)->gap_us = GAP_US;
    return 0;
}

static int add_peers(struct bench *b, struct cay_error *err) {
    for (size_t i = 0; i < b->peer_count; i++) {
        const struct peer *p = &b->peers[i];
        struct row *r = add(b, p->name, run_command);
        r->weight = p->weight;
        memcpy(r->why, p->why, sizeof r->why);
        int code = p->why[0] != '\0' ? 0 : peer_command(p, 0, &r->command, err);
        if (code < 0)
            return code;
    }
    return 0;
}

/* ---- running ---- */

static bool is_wanted(const struct row *r, int64_t elapsed_us, double all) {
    return r->run != NULL && r->why[0] == '\0' && r->times.count < SAMPLES_MAX &&
           (double)r->spent_us <= (double)elapsed_us * r->weight / all;
}

static void run_row(struct row *r) {
    struct cay_error err = {0};
    int64_t begin = clock_us();
    if (r->gap_us > 0)
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = r->gap_us * 1000},
                              NULL);
    if (r->run(r, &err) < 0)
        (void)snprintf(r->why, sizeof r->why, "%.150s", err.message);
    r->spent_us += clock_us() - begin;
}

static void shuffle(size_t *order, size_t count) {
    for (size_t i = count; i > 1; i--) {
        size_t j = (size_t)random() % i, moved = order[i - 1];
        order[i - 1] = order[j];
        order[j] = moved;
    }
}

/* The first run of each makes what the others find ready. */
static void warm_up(struct bench *b) {
    for (size_t i = 0; i < b->row_count; i++) {
        struct row *r = &b->rows[i];
        if (r->run != NULL && r->why[0] == '\0')
            run_row(r);
    }
    for (size_t i = 0; i < b->row_count; i++) {
        series_free(&b->rows[i].times);
        b->rows[i].spent_us = 0;
    }
}

static void run_rounds(struct bench *b) {
    size_t order[ROWS_MAX];
    double all = 0;
    for (size_t i = 0; i < b->row_count; i++) {
        order[i] = i;
        all += b->rows[i].run != NULL && b->rows[i].why[0] == '\0' ? b->rows[i].weight : 0;
    }
    int64_t begin = clock_us(), end = begin + b->options.latency_ms * 1000;
    while (clock_us() < end) {
        shuffle(order, b->row_count);
        for (size_t i = 0; i < b->row_count && clock_us() < end; i++) {
            struct row *r = &b->rows[order[i]];
            if (is_wanted(r, clock_us() - begin, all))
                run_row(r);
        }
    }
}

int bench_latency(struct bench *b, struct cay_error *err) {
    struct box_host host = {.client = LAUNCHER_CLIENT_NONE};
    int r = add_plain(b, err);
    if (r == 0)
        add_launcher(b, &host);
    if (r == 0)
        r = add_cay(b, err);
    if (r == 0)
        r = add_peers(b, err);
    if (r == 0)
        r = bench_launcher(&b->options, READY, &host.client, err);
    if (r < 0)
        return r;
    pid_t pid;
    r = str_format(host.running, sizeof host.running, "%s/running", b->options.scratch);
    r = r < 0 ? error_sys(err, -r, "naming a socket")
              : box_start_listening(&host.client, 0, host.running, &pid, err);
    if (r == 0) {
        warm_up(b);
        run_rounds(b);
    }
    launcher_client_stop(&host.client);
    (void)unlink(host.running);
    return r;
}

struct row *bench_row(struct bench *b, const char *name) {
    for (size_t i = 0; i < b->row_count; i++)
        if (str_equal(b->rows[i].name, name) && b->rows[i].times.count > 0)
            return &b->rows[i];
    return NULL;
}
