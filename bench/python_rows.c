#include "python_rows.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cay.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "bench.h"
#include "box.h"
#include "lib/python/freeze.h"
#include "lib/python/python.h"

enum { READY = 4 };

/* What a sandbox of a daemon has; bench/box.c gives the same limits. */
static const struct command_defaults defaults = {.hostname = "bench", .work_dir = "/workspace"};

int python_host_open(struct python_host *h, const struct bench_options *o,
                     const char *const *preload, struct cay_error *err) {
    char state[256];
    struct cay_spec spec;
    cay_spec_init(&spec);
    *h = (struct python_host){.client = LAUNCHER_CLIENT_NONE};
    int r = bench_launcher(o, READY, &h->client, err);
    if (r == 0 && str_format(state, sizeof state, "%s/state", o->scratch) < 0)
        r = error_set(err, CAY_INVALID_ARGUMENT, "the folder names are too long");
    cay_engine *engine = NULL;
    if (r == 0)
        r = cay_engine_open(state, &engine, err);
    if (r == 0)
        r = python_warm(engine, &spec, PYTHON_WHOLE, preload, &h->warm, err);
    if (r == 0)
        python_gather(h->warm); /* both as the daemon does */
    cay_engine_close(engine);
    return r;
}

void python_host_close(struct python_host *h) {
    for (size_t i = 0; i < h->waiting_count; i++)
        (void)close(h->waiting[i].fd);
    launcher_client_stop(&h->client);
    fd_close(&h->warm);
}

static int start(struct python_host *h, struct python_box *ret, struct cay_error *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making a connection");
    *ret = (struct python_box){.fd = pair[0], .tag = ++h->tag};
    int r = launcher_client_send(&h->client, ret->tag, &box_spec, pair[1], -1, err);
    (void)close(pair[1]);
    return r;
}

static int run_program(struct python_box *box, const struct cay_python *program,
                       struct cay_error *err) {
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.timeout_ms = 60000;
    exec.capture_max = 65536;
    struct cay_python_result result;
    int r = python_exec(&box->fd, program, &exec, &defaults, &result, err);
    if (r == 0 && (result.run.exit_code != 0 || result.run.out_len == 0))
        r = error_set(err, CAY_INTERNAL, "the program ended with %d", result.run.exit_code);
    cay_python_result_free(&result);
    return r;
}

static int finish(struct python_host *h, const struct python_box *box, struct cay_error *err) {
    return box_wait_ended(&h->client, box->tag, err);
}

int python_on_demand(struct python_host *h, const char *code, int64_t *ret_us,
                     struct cay_error *err) {
    struct python_box box;
    const struct cay_python program = {
        .name = "-c", .code = code, .code_len = strlen(code), .warm = h->warm};
    int64_t begin = clock_us();
    int r = start(h, &box, err);
    if (r == 0)
        r = run_program(&box, &program, err);
    *ret_us = clock_us() - begin;
    return r < 0 ? r : finish(h, &box, err);
}

int python_fill(struct python_host *h, size_t count, struct cay_error *err) {
    int r = 0;
    while (r == 0 && h->waiting_count < count) {
        struct python_box *box = &h->waiting[h->waiting_count];
        r = start(h, box, err);
        if (r == 0)
            r = python_wake(box->fd, h->warm, &defaults, err);
        h->waiting_count += r == 0;
    }
    return r;
}

int python_from_pool(struct python_host *h, const char *code, int64_t *ret_us,
                     struct cay_error *err) {
    const struct cay_python program = {
        .name = "-c", .code = code, .code_len = strlen(code), .waits = true};
    struct python_box box = h->waiting[0];
    memmove(h->waiting, h->waiting + 1, --h->waiting_count * sizeof h->waiting[0]);
    int64_t begin = clock_us();
    int r = run_program(&box, &program, err);
    *ret_us = clock_us() - begin;
    return r < 0 ? r : finish(h, &box, err);
}
