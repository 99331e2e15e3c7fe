/* Control groups v2: one folder per sandbox in the unified tree. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/native/cgroup/backend.h"

enum {
    LIST_SIZE = 256,
    /* Controllers that must be handed down; the others come with every group. */
    HANDED_DOWN = CGROUP_BIT(CGROUP_MEMORY) | CGROUP_BIT(CGROUP_CPU) | CGROUP_BIT(CGROUP_PIDS),
};

static const char leaf[] = "cay.self";
static const char delegate[] = "start it with: systemd-run --user --scope -p Delegate=yes cay …";

/* The bits of the controllers in a list such as "cpuset cpu io memory". */
static unsigned controllers_of(const char *list) {
    unsigned found = 0;
    for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
        if (cgroup_has_word(list, cgroup_controller_name(c)))
            found |= CGROUP_BIT(c);
    return found;
}

static int read_controllers(int folder, const char *file, unsigned *ret) {
    char list[LIST_SIZE];
    ssize_t n = fd_read_file_at(folder, file, list, sizeof list);
    if (n < 0)
        return (int)n;
    *ret = controllers_of(list);
    return 0;
}

/* A group that holds processes cannot hand controllers down: either it refuses, or it turns the
 * groups below into ones for threads only. If we are the one process in it we move to a leaf. The
 * root of the tree, which has no type, is exempt. */
static int make_room(int base) {
    char have[64], self[16];
    if (faccessat(base, "cgroup.type", F_OK, 0) < 0)
        return errno == ENOENT ? 0 : -errno;
    ssize_t n = fd_read_file_at(base, "cgroup.procs", have, sizeof have);
    if (n == 0)
        return 0;
    int r = str_format(self, sizeof self, "%d", getpid());
    if (r < 0 || (n < 0 && n != -ENOBUFS))
        return r < 0 ? r : (int)n;
    if (n < 0 || !str_equal(have, self))
        return -EBUSY;
    if (mkdirat(base, leaf, 0755) < 0 && errno != EEXIST)
        return -errno;
    _cleanup_(closep) int fd = openat(base, leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd_write_file_at(fd, "cgroup.procs", "0");
}

/* One by one: a controller that is refused must not keep the others away. */
static int hand_down(int folder, unsigned controllers) {
    int result = 0;
    for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++) {
        char word[16];
        if ((controllers & CGROUP_BIT(c)) == 0)
            continue;
        int r = str_format(word, sizeof word, "+%s", cgroup_controller_name(c));
        if (r == 0)
            r = fd_write_file_at(folder, "cgroup.subtree_control", word);
        if (r < 0)
            result = r;
    }
    return result;
}

/* Hands down from `base` what it has and does not hand down yet. */
static int open_base(int base) {
    unsigned have, handed;
    int r = read_controllers(base, "cgroup.controllers", &have);
    if (r == 0)
        r = read_controllers(base, "cgroup.subtree_control", &handed);
    if (r < 0)
        return r;
    unsigned missing = have & HANDED_DOWN & ~handed;
    r = missing != 0 ? make_room(base) : 0;
    return r < 0 ? r : hand_down(base, missing);
}

/* Makes our parent folder below base; what cannot be handed down to it shows in its list of
 * controllers, so only a failure to make it is one. *ret_why says what was in the way. */
static int make_parent(const char *base_path, const char *parent, int *ret_why) {
    _cleanup_(closep) int base = cgroup_open_folder(base_path, CGROUP2_SUPER_MAGIC);
    if (base < 0)
        return base;
    if (mkdirat(base, parent, 0755) < 0 && errno != EEXIST)
        return -errno;
    *ret_why = open_base(base);
    _cleanup_(closep) int fd = openat(base, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || faccessat(fd, ".", W_OK, AT_EACCESS) < 0)
        return -errno;
    unsigned have;
    int r = read_controllers(fd, "cgroup.controllers", &have);
    if (r < 0)
        return r;
    r = hand_down(fd, have & HANDED_DOWN);
    if (r < 0)
        *ret_why = r;
    return TAKE_FD(fd);
}

/* The group of this process, or the one above if that is our leaf. */
static int own_group(const char *mount, char *out, size_t size) {
    char text[PATH_MAX];
    ssize_t n = fd_read_file_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text);
    if (n < 0)
        return (int)n;
    const char *line = str_starts(text, "0::") ? text : strstr(text, "\n0::");
    if (line == NULL)
        return -ENOENT;
    const char *path = strchr(line, '/');
    if (path == NULL || str_starts(path, "/.."))
        return -EACCES; /* above what this namespace shows */
    size_t len = strcspn(path, "\n");
    size_t end = strlen(leaf) + 1;
    if (len >= end && path[len - end] == '/' && memcmp(path + len - end + 1, leaf, end - 1) == 0)
        len -= end;
    return str_format(out, size, "%s%.*s", mount, (int)len, path);
}

