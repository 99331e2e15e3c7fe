/* Fresh sandboxes per second: so many workers, each a process with a launcher of its own, or
 * running a peer's program over and over. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "bench.h"
#include "box.h"
#include "names.h"

enum { READY = 4, IN_FLIGHT = 4 };

static const unsigned steps[RATE_STEPS] = {1, 2, 4, 8};

/* What one kind of worker does until the end of the window; counts what it finished. */
struct work {
    const struct bench *b;
    const struct peer *peer; /* NULL: sandboxes of ours, or plain if that is set */
    bool plain;
};

struct gate {
    int ready[2]; /* a worker writes a byte, later its count */
    int go[2];    /* the parent closes it */
};

/* ---- a worker ---- */

static int wait_for_go(const struct gate *g) {
    char byte = 0;
    if (fd_write_all(g->ready[1], &byte, 1) < 0)
        return -1;
    return read(g->go[0], &byte, 1) == 0 ? 0 : -1;
}

static int repeat_command(const struct command *c, const struct gate *g, int64_t window_ms,
                          uint32_t *ret) {
    struct cay_error err;
    int64_t us;
    if (command_run(c, &us, &err) < 0 || wait_for_go(g) < 0)
        return -1;
    int64_t end = clock_ms() + window_ms;
    while (clock_ms() < end && command_run(c, &us, &err) == 0)
        ++*ret;
    return 0;
}

/* Takes what the launcher has to say, and waits while too many sandboxes have not ended. */
static int collect_ends(const struct launcher_client *c, unsigned *open, unsigned most,
                        uint32_t *ended) {
    struct cay_error err;
    struct launcher_answer a;
    struct pollfd p = {.fd = c->sock, .events = POLLIN};
    while (*open > most || poll(&p, 1, 0) > 0) {
        if (launcher_client_next(c, &a, &err) < 0 || a.event == LAUNCHER_FAILED)
            return -1;
        if (a.event == LAUNCHER_ENDED) {
            --*open;
            ++*ended;
        }
    }
    return 0;
}

static int repeat_boxes(const struct bench *b, const struct gate *g, uint32_t *ret) {
    static const char *const argv[] = {BUSYBOX, "true", NULL};
    struct launcher_client c;
    struct cay_error err;
    int64_t us, end = INT64_MAX;
    unsigned open = 0;
    if (bench_launcher(&b->options, READY, &c, &err) < 0)
        return -1;
    int r = 0;
    for (uint64_t tag = 1; r == 0 && clock_ms() < end; tag++) {
        r = box_run(&c, tag, argv, &us, &err);
        open += r == 0;
        if (r == 0)
            r = collect_ends(&c, &open, tag == 1 ? 0 : IN_FLIGHT - 1, ret);
        if (r < 0 || tag > 1)
            continue;
        *ret = 0;
        r = wait_for_go(g);
        end = clock_ms() + b->options.rate_ms;
    }
    launcher_client_stop(&c);
    return r;
}

static int work(const struct work *w, unsigned worker, const struct gate *g, uint32_t *ret) {
    struct command c = {.argv = {BUSYBOX, "true"}};
    struct cay_error err;
    if (w->peer != NULL && peer_command(w->peer, worker, &c, &err) < 0)
        return -1;
    return w->peer != NULL || w->plain ? repeat_command(&c, g, w->b->options.rate_ms, ret)
                                       : repeat_boxes(w->b, g, ret);
}

static _noreturn_ void worker_main(const struct work *w, unsigned worker, struct gate *g) {
    uint32_t count = 0;
    fd_close(&g->go[1]);
    int r = work(w, worker, g, &count);
    if (r == 0)
        r = fd_write_all(g->ready[1], &count, sizeof count);
    _exit(r < 0);
}

/* ---- the parent ---- */

static unsigned start_workers(const struct work *w, unsigned count, struct gate *g) {
    unsigned started = 0;
    for (unsigned i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0)
            worker_main(w, i, g);
        started += pid > 0;
    }
    return started;
}

/* The sum of what they counted, or negative. All of them are reaped. */
static double collect(unsigned started, unsigned wanted, struct gate *g) {
    char bytes[64];
    double sum = 0;
    bool ok = started == wanted && started <= sizeof bytes;
    fd_close(&g->ready[1]);
    ok = ok && fd_read_all(g->ready[0], bytes, started) == 1;
    fd_close(&g->go[1]);
    for (unsigned i = 0; ok && i < started; i++) {
        uint32_t count;
        ok = fd_read_all(g->ready[0], &count, sizeof count) == 1;
        sum += ok ? count : 0;
    }
    for (unsigned i = 0; i < started; i++) {
        int status = -1;
        while (wait(&status) < 0 && errno == EINTR)
            ;
        ok = ok && status == 0;
    }
    return ok ? sum : -1;
}

static double measure(const struct work *w, unsigned workers) {
    struct gate g = {{-1, -1}, {-1, -1}};
    double sum = -1;
    if (pipe2(g.ready, O_CLOEXEC) == 0 && pipe2(g.go, O_CLOEXEC) == 0)
        sum = collect(start_workers(w, workers, &g), workers, &g);
    for (size_t i = 0; i < 2; i++) {
        fd_close(&g.ready[i]);
        fd_close(&g.go[i]);
    }
    return sum < 0 ? -1 : sum * 1000 / (double)w->b->options.rate_ms;
}

int bench_rates(struct bench *b, struct cay_error *err) {
    struct work works[RATES_MAX] = {{.b = b, .plain = true}, {.b = b}};
    (void)snprintf(b->rates[0].name, NAME_SIZE, "%s", ROW_PLAIN);
    (void)snprintf(b->rates[1].name, NAME_SIZE, "%s", ROW_LAUNCHER);
    b->rate_count = 2;
    for (size_t i = 0; i < b->peer_count && b->rate_count < RATES_MAX; i++) {
        if (!b->peers[i].rated)
            continue;
        memcpy(b->rates[b->rate_count].name, b->peers[i].name, NAME_SIZE);
        works[b->rate_count++] = (struct work){.b = b, .peer = &b->peers[i]};
    }
    memcpy(b->workers, steps, sizeof steps);
    for (size_t step = 0; step < RATE_STEPS; step++)
        for (size_t i = 0; i < b->rate_count; i++)
            b->rates[i].per_second[step] = measure(&works[i], steps[step]);
    if (b->rates[1].per_second[0] < 0)
        return error_set(err, CAY_INTERNAL, "a worker of the launcher failed");
    return 0;
}
