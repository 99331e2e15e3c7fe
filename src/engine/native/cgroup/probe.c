#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/native/cgroup/backend.h"

enum { MOUNTINFO_MAX = 16 * 1024 * 1024 };

static const char *const names[CGROUP_CONTROLLERS] = {
    [CGROUP_MEMORY] = "memory", [CGROUP_CPU] = "cpu",         [CGROUP_CPUACCT] = "cpuacct",
    [CGROUP_PIDS] = "pids",     [CGROUP_DEVICES] = "devices", [CGROUP_FREEZER] = "freezer",
    [CGROUP_IO] = "io",
};

const char *cgroup_controller_name(enum cgroup_controller controller) {
    return names[controller];
}

/* The controllers of v1 mount options such as "rw,cpu,cpuacct"; "io" is called blkio there. */
static unsigned controllers_of(const char *options, size_t len, bool *ret_cpuset) {
    unsigned found = 0;
    *ret_cpuset = false;
    for (const char *end = options + len; options < end;) {
        size_t n = 0;
        while (options + n < end && options[n] != ',')
            n++;
        for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++) {
            const char *name = c == CGROUP_IO ? "blkio" : names[c];
            if (n == strlen(name) && memcmp(options, name, n) == 0)
                found |= CGROUP_BIT(c);
        }
        if (n == strlen("cpuset") && memcmp(options, "cpuset", n) == 0)
            *ret_cpuset = true;
        options += n + 1;
    }
    return found;
}

static bool is_octal(const char *p, size_t len) {
    return len >= 3 && p[0] >= '0' && p[0] <= '3' && p[1] >= '0' && p[1] <= '7' && p[2] >= '0' &&
           p[2] <= '7';
}

/* The kernel writes blanks and backslashes in a mount point as \ooo. */
static int unescape(const char *text, size_t len, char *out, size_t size) {
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '\\' && is_octal(text + i + 1, len - i - 1)) {
            c = (char)((text[i + 1] - '0') << 6 | (text[i + 2] - '0') << 3 | (text[i + 3] - '0'));
            i += 3;
        }
        if (at + 1 >= size)
            return -ENAMETOOLONG;
        out[at++] = c;
    }
    out[at] = '\0';
    return 0;
}

/* Skips n blank-separated fields; NULL if the line has fewer. */
static const char *skip_fields(const char *p, const char *end, unsigned n) {
    while (n-- > 0) {
        p = memchr(p, ' ', (size_t)(end - p));
        if (p == NULL)
            return NULL;
        p++;
    }
    return p;
}

static size_t field_len(const char *p, const char *end) {
    const char *blank = memchr(p, ' ', (size_t)(end - p));
    return (size_t)((blank != NULL ? blank : end) - p);
}

static bool already_seen(const struct cgroup_mounts *mounts, unsigned controllers) {
    for (size_t i = 0; i < mounts->v1_count; i++)
        if ((mounts->v1[i].controllers & controllers) != 0)
            return true;
    return false;
}

/* "36 31 0:33 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory" */
static void parse_line(const char *line, const char *end, struct cgroup_mounts *ret) {
    const char *tail = memmem(line, (size_t)(end - line), " - cgroup", strlen(" - cgroup"));
    const char *point = skip_fields(line, end, 4);
    if (tail == NULL || point == NULL || point > tail)
        return;
    const char *type = tail + strlen(" - ");
    const char *options = skip_fields(type, end, 2);
    if (options == NULL)
        return;
    size_t type_len = field_len(type, end), point_len = field_len(point, end);
    if (type_len == strlen("cgroup2") && type[type_len - 1] == '2' && ret->v2[0] == '\0') {
        if (unescape(point, point_len, ret->v2, sizeof ret->v2) < 0)
            ret->v2[0] = '\0';
        return;
    }
    if (type_len != strlen("cgroup") || ret->v1_count == ARRAY_LEN(ret->v1))
        return;
    struct cgroup_mount *m = &ret->v1[ret->v1_count];
    m->controllers = controllers_of(options, (size_t)(end - options), &m->cpuset);
    if (m->controllers == 0 || already_seen(ret, m->controllers))
        return;
    if (unescape(point, point_len, m->path, sizeof m->path) == 0)
        ret->v1_count++;
}

void cgroup_parse_mounts(const char *mountinfo, struct cgroup_mounts *ret) {
    *ret = (struct cgroup_mounts){0};
    while (*mountinfo != '\0') {
        const char *end = strchrnul(mountinfo, '\n');
        parse_line(mountinfo, end, ret);
        mountinfo = *end == '\n' ? end + 1 : end;
    }
}

enum cgroup_version cgroup_choose(const struct cgroup_mounts *mounts) {
    enum { WANTED = CGROUP_BIT(CGROUP_MEMORY) | CGROUP_BIT(CGROUP_CPU) | CGROUP_BIT(CGROUP_PIDS) };
    unsigned v1 = 0;
    for (size_t i = 0; i < mounts->v1_count; i++)
        v1 |= mounts->v1[i].controllers;
    if (mounts->v2[0] != '\0' && (v1 & WANTED) == 0)
        return CGROUP_V2;
    return v1 != 0 ? CGROUP_V1 : CGROUP_NONE;
}

