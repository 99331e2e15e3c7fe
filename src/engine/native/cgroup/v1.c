/* Control groups v1: a hierarchy per controller (or a few of them), a folder in each. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/native/cgroup/backend.h"

enum {
    /* A folder there would cost time and serve nobody. */
    UNUSED = CGROUP_BIT(CGROUP_IO),
};

static void missing(struct cgroup_host *host, unsigned controllers, const char *path, int sys) {
    if (sys == EACCES || sys == EPERM) {
        cgroup_missing(host, controllers,
                       "run as root, or boot with systemd.unified_cgroup_hierarchy=1",
                       "on cgroup v1 only root may make groups in %.128s", path);
    } else if (sys == EROFS) {
        cgroup_missing(host, controllers, "mount it writable, or run outside of this container",
                       "%.128s is mounted read-only", path);
    } else {
        struct cay_error why;
        error_sys(&why, sys, "making a group in %.96s", path);
        cgroup_missing(host, controllers, "see that the cgroup file system is mounted there", "%s",
                       why.message);
    }
}

/* Opens our parent folder, making it first if need be. */
static int open_parent(const char *path) {
    int fd = cgroup_open_folder(path, CGROUP_SUPER_MAGIC);
    if (fd == -ENOENT) {
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return -errno;
        fd = cgroup_open_folder(path, CGROUP_SUPER_MAGIC);
    }
    if (fd >= 0 && faccessat(fd, ".", W_OK, AT_EACCESS) < 0) {
        int r = -errno;
        (void)close(fd);
        return r;
    }
    return fd;
}

static int add_hierarchy(const struct cgroup_mount *mount, const char *parent,
                         struct cgroup_host *host) {
    struct cgroup_hierarchy *h = &host->hierarchies[host->hierarchy_count];
    int r = str_format(h->path, sizeof h->path, "%s/%s", mount->path, parent);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = open_parent(h->path);
    if (fd < 0)
        return fd;
    if ((mount->controllers & CGROUP_BIT(CGROUP_DEVICES)) != 0) {
        r = cgroup_devices_v1(fd);
        if (r < 0)
            return r;
    }
    h->shared = mount->controllers == CGROUP_BIT(CGROUP_DEVICES);
    if (h->shared) {
        host->shared_tasks = openat(fd, "tasks", O_WRONLY | O_CLOEXEC);
        if (host->shared_tasks < 0)
            return -errno;
    }
    h->controllers = mount->controllers;
    h->parent = TAKE_FD(fd);
    cgroup_usable(host, host->hierarchy_count++, mount->controllers);
    return 0;
}

void cgroup_v1_probe(const struct cgroup_mounts *mounts, const char *parent,
                     struct cgroup_host *host) {
    for (size_t i = 0; i < mounts->v1_count; i++) {
        const struct cgroup_mount *m = &mounts->v1[i];
        if ((m->controllers & ~UNUSED) == 0) {
            host->support[CGROUP_IO] = (struct cgroup_support){.usable = true};
            continue;
        }
        if (m->cpuset) {
            cgroup_missing(host, m->controllers, "mount cpuset as a hierarchy of its own",
                           "it is mounted together with cpuset at %.128s", m->path);
            continue;
        }
        int r = add_hierarchy(m, parent, host);
        if (r < 0)
            missing(host, m->controllers, m->path, -r);
    }
}

static int v1_open(struct cgroup *cgroup, struct cay_error *err) {
    const struct cgroup_host *host = cgroup->host;
    size_t count = 0;
    for (size_t i = 0; i < host->hierarchy_count; i++) {
        const struct cgroup_hierarchy *h = &host->hierarchies[i];
        if (h->shared)
            continue;
        int fd = cgroup_open_file(h, cgroup->id, "tasks", O_WRONLY);
        if (fd < 0)
            return error_sys(err, -fd, "opening %s/%s/tasks", h->path, cgroup->id);
        cgroup->tasks[count++] = fd;
    }
    return 0;
}

static int set_value(const struct cgroup *cgroup, enum cgroup_controller controller,
                     const char *file, uint64_t value) {
    char text[24] = "-1"; /* no limit */
    if (value != 0 && str_format(text, sizeof text, "%llu", (unsigned long long)value) < 0)
        return -EINVAL;
    return cgroup_write(cgroup->host, controller, cgroup->id, file, text);
}

/* The limit with swap may never be the smaller one, so which is written first depends on whether
 * the limit rises or falls: EINVAL says that it was the wrong order. */
static int write_memory(const struct cgroup *cgroup, uint64_t bytes) {
    static const char limit[] = "memory.limit_in_bytes",
                      with_swap[] = "memory.memsw.limit_in_bytes";
    int r = set_value(cgroup, CGROUP_MEMORY, limit, bytes);
    if (r == -EINVAL) {
        r = set_value(cgroup, CGROUP_MEMORY, with_swap, bytes);
        return r < 0 ? r : set_value(cgroup, CGROUP_MEMORY, limit, bytes);
    }
    if (r < 0)
        return r;
    r = set_value(cgroup, CGROUP_MEMORY, with_swap, bytes);
    if (r == -ENOENT) /* swap is not accounted: keep out of it as far as possible */
        r = cgroup_write(cgroup->host, CGROUP_MEMORY, cgroup->id, "memory.swappiness", "0");
    return r;
}

