#include "imager/unpack/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/fd.h"
#include "imager/layer/digest.h"
#include "imager/unpack/internal.h"

enum { PIPE_SIZE = 1024 * 1024 };

#define MIB (UINT64_C(1024) * 1024)
#define GIB (1024 * MIB)

/* One of the two children, as the parent sees it. */
struct child {
    pid_t pid;
    int report;
    bool ended; /* it has said its last word, or will never */
    struct unpack_report last;
};

struct unpack_limits unpack_fill_limits(const struct unpack_limits *limits) {
    static const struct unpack_limits none = {0};
    const struct unpack_limits *l = limits != NULL ? limits : &none;
    return (struct unpack_limits){
        .bytes = l->bytes != 0 ? l->bytes : 64 * GIB,
        .entries = l->entries != 0 ? l->entries : 2000000,
        .depth = l->depth != 0 ? MIN(l->depth, (unsigned)UNPACK_DEPTH_MAX) : 256,
        .ratio = l->ratio != 0 ? l->ratio : 1000,
    };
}

/* ---- before the fork ---- */

/* True if the namespace maps root alone; then every chown to another id fails. */
static bool has_single_id(void) {
    char text[4096];
    unsigned long long inside, outside, count, sum = 0;
    if (fd_read_file_at(AT_FDCWD, "/proc/self/uid_map", text, sizeof text) < 0)
        return false;
    int used = 0;
    for (const char *p = text; sscanf(p, "%llu %llu %llu%n", &inside, &outside, &count, &used) == 3;
         p += used)
        sum += count;
    return sum == 1;
}

/* Some more than is in use, which may be much where the parent has a sanitizer or many threads. */
static uint64_t memory_limit(void) {
    char text[256];
    unsigned long long pages = 0;
    if (fd_read_file_at(AT_FDCWD, "/proc/self/statm", text, sizeof text) < 0 ||
        sscanf(text, "%*u %*u %*u %*u %*u %llu", &pages) != 1)
        return 2 * GIB;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE) + GIB;
}

void unpack_release_job(struct unpack_job *job) {
    fd_close(&job->in);
    fd_close(&job->root);
    digest_free(job->blob);
    digest_free(job->tar);
    if (job->locale != (locale_t)0)
        freelocale(job->locale);
}

/* The children put /dev/null in place of the standard descriptors, one of which may be the input.
 */
int unpack_prepare_job(struct unpack_job *job, int in, int root, struct cay_error *err) {
    job->in = fcntl(in, F_DUPFD_CLOEXEC, 3);
    job->root = fcntl(root, F_DUPFD_CLOEXEC, 3);
    if (job->in < 0 || job->root < 0)
        return error_errno(err, "unpacking a layer");
    job->single_id = has_single_id();
    job->memory = memory_limit();
    job->parent = getpid();
    job->blob = digest_new();
    job->tar = digest_new();
    job->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (job->blob == NULL || job->tar == NULL)
        return error_sys(err, ENOMEM, "unpacking a layer");
    if (job->locale == (locale_t)0) {
        error_errno(err, "unpacking a layer: locale C.UTF-8");
        return error_remedy(err, "install the locale C.UTF-8 (package libc-bin)");
    }
    return 0;
}

/* ---- children ---- */

/* data is the pipe between the two: the reader writes, the applier reads. */
_noreturn_ static void run_child(const struct unpack_job *job, enum unpack_role role, int data,
                                 int report) {
    struct unpack_report r = {.kind = UNPACK_DONE};
    const int reader[] = {job->in, data, report};
    const int applier[] = {job->root, data, report};
    int result = unpack_confine(job, role, role == UNPACK_READER ? reader : applier, 3, &r.err);
    if (result == 0 && role == UNPACK_READER)
        result = unpack_read(job, data, report, &r.result, &r.err);
    else if (result == 0)
        result = unpack_apply(data, job->root, job->form, &job->limits, job->single_id, &r.result,
                              &r.err);
    if (result < 0)
        r.kind = UNPACK_FAILED;
    _exit(fd_write_all(report, &r, sizeof r) == 0 && result == 0 ? 0 : 1);
}

static int start_child(struct child *c, const struct unpack_job *job, enum unpack_role role,
                       int data, struct cay_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, "unpacking a layer: pipe");
    c->report = ends[0];
    c->pid = fork();
    if (c->pid == 0)
        run_child(job, role, data, ends[1]);
    int saved = errno;
    (void)close(ends[1]);
    return c->pid < 0 ? error_sys(err, saved, "unpacking a layer: fork") : 0;
}

