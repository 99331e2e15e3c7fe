/* Many idle sandboxes from one launcher: what each costs in memory, and how fast they come and go.
 *
 * Memory is taken in several ways, because none sees all of it: what the host has less of (used
 * memory without the page cache, and MemAvailable), the kernel's own part of that (slab, stacks,
 * page tables, per-cpu), the pages of the processes (PSS), and what their control groups were
 * charged. The first one counts everything, and everything that anybody else does meanwhile. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "bench.h"
#include "box.h"

enum { PATH_SIZE = 256, READY = 8 };

struct memory {
    double used, available, kernel; /* KB */
};

/* ---- looking ---- */

static double field(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at == NULL ? 0 : strtod(at + strlen(name), NULL);
}

/* Free pages, in KB, that each processor keeps at hand. MemFree does not count them, and after many
 * processes have ended they are hundreds of MB, which then seem to be used. */
static double read_kept(void) {
    static char text[1 << 18];
    double pages = 0;
    if (fd_read_file_at(AT_FDCWD, "/proc/zoneinfo", text, sizeof text) < 0)
        return 0;
    for (const char *at = text; (at = strstr(at, " count:")) != NULL; at++)
        pages += field(at, " count:");
    return pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

static int read_memory(struct memory *ret, struct cay_error *err) {
    char text[8192];
    ssize_t n = fd_read_file_at(AT_FDCWD, "/proc/meminfo", text, sizeof text);
    if (n < 0)
        return error_sys(err, (int)-n, "reading /proc/meminfo");
    double cache = field(text, "\nBuffers:") + field(text, "\nCached:") - field(text, "\nShmem:");
    double kept = read_kept();
    ret->used = field(text, "MemTotal:") - field(text, "MemFree:") - kept - cache;
    ret->available = field(text, "MemAvailable:") + kept;
    ret->kernel = field(text, "\nSlab:") + field(text, "\nKernelStack:") +
                  field(text, "\nPageTables:") + field(text, "\nPercpu:");
    return 0;
}

static double read_pss(pid_t pid) {
    char path[64], text[4096];
    (void)snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    return fd_read_file_at(AT_FDCWD, path, text, sizeof text) < 0 ? 0 : field(text, "Pss:");
}

/* What the memory group of a process was charged, in KB; version 1 or 2. */
static double read_charge(pid_t pid) {
    char path[PATH_SIZE], text[4096], number[64];
    (void)snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
    if (fd_read_file_at(AT_FDCWD, path, text, sizeof text) < 0)
        return 0;
    const char *v1 = strstr(text, ":memory:"), *v2 = strstr(text, "0::");
    const char *at = v1 != NULL ? v1 + strlen(":memory:") : v2 != NULL ? v2 + strlen("0::") : "";
    int r = str_format(path, sizeof path, "/sys/fs/cgroup%s%.*s/%s", v1 != NULL ? "/memory" : "",
                       (int)strcspn(at, "\n"), at,
                       v1 != NULL ? "memory.usage_in_bytes" : "memory.current");
    if (r < 0 || fd_read_file_at(AT_FDCWD, path, number, sizeof number) < 0)
        return 0;
    return strtod(number, NULL) / 1024;
}

/* ---- making and ending ---- */

static int64_t median(const int64_t *us, unsigned count) {
    struct series s = {0};
    for (unsigned i = 0; i < count; i++)
        (void)series_add(&s, us[i]); /* fewer samples, if memory is short */
    int64_t p50 = series_at(&s, 0.5);
    series_free(&s);
    return p50;
}

static int create_all(const struct launcher_client *c, const char *scratch, pid_t *pids,
                      struct density *d, struct cay_error *err) {
    _cleanup_(freep) int64_t *us = calloc(d->count, sizeof *us);
    if (us == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    int64_t begin = clock_us();
    for (unsigned i = 0; i < d->count; i++) {
        char path[PATH_SIZE];
        int64_t start = clock_us();
        int r = str_format(path, sizeof path, "%s/idle-%u", scratch, i);
        r = r < 0 ? error_sys(err, -r, "naming a socket")
                  : box_start_listening(c, i, path, &pids[i], err);
        if (r < 0)
            return error_prefix(err, "sandbox %u of %u", i + 1, d->count);
        us[i] = clock_us() - start;
    }
    unsigned tenth = MAX(d->count / 10, 1U);
    d->create_us = clock_us() - begin;
    d->first_us = median(us, tenth);
    d->last_us = median(us + d->count - tenth, tenth);
    return 0;
}

static int end_all(const struct launcher_client *c, struct density *d, struct cay_error *err) {
    int64_t begin = clock_us();
    for (unsigned i = 0; i < d->count; i++) {
        int r = launcher_client_end(c, i, err);
        if (r < 0)
            return r;
    }
    for (unsigned ended = 0; ended < d->count;) {
        struct launcher_answer a;
        int r = launcher_client_next(c, &a, err);
        if (r < 0)
            return r;
        ended += a.event == LAUNCHER_ENDED;
    }
    d->kill_us = clock_us() - begin;
    return 0;
}

static void remove_sockets(const struct bench_options *o) {
    for (unsigned i = 0; i < o->density; i++) {
        char path[PATH_SIZE];
        if (str_format(path, sizeof path, "%s/idle-%u", o->scratch, i) == 0)
            (void)unlink(path); /* not there if it failed before */
    }
}

static void settle(void) {
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_sec = 1}, NULL);
}

/* Memory groups that were removed before, but are held by pages of files that somebody read in
 * them, get room for each of our file systems like those that are alive. */
static void let_go_of_removed_groups(void) {
    sync(); /* or pages that are to be written hold them still */
    (void)fd_write_file_at(AT_FDCWD, "/proc/sys/vm/drop_caches", "1"); /* more is counted then */
}

static int measure(const struct memory *before, const pid_t *pids, struct density *d,
                   struct cay_error *err) {
    struct memory now;
    settle();
    int r = read_memory(&now, err);
    if (r < 0)
        return r;
    d->used_kb = (now.used - before->used) / d->count;
    d->available_kb = (before->available - now.available) / d->count;
    d->kernel_kb = (now.kernel - before->kernel) / d->count;
    for (unsigned i = 0; i < d->count; i++) {
        d->pss_kb += read_pss(pids[i]) / d->count;
        d->group_kb += read_charge(pids[i]) / d->count;
    }
    return 0;
}

static int run(const struct bench_options *o, struct launcher_client *c, struct density *d,
               struct cay_error *err) {
    struct memory before;
    _cleanup_(freep) pid_t *pids = calloc(o->density, sizeof *pids);
    if (pids == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    let_go_of_removed_groups();
    settle();
    int r = read_memory(&before, err);
    if (r == 0)
        r = bench_launcher(o, READY, c, err);
    if (r == 0)
        r = create_all(c, o->scratch, pids, d, err);
    if (r == 0)
        r = measure(&before, pids, d, err);
    return r < 0 ? r : end_all(c, d, err);
}

int bench_density(struct bench *b, struct cay_error *err) {
    struct launcher_client c = LAUNCHER_CLIENT_NONE;
    struct density *d = &b->density;
    d->count = b->options.density;
    int r = run(&b->options, &c, d, err);
    int64_t begin = clock_us();
    launcher_client_stop(&c);
    d->close_us = clock_us() - begin;
    remove_sockets(&b->options);
    if (r < 0)
        d->count = 0;
    return r;
}
