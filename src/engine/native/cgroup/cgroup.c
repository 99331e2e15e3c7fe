#include "engine/native/cgroup/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/native/cgroup/backend.h"

enum { CPU_QUOTA_MIN_US = 1000, COUNTER_SIZE = 256 };

#define MEMBERS_FILE "pids.current"

const struct cgroup_backend *cgroup_backend_of(const struct cgroup_host *host) {
    return host->version == CGROUP_V1 ? &cgroup_v1_backend : &cgroup_v2_backend;
}

static int check_id(const char *id, struct cay_error *err) {
    if (id_is_valid(id))
        return 0;
    char shown[64];
    return error_set(err, CAY_INVALID_ARGUMENT, "'%s' is not the id of a sandbox",
                     str_escape(shown, sizeof shown, id));
}

/* Removes the folder from the first `count` hierarchies; the first failure is returned. */
static int remove_folders(const struct cgroup_host *host, const char *id, size_t count) {
    int result = 0;
    for (size_t i = count; i-- > 0;) {
        const struct cgroup_hierarchy *h = &host->hierarchies[i];
        if (h->shared || unlinkat(h->parent, id, AT_REMOVEDIR) == 0 || errno == ENOENT)
            continue;
        if (result == 0)
            result = -errno;
    }
    return result;
}

static int make_folders(const struct cgroup_host *host, const char *id, struct cay_error *err) {
    for (size_t i = 0; i < host->hierarchy_count; i++) {
        const struct cgroup_hierarchy *h = &host->hierarchies[i];
        if (h->shared || mkdirat(h->parent, id, 0755) == 0)
            continue;
        int sys = errno;
        (void)remove_folders(host, id, i);
        error_sys(err, sys, "making the cgroup %s/%s", h->path, id);
        if (sys == EEXIST)
            return error_remedy(err, "remove the sandbox that has this id first");
        if (sys == ENOMEM || sys == ENOSPC || sys == EAGAIN)
            return error_remedy(err, "the kernel's limit of cgroups is reached: remove sandboxes");
        return -(int)error_class(sys);
    }
    return 0;
}

static int set_pids(const struct cgroup *cgroup, uint32_t pids, struct cay_error *err) {
    char text[16] = "max";
    int r = pids == 0 ? 0 : str_format(text, sizeof text, "%u", pids);
    if (r == 0)
        r = cgroup_write(cgroup->host, CGROUP_PIDS, cgroup->id, "pids.max", text);
    return r < 0 ? error_sys(err, -r, "setting the process limit of %s to %u", cgroup->id, pids)
                 : 0;
}

static int check_limits(const struct cgroup_host *host, const struct cgroup_limits *limits,
                        struct cay_error *err) {
    int r = limits->memory_bytes != 0 ? cgroup_require(host, CGROUP_MEMORY, err) : 0;
    if (r == 0 && limits->cpu_quota_us_per_100ms != 0)
        r = cgroup_require(host, CGROUP_CPU, err);
    if (r == 0 && limits->pids != 0)
        r = cgroup_require(host, CGROUP_PIDS, err);
    if (r < 0)
        return r;
    if (limits->cpu_quota_us_per_100ms != 0 && limits->cpu_quota_us_per_100ms < CPU_QUOTA_MIN_US) {
        error_set(err, CAY_INVALID_ARGUMENT, "a cpu limit of %llu us per 100 ms is too small",
                  (unsigned long long)limits->cpu_quota_us_per_100ms);
        return error_remedy(err, "use at least 0.01 cpus");
    }
    return 0;
}

/* Writes what differs from `old`, which is what a new group has when all zero. */
static int write_limits(const struct cgroup *cgroup, const struct cgroup_limits *old,
                        const struct cgroup_limits *limits, struct cay_error *err) {
    const struct cgroup_backend *backend = cgroup_backend_of(cgroup->host);
    int r = 0;
    if (limits->memory_bytes != old->memory_bytes)
        r = backend->set_memory(cgroup, limits->memory_bytes, err);
    if (r == 0 && limits->cpu_quota_us_per_100ms != old->cpu_quota_us_per_100ms)
        r = backend->set_cpu(cgroup, limits->cpu_quota_us_per_100ms, err);
    if (r == 0 && limits->pids != old->pids)
        r = set_pids(cgroup, limits->pids, err);
    return r;
}