static int v1_set_memory(const struct cgroup *cgroup, uint64_t bytes, struct cay_error *err) {
    int r = write_memory(cgroup, bytes);
    if (r >= 0)
        return 0;
    error_sys(err, -r, "setting the memory limit of %s to %llu bytes", cgroup->id,
              (unsigned long long)bytes);
    return r == -EBUSY ? error_remedy(err, "more than that is in use: stop something inside, or "
                                           "choose a larger limit")
                       : error_remedy(err, "choose another memory limit");
}

static int v1_set_cpu(const struct cgroup *cgroup, uint64_t quota_us, struct cay_error *err) {
    int r = set_value(cgroup, CGROUP_CPU, "cpu.cfs_quota_us", quota_us);
    if (r >= 0)
        return 0;
    error_sys(err, -r, "setting the cpu limit of %s to %llu us per 100 ms", cgroup->id,
              (unsigned long long)quota_us);
    return error_remedy(err, "choose a limit between 0.01 cpus and what the parent group allows");
}

static int v1_set_frozen(const struct cgroup_host *host, const char *id, bool frozen) {
    return cgroup_write(host, CGROUP_FREEZER, id, "freezer.state", frozen ? "FROZEN" : "THAWED");
}

static int v1_is_frozen(const struct cgroup_host *host, const char *id) {
    char state[16];
    ssize_t n = cgroup_read(host, CGROUP_FREEZER, id, "freezer.state", state, sizeof state);
    return n < 0 ? (int)n : str_equal(state, "FROZEN");
}

static int v1_is_empty(const struct cgroup_host *host, const char *id) {
    for (size_t i = 0; i < host->hierarchy_count; i++) {
        const struct cgroup_hierarchy *h = &host->hierarchies[i];
        if (h->shared)
            continue;
        _cleanup_(closep) int fd = cgroup_open_file(h, id, "cgroup.procs", O_RDONLY);
        if (fd == -ENOENT) /* removed in part */
            continue;
        if (fd < 0)
            return fd;
        char first;
        ssize_t n = read(fd, &first, 1);
        if (n != 0)
            return n < 0 ? -errno : 0;
    }
    return 1;
}

static int v1_kill_all(const struct cgroup_host *host, const char *id) {
    (void)host;
    (void)id;
    return -EOPNOTSUPP;
}

static int read_cpu(const struct cgroup_host *host, const char *id, struct cgroup_stats *ret) {
    if (host->support[CGROUP_CPUACCT].usable) {
        int r = cgroup_read_number(host, CGROUP_CPUACCT, id, "cpuacct.usage", &ret->cpu_us);
        if (r < 0)
            return r;
        ret->cpu_us /= 1000;
    }
    char text[512];
    if (!host->support[CGROUP_CPU].usable)
        return 0;
    ssize_t n = cgroup_read(host, CGROUP_CPU, id, "cpu.stat", text, sizeof text);
    if (n < 0)
        return (int)n;
    if (cgroup_field(text, "throttled_time", &ret->throttled_us) == 0)
        ret->throttled_us /= 1000;
    (void)cgroup_field(text, "nr_throttled", &ret->throttled_periods);
    return 0;
}

static int read_memory(const struct cgroup_host *host, const char *id, struct cgroup_stats *ret) {
    if (!host->support[CGROUP_MEMORY].usable)
        return 0;
    int r =
        cgroup_read_number(host, CGROUP_MEMORY, id, "memory.usage_in_bytes", &ret->memory_bytes);
    if (r < 0)
        return r;
    r = cgroup_read_number(host, CGROUP_MEMORY, id, "memory.max_usage_in_bytes",
                           &ret->memory_peak_bytes);
    if (r < 0)
        return r;
    return cgroup_read_oom_kills(host, id, &ret->oom_kills);
}

static int v1_stats(const struct cgroup_host *host, const char *id, struct cgroup_stats *ret) {
    int r = read_memory(host, id, ret);
    if (r < 0)
        return r;
    r = read_cpu(host, id, ret);
    if (r < 0 || !host->support[CGROUP_PIDS].usable)
        return r;
    return cgroup_read_number(host, CGROUP_PIDS, id, "pids.current", &ret->pids);
}

const struct cgroup_backend cgroup_v1_backend = {
    .open = v1_open,
    .set_memory = v1_set_memory,
    .set_cpu = v1_set_cpu,
    .set_frozen = v1_set_frozen,
    .is_frozen = v1_is_frozen,
    .is_empty = v1_is_empty,
    .kill_all = v1_kill_all,
    .stats = v1_stats,
    .oom_file = "memory.oom_control",
};