void cgroup_usable(struct cgroup_host *host, size_t hierarchy, unsigned controllers) {
    for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++) {
        if ((controllers & CGROUP_BIT(c)) == 0)
            continue;
        host->support[c] = (struct cgroup_support){.usable = true};
        host->where[c] = (int)hierarchy;
    }
}

void cgroup_missing(struct cgroup_host *host, unsigned controllers, const char *remedy,
                    const char *reason, ...) {
    struct cgroup_support support = {.usable = false};
    va_list ap;
    va_start(ap, reason);
    (void)vsnprintf(support.reason, sizeof support.reason, reason, ap);
    va_end(ap);
    (void)snprintf(support.remedy, sizeof support.remedy, "%s", remedy);
    for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++) {
        if ((controllers & CGROUP_BIT(c)) == 0)
            continue;
        host->support[c] = support;
        host->where[c] = -1;
    }
}

int cgroup_open_folder(const char *path, long magic) {
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return -errno;
    /* Something else may be mounted over what mountinfo says. */
    return (long)fs.f_type == magic ? TAKE_FD(fd) : -ENODEV;
}

/* Every controller is missing until it is found. */
static void clear_host(struct cgroup_host *host) {
    *host = (struct cgroup_host){.shared_tasks = -1};
    for (size_t i = 0; i < ARRAY_LEN(host->hierarchies); i++)
        host->hierarchies[i].parent = -1;
    for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
        cgroup_missing(host, CGROUP_BIT(c), "enable it in the kernel and mount it",
                       "no mounted cgroup tree has the %s controller", names[c]);
    cgroup_missing(host, CGROUP_BIT(CGROUP_MEMORY),
                   "boot the kernel with cgroup_enable=memory, or mount the controller",
                   "no mounted cgroup tree has the memory controller");
}

static int read_mounts(struct cgroup_mounts *ret, struct cay_error *err) {
    _cleanup_(closep) int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "opening /proc/self/mountinfo");
    struct buf text = BUF_INIT(MOUNTINFO_MAX);
    int r = fd_read_to_end(fd, &text);
    if (r == 0)
        cgroup_parse_mounts(buf_text(&text), ret);
    buf_free(&text);
    return r < 0 ? error_sys(err, -r, "reading /proc/self/mountinfo") : 0;
}

int cgroup_probe_at(const char *unified, const char *parent, struct cgroup_host *ret,
                    struct cay_error *err) {
    struct cgroup_mounts mounts = {0};
    clear_host(ret);
    if (unified != NULL && str_copy(mounts.v2, sizeof mounts.v2, unified) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "path too long: '%.64s…'", unified);
    if (unified == NULL) {
        int r = read_mounts(&mounts, err);
        if (r < 0)
            return error_prefix(err, "looking for cgroups");
    }
    ret->version = cgroup_choose(&mounts);
    if (ret->version == CGROUP_V2)
        cgroup_v2_probe(mounts.v2, parent, ret);
    else if (ret->version == CGROUP_V1)
        cgroup_v1_probe(&mounts, parent, ret);
    if (ret->hierarchy_count == 0)
        ret->version = CGROUP_NONE;
    return 0;
}

int cgroup_probe(struct cgroup_host *ret, struct cay_error *err) {
    return cgroup_probe_at(NULL, "cay", ret, err);
}

void cgroup_host_limiting(const struct cgroup_host *all, struct cgroup_host *ret) {
    static const unsigned limiting = CGROUP_BIT(CGROUP_MEMORY) | CGROUP_BIT(CGROUP_CPU) |
                                     CGROUP_BIT(CGROUP_PIDS) | CGROUP_BIT(CGROUP_DEVICES);
    *ret = *all;
    ret->hierarchy_count = 0;
    for (size_t i = 0; i < all->hierarchy_count; i++) {
        const struct cgroup_hierarchy *h = &all->hierarchies[i];
        if (all->version == CGROUP_V1 && (h->controllers & limiting) == 0) {
            cgroup_missing(ret, h->controllers, "ask for a sandbox that stays",
                           "a throw-away sandbox has no such group");
            continue;
        }
        for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
            if (all->where[c] == (int)i)
                ret->where[c] = (int)ret->hierarchy_count;
        ret->hierarchies[ret->hierarchy_count++] = *h;
    }
}

void cgroup_host_close(struct cgroup_host *host) {
    for (size_t i = 0; i < ARRAY_LEN(host->hierarchies); i++)
        fd_close(&host->hierarchies[i].parent);
    fd_close(&host->shared_tasks);
    host->hierarchy_count = 0;
    host->version = CGROUP_NONE;
}

int cgroup_require(const struct cgroup_host *host, enum cgroup_controller controller,
                   struct cay_error *err) {
    const struct cgroup_support *s = &host->support[controller];
    if (s->usable)
        return 0;
    error_set(err, CAY_UNSUPPORTED, "cgroup controller %s cannot be used: %s", names[controller],
              s->reason);
    return error_remedy(err, "%s", s->remedy);
}