/* The parent folder if it is there, ours to use, and has what its base has to give. */
static int open_ready(const char *path) {
    _cleanup_(closep) int fd = cgroup_open_folder(path, CGROUP2_SUPER_MAGIC);
    if (fd < 0)
        return fd;
    unsigned handed;
    int r = read_controllers(fd, "cgroup.subtree_control", &handed);
    if (r < 0)
        return r;
    if ((handed & HANDED_DOWN) != HANDED_DOWN)
        return -ENOENT;
    return faccessat(fd, ".", W_OK, AT_EACCESS) < 0 ? -errno : TAKE_FD(fd);
}

/* Says for each controller that is not handed down why that is so. */
static void missing(struct cgroup_host *host, unsigned controllers, const char *base, int sys) {
    if (sys == EACCES || sys == EPERM) {
        cgroup_missing(host, controllers, delegate, "the cgroup %.128s is not delegated to you",
                       base);
    } else if (sys == EBUSY) {
        cgroup_missing(host, controllers, delegate, "other processes are in the cgroup %.128s",
                       base);
    } else if (sys == EROFS) {
        cgroup_missing(host, controllers, "mount it writable, or run outside of this container",
                       "%.128s is mounted read-only", base);
    } else if (sys != 0) {
        struct cay_error why;
        error_sys(&why, sys, "handing controllers down from %.96s", base);
        cgroup_missing(host, controllers, "see that the cgroup2 file system is mounted there", "%s",
                       why.message);
    } else {
        cgroup_missing(host, controllers,
                       geteuid() == 0 ? "boot the kernel with the controller enabled" : delegate,
                       "the cgroup %.128s does not have it", base);
    }
}

static void probe_devices(struct cgroup_host *host, int folder) {
    int r = cgroup_devices_v2(folder);
    if (r == 0) {
        cgroup_usable(host, 0, CGROUP_BIT(CGROUP_DEVICES));
        return;
    }
    struct cay_error why;
    error_sys(&why, -r, "attaching the device filter");
    cgroup_missing(host, CGROUP_BIT(CGROUP_DEVICES),
                   geteuid() == 0 ? "allow the bpf system call"
                                  : "run as root; without it the user namespace keeps device "
                                    "nodes from being opened",
                   "%s", why.message);
}

/* As root our folder is at the top of the tree, otherwise in the group that we were started in. */
static int base_path(const char *mount, char *out, size_t size) {
    if (geteuid() == 0)
        return str_copy(out, size, mount);
    return own_group(mount, out, size);
}

void cgroup_v2_probe(const char *mount, const char *parent, struct cgroup_host *host) {
    enum { ALWAYS = CGROUP_BIT(CGROUP_CPUACCT) | CGROUP_BIT(CGROUP_FREEZER) };
    struct cgroup_hierarchy *h = &host->hierarchies[0];
    char base[CGROUP_PATH_SIZE];
    unsigned handed = 0, have = 0;
    int why = 0, fd = -1;
    int r = base_path(mount, base, sizeof base);
    if (r == 0)
        r = path_join(h->path, sizeof h->path, base, parent);
    if (r == 0) {
        fd = open_ready(h->path);
        if (fd < 0)
            fd = make_parent(base, parent, &why);
    }
    if (r < 0 || fd < 0) {
        missing(host, HANDED_DOWN | ALWAYS | CGROUP_BIT(CGROUP_DEVICES), r < 0 ? mount : base,
                r < 0 ? -r : -fd);
        return;
    }
    h->parent = fd;
    host->hierarchy_count = 1;
    (void)read_controllers(fd, "cgroup.subtree_control", &handed);
    (void)read_controllers(fd, "../cgroup.controllers", &have);
    h->controllers = (handed & HANDED_DOWN) | ALWAYS;
    missing(host, HANDED_DOWN & ~handed, base, -why);
    cgroup_usable(host, 0, h->controllers);
    if ((have & CGROUP_BIT(CGROUP_IO)) != 0)
        host->support[CGROUP_IO] = (struct cgroup_support){.usable = true};
    probe_devices(host, fd);
}