bool unpack_take_report(int fd, struct unpack_report *r) {
    if (fd_read_all(fd, r, sizeof *r) != 1) {
        *r = (struct unpack_report){.kind = UNPACK_FAILED};
        (void)error_set(&r->err, CAY_INTERNAL,
                        "unpacking a layer: its process ended without a report");
        (void)error_remedy(&r->err, "the archive may be hostile or memory short; see the kernel "
                                    "log");
        return true;
    }
    r->result.blob[HEX_SIZE - 1] = r->result.diff_id[HEX_SIZE - 1] = '\0';
    if (r->kind == UNPACK_FAILED)
        error_sanitize(&r->err);
    else if (r->kind != UNPACK_DONE)
        r->kind = UNPACK_PROGRESS;
    return r->kind != UNPACK_PROGRESS;
}

static void follow(struct child children[static 2], unpack_progress progress, void *user) {
    while (!children[0].ended || !children[1].ended) {
        struct pollfd fds[2];
        for (int i = 0; i < 2; i++)
            fds[i] = (struct pollfd){.fd = children[i].ended ? -1 : children[i].report,
                                     .events = POLLIN};
        if (poll(fds, 2, -1) < 0)
            continue;
        for (int i = 0; i < 2; i++) {
            if (fds[i].revents == 0)
                continue;
            children[i].ended = unpack_take_report(children[i].report, &children[i].last);
            if (i == UNPACK_READER && children[i].last.kind != UNPACK_FAILED && progress != NULL)
                progress(user, children[i].last.result.blob_size);
        }
    }
}

/* Ends what still runs: after one failed there is nothing left to do for the other. */
static void reap(struct child *c) {
    if (c->report >= 0)
        (void)close(c->report);
    if (c->pid <= 0)
        return;
    if (c->last.kind != UNPACK_DONE)
        (void)kill(c->pid, SIGKILL);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* What failed first counts: a reader without a listener only says that the applier failed, and an
 * applier at an early end that the reader did. */
static int conclude(const struct child children[static 2], struct unpack_result *ret,
                    struct cay_error *err) {
    const struct unpack_report *reader = &children[UNPACK_READER].last;
    const struct unpack_report *applier = &children[UNPACK_APPLIER].last;
    const struct unpack_report *bad = NULL;
    if (reader->kind != UNPACK_DONE && reader->err.sys != EPIPE)
        bad = reader;
    else if (applier->kind != UNPACK_DONE)
        bad = applier;
    else if (reader->kind != UNPACK_DONE)
        bad = reader;
    if (bad != NULL) {
        if (err != NULL)
            *err = bad->err;
        return -(int)bad->err.code;
    }
    *ret = applier->result;
    ret->blob_size = reader->result.blob_size;
    memcpy(ret->blob, reader->result.blob, HEX_SIZE);
    memcpy(ret->diff_id, reader->result.diff_id, HEX_SIZE);
    return 0;
}

static int run_children(const struct unpack_job *job, unpack_progress progress, void *user,
                        struct unpack_result *ret, struct cay_error *err) {
    struct child children[2] = {{.report = -1}, {.report = -1}};
    int data[2];
    if (pipe2(data, O_CLOEXEC) < 0)
        return error_errno(err, "unpacking a layer: pipe");
    (void)fcntl(data[1], F_SETPIPE_SZ, PIPE_SIZE); /* a user's share may be used up: slower then */
    int r = start_child(&children[UNPACK_READER], job, UNPACK_READER, data[1], err);
    if (r == 0)
        r = start_child(&children[UNPACK_APPLIER], job, UNPACK_APPLIER, data[0], err);
    (void)close(data[0]);
    (void)close(data[1]);
    if (r == 0) {
        follow(children, progress, user);
        r = conclude(children, ret, err);
    }
    for (int i = 0; i < 2; i++)
        reap(&children[i]);
    return r;
}

static int unpack(struct unpack_job *job, int in, int root, unpack_progress progress, void *user,
                  struct unpack_result *ret, struct cay_error *err) {
    int r = unpack_prepare_job(job, in, root, err);
    if (r == 0)
        r = run_children(job, progress, user, ret, err);
    unpack_release_job(job);
    return r;
}

int unpack_layer(int in, int root, const struct unpack_limits *limits, unpack_progress progress,
                 void *user, struct unpack_result *ret, struct cay_error *err) {
    struct unpack_job job = {.limits = unpack_fill_limits(limits)};
    return unpack(&job, in, root, progress, user, ret, err);
}

int unpack_archive(int in, int root, unpack_progress progress, void *user,
                   struct unpack_result *ret, struct cay_error *err) {
    struct unpack_job job = {.form = UNPACK_RAW,
                             .limits = {.bytes = INT64_MAX,
                                        .entries = UINT64_MAX,
                                        .depth = UNPACK_DEPTH_MAX,
                                        .ratio = UINT_MAX}};
    return unpack(&job, in, root, progress, user, ret, err);
}