static int open_group(const struct cgroup_host *host, const char *id, struct cgroup *ret,
                      struct cay_error *err) {
    *ret = CGROUP_EMPTY;
    ret->host = host;
    memcpy(ret->id, id, ID_SIZE);
    int r = host->version == CGROUP_NONE ? 0 : cgroup_backend_of(host)->open(ret, err);
    if (r < 0)
        cgroup_close(ret);
    return r;
}

int cgroup_create(const struct cgroup_host *host, const char *id,
                  const struct cgroup_limits *limits, struct cgroup *ret, struct cay_error *err) {
    *ret = CGROUP_EMPTY;
    int r = check_id(id, err);
    if (r == 0)
        r = check_limits(host, limits, err);
    if (r == 0)
        r = make_folders(host, id, err);
    if (r < 0)
        return r;
    struct cgroup made;
    r = open_group(host, id, &made, err);
    if (r == 0)
        r = write_limits(&made, &(struct cgroup_limits){0}, limits, err);
    if (r < 0) {
        cgroup_close(&made);
        (void)remove_folders(host, id, host->hierarchy_count);
        return r;
    }
    made.limits = *limits;
    made.limits_known = true;
    *ret = made;
    return 0;
}

int cgroup_open(const struct cgroup_host *host, const char *id, struct cgroup *ret,
                struct cay_error *err) {
    *ret = CGROUP_EMPTY;
    int r = check_id(id, err);
    return r < 0 ? r : open_group(host, id, ret, err);
}

static int open_counter(const struct cgroup *cgroup, enum cgroup_controller controller,
                        const char *file, int *ret) {
    const struct cgroup_host *host = cgroup->host;
    if (*ret >= 0 || !host->support[controller].usable)
        return 0;
    const struct cgroup_hierarchy *h = &host->hierarchies[host->where[controller]];
    int fd = cgroup_open_file(h, cgroup->id, file, O_RDONLY);
    if (fd < 0)
        return fd;
    *ret = fd;
    return 0;
}

int cgroup_keep_counters(struct cgroup *cgroup) {
    const char *oom_file = cgroup_backend_of(cgroup->host)->oom_file;
    int r = open_counter(cgroup, CGROUP_MEMORY, oom_file, &cgroup->oom);
    return r < 0 ? r : open_counter(cgroup, CGROUP_PIDS, MEMBERS_FILE, &cgroup->members);
}

void cgroup_close_door(struct cgroup *cgroup) {
    for (size_t i = 0; i < ARRAY_LEN(cgroup->tasks); i++)
        fd_close(&cgroup->tasks[i]);
    fd_close(&cgroup->dirfd);
}

void cgroup_close(struct cgroup *cgroup) {
    cgroup_close_door(cgroup);
    fd_close(&cgroup->oom);
    fd_close(&cgroup->members);
    cgroup->host = NULL;
}

