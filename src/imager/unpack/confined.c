#include "imager/unpack/confined.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "imager/unpack/internal.h"

/* What the child says last. */
struct report {
    int result;
    struct cay_error err;
};

_noreturn_ static void run_child(const struct unpack_job *job, confined_work work, int out,
                                 int report) {
    struct report r = {0};
    const int keep[] = {job->in, out, report};
    r.result = unpack_confine(job, UNPACK_READER, keep, ARRAY_LEN(keep), &r.err);
    if (r.result == 0)
        r.result = work(job->in, out, job->limits.bytes, &r.err);
    _exit(fd_write_all(report, &r, sizeof r) == 0 ? 0 : 1);
}

static int start(const struct unpack_job *job, confined_work work, int out, struct confined *ret,
                 struct cay_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, "reading an archive: pipe");
    ret->report = ends[0];
    ret->pid = fork();
    if (ret->pid == 0)
        run_child(job, work, out, ends[1]);
    int saved = errno;
    (void)close(ends[1]);
    if (ret->pid > 0)
        return 0;
    fd_close(&ret->report);
    return error_sys(err, saved, "reading an archive: fork");
}

int confined_start(const struct image_store *store, confined_work work, int in, int out,
                   uint64_t limit, struct confined *ret, struct cay_error *err) {
    *ret = (struct confined){.report = -1};
    _cleanup_(closep) int root = openat(store->dir, "work", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_errno(err, "opening the image store's work folder");
    struct unpack_job job = {.in = -1, .root = -1, .limits = {.bytes = limit}};
    int r = unpack_prepare_job(&job, in, root, err);
    if (r == 0)
        r = start(&job, work, out, ret, err);
    unpack_release_job(&job);
    return r;
}

/* A child that an archive took over may say what it likes. */
int confined_finish(struct confined *c, struct cay_error *err) {
    struct report r;
    int got = fd_read_all(c->report, &r, sizeof r);
    fd_close(&c->report);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (got != 1) {
        error_set(err, CAY_INTERNAL, "reading an archive: its process ended without a report");
        return error_remedy(err, "the archive may be hostile, or memory short; see the kernel log");
    }
    if (r.result == 0)
        return 0;
    error_sanitize(&r.err);
    if (err != NULL)
        *err = r.err;
    return -(int)r.err.code;
}