static int v2_open(struct cgroup *cgroup, struct cay_error *err) {
    const struct cgroup_hierarchy *h = &cgroup->host->hierarchies[0];
    int fd = cgroup_open_file(h, cgroup->id, ".", O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return error_sys(err, -fd, "opening %s/%s", h->path, cgroup->id);
    cgroup->dirfd = fd;
    return 0;
}

static int v2_set_memory(const struct cgroup *cgroup, uint64_t bytes, struct cay_error *err) {
    char text[24] = "max";
    int r = bytes == 0 ? 0 : str_format(text, sizeof text, "%llu", (unsigned long long)bytes);
    if (r == 0)
        r = cgroup_write(cgroup->host, CGROUP_MEMORY, cgroup->id, "memory.max", text);
    if (r == 0) {
        /* Not there when the kernel has no swap at all. */
        r = cgroup_write(cgroup->host, CGROUP_MEMORY, cgroup->id, "memory.swap.max",
                         bytes == 0 ? "max" : "0");
        r = r == -ENOENT ? 0 : r;
    }
    return r < 0 ? error_sys(err, -r, "setting the memory limit of %s to %s", cgroup->id, text) : 0;
}

static int v2_set_cpu(const struct cgroup *cgroup, uint64_t quota_us, struct cay_error *err) {
    char text[48] = "max 100000";
    int r = quota_us == 0
                ? 0
                : str_format(text, sizeof text, "%llu 100000", (unsigned long long)quota_us);
    if (r == 0)
        r = cgroup_write(cgroup->host, CGROUP_CPU, cgroup->id, "cpu.max", text);
    if (r >= 0)
        return 0;
    error_sys(err, -r, "setting the cpu limit of %s to %s", cgroup->id, text);
    return error_remedy(err, "choose another cpu limit");
}

static int v2_set_frozen(const struct cgroup_host *host, const char *id, bool frozen) {
    return cgroup_write(host, CGROUP_FREEZER, id, "cgroup.freeze", frozen ? "1" : "0");
}

static int event(const struct cgroup_host *host, const char *id, const char *key, uint64_t *ret) {
    char text[128];
    ssize_t n = cgroup_read(host, CGROUP_FREEZER, id, "cgroup.events", text, sizeof text);
    return n < 0 ? (int)n : cgroup_field(text, key, ret);
}

static int v2_is_frozen(const struct cgroup_host *host, const char *id) {
    uint64_t frozen;
    int r = event(host, id, "frozen", &frozen);
    return r < 0 ? r : frozen == 1;
}

static int v2_is_empty(const struct cgroup_host *host, const char *id) {
    uint64_t populated;
    int r = event(host, id, "populated", &populated);
    if (r == -ENOENT || r == -ENODEV) /* removed, before or while it was read */
        return 1;
    return r < 0 ? r : populated == 0;
}

static int v2_kill_all(const struct cgroup_host *host, const char *id) {
    int r = cgroup_write(host, CGROUP_FREEZER, id, "cgroup.kill", "1");
    return r == -ENOENT ? -EOPNOTSUPP : r; /* since 5.14 */
}

static int read_memory(const struct cgroup_host *host, const char *id, struct cgroup_stats *ret) {
    if (!host->support[CGROUP_MEMORY].usable)
        return 0;
    int r = cgroup_read_number(host, CGROUP_MEMORY, id, "memory.current", &ret->memory_bytes);
    if (r < 0)
        return r;
    (void)cgroup_read_number(host, CGROUP_MEMORY, id, "memory.peak", &ret->memory_peak_bytes);
    return cgroup_read_oom_kills(host, id, &ret->oom_kills);
}

static int v2_stats(const struct cgroup_host *host, const char *id, struct cgroup_stats *ret) {
    int r = read_memory(host, id, ret);
    if (r < 0)
        return r;
    char text[1024];
    ssize_t n = cgroup_read(host, CGROUP_CPUACCT, id, "cpu.stat", text, sizeof text);
    if (n < 0)
        return (int)n;
    (void)cgroup_field(text, "usage_usec", &ret->cpu_us);
    (void)cgroup_field(text, "throttled_usec", &ret->throttled_us);
    (void)cgroup_field(text, "nr_throttled", &ret->throttled_periods);
    if (!host->support[CGROUP_PIDS].usable)
        return 0;
    return cgroup_read_number(host, CGROUP_PIDS, id, "pids.current", &ret->pids);
}

const struct cgroup_backend cgroup_v2_backend = {
    .open = v2_open,
    .set_memory = v2_set_memory,
    .set_cpu = v2_set_cpu,
    .set_frozen = v2_set_frozen,
    .is_frozen = v2_is_frozen,
    .is_empty = v2_is_empty,
    .kill_all = v2_kill_all,
    .stats = v2_stats,
    .oom_file = "memory.events",
};