static int join(int tasks) {
    /* "0" is the calling thread. Moving only itself is what makes it fast: a whole thread group
     * waits for an RCU grace period, some ten milliseconds. */
    while (syscall(SYS_write, tasks, "0", (size_t)1) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

int cgroup_attach_self(const struct cgroup *cgroup) {
    if (cgroup->host == NULL)
        return -EBADF;
    for (size_t i = 0; i < ARRAY_LEN(cgroup->tasks) && cgroup->tasks[i] >= 0; i++) {
        int r = join(cgroup->tasks[i]);
        if (r < 0)
            return r;
    }
    return cgroup->host->shared_tasks >= 0 ? join(cgroup->host->shared_tasks) : 0;
}

int cgroup_set_limits(struct cgroup *cgroup, const struct cgroup_limits *limits,
                      struct cay_error *err) {
    int r = check_limits(cgroup->host, limits, err);
    if (r < 0)
        return r;
    struct cgroup_limits old = cgroup->limits;
    if (!cgroup->limits_known) { /* make every limit differ whose controller is there */
        const struct cgroup_support *s = cgroup->host->support;
        old.memory_bytes = limits->memory_bytes ^ (s[CGROUP_MEMORY].usable ? 1 : 0);
        old.cpu_quota_us_per_100ms =
            limits->cpu_quota_us_per_100ms ^ (s[CGROUP_CPU].usable ? 1 : 0);
        old.pids = limits->pids ^ (s[CGROUP_PIDS].usable ? 1 : 0);
    }
    cgroup->limits_known = false; /* until all of them are written */
    r = write_limits(cgroup, &old, limits, err);
    if (r < 0)
        return r;
    cgroup->limits = *limits;
    cgroup->limits_known = true;
    return 0;
}

int cgroup_stats(const struct cgroup *cgroup, struct cgroup_stats *ret, struct cay_error *err) {
    *ret = (struct cgroup_stats){0};
    if (cgroup->host->version == CGROUP_NONE)
        return 0;
    int r = cgroup_backend_of(cgroup->host)->stats(cgroup->host, cgroup->id, ret);
    return r < 0 ? error_sys(err, -r, "reading the counters of %s", cgroup->id) : 0;
}

int cgroup_read_oom_kills(const struct cgroup_host *host, const char *id, uint64_t *ret) {
    char text[COUNTER_SIZE];
    *ret = 0;
    if (!host->support[CGROUP_MEMORY].usable)
        return 0;
    ssize_t n =
        cgroup_read(host, CGROUP_MEMORY, id, cgroup_backend_of(host)->oom_file, text, sizeof text);
    if (n < 0)
        return (int)n;
    (void)cgroup_field(text, "oom_kill", ret); /* kernels before 4.13 do not say */
    return 0;
}

int cgroup_oom_kills(const struct cgroup *cgroup, uint64_t *ret) {
    if (cgroup->oom < 0)
        return cgroup_read_oom_kills(cgroup->host, cgroup->id, ret);
    char text[COUNTER_SIZE];
    *ret = 0;
    ssize_t n = fd_read_again(cgroup->oom, text, sizeof text);
    if (n < 0)
        return (int)n;
    (void)cgroup_field(text, "oom_kill", ret); /* as in cgroup_read_oom_kills */
    return 0;
}

int cgroup_is_idle(const struct cgroup *cgroup) {
    char text[32];
    const struct cgroup_host *host = cgroup->host;
    if (!host->support[CGROUP_PIDS].usable)
        return cgroup_is_empty(cgroup);
    ssize_t n = cgroup->members >= 0
                    ? fd_read_again(cgroup->members, text, sizeof text)
                    : cgroup_read(host, CGROUP_PIDS, cgroup->id, MEMBERS_FILE, text, sizeof text);
    return n < 0 ? (int)n : str_equal(text, "0");
}

int cgroup_is_empty(const struct cgroup *cgroup) {
    if (cgroup->host == NULL)
        return -EBADF;
    if (cgroup->host->version == CGROUP_NONE)
        return -ENODEV;
    return cgroup_backend_of(cgroup->host)->is_empty(cgroup->host, cgroup->id);
}

int cgroup_remove(const struct cgroup_host *host, const char *id, int64_t deadline_ms,
                  struct cay_error *err) {
    int r = check_id(id, err);
    if (r < 0 || host->version == CGROUP_NONE)
        return r;
    for (unsigned us = 0;; cgroup_pause(&us)) {
        r = remove_folders(host, id, host->hierarchy_count);
        if (r == 0)
            return 0;
        if (r == -EBUSY && !clock_expired(deadline_ms))
            r = cgroup_kill_all(host, id, deadline_ms);
        if (r == 0)
            continue;
        error_sys(err, r == -EBUSY ? ETIMEDOUT : -r, "removing cgroup %s", id);
        return error_remedy(err, "a process may hang in the kernel: see 'dmesg', then try again");
    }
}
