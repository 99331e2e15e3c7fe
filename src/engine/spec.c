#include "engine/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

enum {
    MEMORY_MIN = 4 * 1024 * 1024, /* below, not even the init fits */
    DISK_MIN = 64 * 1024,
    PIDS_MIN = 1,
    BYTES_PER_INODE = 16 * 1024,
    INODES_MIN = 1024,
    INODES_MAX = 1024 * 1024,
    CPU_PERIOD_US = 100000,
    CPU_QUOTA_MIN_US = 1000, /* the kernel's own minimum */
};

#define KEPT_DISK_MIN (UINT64_C(16) << 20)
#define KEPT_DISK_MAX (UINT64_C(4) << 40)

static const char *const tier_names[] = {
    [TIER_NONE] = "none",
    [TIER_BASIC] = "basic",
    [TIER_ROOTLESS] = "rootless",
    [TIER_FULL] = "full",
};

#define NAME(id, name) [ENGINE_##id] = #name,
static const char *const engine_names[ENGINE_KINDS] = {[ENGINE_UNSAID] = "", ENGINE_LIST(NAME)};

const char *engine_kind_name(enum engine_kind kind) {
    return engine_names[kind];
}

enum engine_kind engine_kind_from_name(const char *name) {
    enum engine_kind kind = ENGINE_UNSAID;
    while (kind < ENGINE_KINDS && !str_equal(name, engine_names[kind]))
        kind++;
    return kind;
}

const char *tier_name(enum tier tier) {
    return tier_names[tier];
}

enum tier tier_from_name(const char *name) {
    for (enum tier t = TIER_BASIC; t <= TIER_FULL; t++)
        if (strcmp(tier_names[t], name) == 0)
            return t;
    return TIER_NONE;
}

static int bad_volume(struct cay_error *err, const char *text, const char *why) {
    char shown[200];
    error_set(err, CAY_INVALID_ARGUMENT, "volume '%s' %s", str_escape(shown, sizeof shown, text),
              why);
    return error_remedy(err, "use -v /host/folder:/inside/folder[:ro]");
}

/* Splits off the last ":part" of text; NULL if there is no colon. */
static char *split_last(char *text) {
    char *colon = strrchr(text, ':');
    if (colon == NULL)
        return NULL;
    *colon = '\0';
    return colon + 1;
}

static bool is_below(const char *path, const char *folder) {
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static bool is_reserved(const char *target) {
    static const char *const reserved[] = {"/proc", "/dev", "/sys"};
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
        if (is_below(target, reserved[i]))
            return true;
    return false;
}

bool spec_target_is_allowed(const char *target) {
    char normal[SPEC_PATH_SIZE];
    return path_normalize("volume target", target, normal, sizeof normal, NULL) == 0 &&
           str_equal(normal, target) && !str_equal(target, "/") && !is_reserved(target);
}

static int check_target(const struct sandbox_spec *spec, const char *text, const char *target,
                        struct cay_error *err) {
    if (str_equal(target, "/"))
        return bad_volume(err, text, "would cover the root of the sandbox");
    if (is_reserved(target))
        return bad_volume(err, text, "has its target in /proc, /dev or /sys");
    for (size_t i = 0; i < spec->mount_count; i++)
        if (strcmp(spec->mounts[i].target, target) == 0)
            return bad_volume(err, text, "has the same target as another volume");
    return 0;
}

static int check_source(const char *text, const char *source, struct cay_error *err) {
    struct stat st;
    if (source[0] != '/')
        return bad_volume(
            err, text,
            "has a relative host path, not an absolute one; named volumes are for 'cay create'");
    if (stat(source, &st) < 0) {
        int sys = errno;
        if (sys == EACCES) /* the engine looks again, perhaps with more rights than a daemon */
            return 0;
        char shown[200];
        error_sys(err, sys, "volume source '%s'", str_escape(shown, sizeof shown, source));
        return error_remedy(err, "create the host folder first; cay does not make it");
    }
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return bad_volume(err, text, "is neither a folder nor a regular file on the host");
    return 0;
}

bool spec_is_volume(const char *source) {
    char id[ID_SIZE] = "";
    (void)snprintf(id, sizeof id, "%s", source);
    if (!id_is_valid(id))
        return false;
    const char *part = source + ID_LEN;
    while (*part == '/') {
        size_t len = strcspn(++part, "/");
        bool is_dots = part[0] == '.' && (len == 1 || (len == 2 && part[1] == '.'));
        if (len == 0 || is_dots)
            return false;
        part += len;
    }
    return *part == '\0';
}

static int add(struct sandbox_spec *spec, const char *text, bool named, struct cay_error *err) {
    char copy[2 * SPEC_PATH_SIZE];
    if (spec->mount_count == SPEC_MOUNTS_MAX) {
        error_set(err, CAY_INVALID_ARGUMENT, "more than %d volumes", SPEC_MOUNTS_MAX);
        return error_remedy(err, "show a folder that holds them instead");
    }
    if (str_copy(copy, sizeof copy, text) < 0)
        return bad_volume(err, text, "is too long");
    struct mount_spec m = {.named = named};
    char *target = split_last(copy);
    if (target != NULL && (str_equal(target, "ro") || str_equal(target, "rw"))) {
        m.read_only = str_equal(target, "ro");
        target = split_last(copy);
    }
    if (target == NULL || copy[0] == '\0' || target[0] == '\0')
        return bad_volume(err, text, "is not HOST:BOX");
    if (str_copy(m.source, sizeof m.source, copy) < 0)
        return bad_volume(err, text, "is too long");
    int r = path_normalize("volume target", target, m.target, sizeof m.target, err);
    if (r < 0)
        return r;
    r = check_target(spec, text, m.target, err);
    if (r < 0)
        return r;
    if (named && !spec_is_volume(m.source))
        return bad_volume(err, text, "has no id of a volume, or no plain path in it");
    r = named ? 0 : check_source(text, m.source, err);
    if (r < 0)
        return r;
    struct mount_spec *more = realloc(spec->mounts, (spec->mount_count + 1) * sizeof m);
    if (more == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    spec->mounts = more;
    spec->mounts[spec->mount_count++] = m;
    return 0;
}

int spec_add_mount(struct sandbox_spec *spec, const char *text, struct cay_error *err) {
    return add(spec, text, false, err);
}

int spec_add_volume(struct sandbox_spec *spec, const char *text, struct cay_error *err) {
    return add(spec, text, true, err);
}

bool spec_has_writable_mount(const struct sandbox_spec *spec) {
    for (size_t i = 0; i < spec->mount_count; i++)
        if (!spec->mounts[i].read_only)
            return true;
    return false;
}

void spec_free_mounts(struct sandbox_spec *spec) {
    free(spec->mounts);
    spec->mounts = NULL;
    spec->mount_count = 0;
}

/* Processes and threads: there are no more than numbers for them, nor than the kernel allows. */
static int64_t host_pids(void) {
    static const char *const limits[] = {"/proc/sys/kernel/pid_max",
                                         "/proc/sys/kernel/threads-max"};
    static _Atomic int64_t seen; /* by whoever cannot read them any more: the front */
    int64_t least = INT32_MAX;
    bool is_known = false;
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        char text[32];
        int64_t limit;
        if (fd_read_file_at(AT_FDCWD, limits[i], text, sizeof text) <= 0 ||
            str_to_i64(text, 1, INT32_MAX, &limit) < 0)
            continue;
        least = MIN(least, limit);
        is_known = true;
    }
    if (is_known)
        seen = least;
    return seen > 0 ? seen : 32768; /* the kernel's default */
}

int spec_look_up_host(struct spec_host *ret, struct cay_error *err) {
    struct sysinfo info;
    if (sysinfo(&info) < 0)
        return error_errno(err, "reading the host's memory size");
    ret->memory_bytes = (uint64_t)info.totalram * info.mem_unit;
    ret->cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    ret->pids = (uint32_t)host_pids();
    return 0;
}

static int check_memory(const struct sandbox_spec *spec, uint64_t total, struct cay_error *err) {
    char want[32], have[32];
    if (spec->memory_bytes > total) {
        error_set(err, CAY_INVALID_ARGUMENT, "--memory %s is more than this host has (%s)",
                  str_bytes(spec->memory_bytes, want), str_bytes(total, have));
        return error_remedy(err, "ask for less memory");
    }
    if (spec->memory_bytes < MEMORY_MIN) {
        error_set(err, CAY_INVALID_ARGUMENT, "--memory %s is too little",
                  str_bytes(spec->memory_bytes, want));
        return error_remedy(err, "ask for at least 4m");
    }
    return 0;
}

uint64_t spec_inodes(uint64_t disk_bytes) {
    return MIN(MAX(disk_bytes / BYTES_PER_INODE, (uint64_t)INODES_MIN), (uint64_t)INODES_MAX);
}

static int check_disk(const char *option, uint64_t bytes, struct cay_error *err) {
    char want[32];
    if (bytes >= KEPT_DISK_MIN && bytes <= KEPT_DISK_MAX)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "%s %s is too %s", option, str_bytes(bytes, want),
              bytes < KEPT_DISK_MIN ? "little" : "much");
    return error_remedy(err, "ask for at least 16m and at most 4t");
}

int spec_check_kept_disk(uint64_t bytes, struct cay_error *err) {
    return check_disk("--disk", bytes, err);
}

int spec_check_volume_size(uint64_t bytes, struct cay_error *err) {
    return check_disk("a volume of", bytes, err);
}

/* The writable layer of a throw-away sandbox lives in its memory, so filling the disk must not end
 * in an out-of-memory kill where the user expects "no space left". */
static int finish_disk(struct sandbox_spec *spec, struct cay_error *err) {
    char want[32], have[32];
    if (spec->disk_bytes == 0)
        spec->disk_bytes = spec->memory_bytes / 2;
    if (spec->disk_bytes > spec->memory_bytes) {
        error_set(err, CAY_INVALID_ARGUMENT, "--disk %s is more than --memory %s",
                  str_bytes(spec->disk_bytes, want), str_bytes(spec->memory_bytes, have));
        return error_remedy(err, "a throw-away sandbox keeps its files in memory: raise --memory "
                                 "or lower --disk");
    }
    if (spec->disk_bytes < DISK_MIN) {
        error_set(err, CAY_INVALID_ARGUMENT, "--disk %s is too little",
                  str_bytes(spec->disk_bytes, want));
        return error_remedy(err, "ask for at least 64k");
    }
    if (spec->inodes == 0)
        spec->inodes = spec_inodes(spec->disk_bytes);
    return 0;
}

static int check_cpu(const struct sandbox_spec *spec, uint32_t online, struct cay_error *err) {
    if (spec->cpu_quota_us > (uint64_t)online * CPU_PERIOD_US) {
        error_set(err, CAY_INVALID_ARGUMENT, "--cpus %.2f is more than this host has (%u)",
                  spec->cpu_quota_us / (double)CPU_PERIOD_US, online);
        return error_remedy(err, "ask for at most %u", online);
    }
    if (spec->cpu_quota_us < CPU_QUOTA_MIN_US)
        return error_set(err, CAY_INVALID_ARGUMENT, "--cpus is below the minimum of 0.01");
    return 0;
}

static int check_pids(const struct sandbox_spec *spec, uint32_t max, struct cay_error *err) {
    if (spec->pids < PIDS_MIN)
        return error_set(err, CAY_INVALID_ARGUMENT, "--pids must be at least %d", PIDS_MIN);
    if (spec->pids > max) {
        error_set(err, CAY_INVALID_ARGUMENT, "--pids %u is more than this host has (%u)",
                  spec->pids, max);
        return error_remedy(
            err, "ask for less, or raise the sysctls kernel.pid_max and kernel.threads-max");
    }
    return 0;
}

int spec_refuse_bridge(struct cay_error *err) {
    error_set(err, CAY_UNSUPPORTED, "the engine native has no network 'bridge'");
    return error_remedy(err, "use --network 'allow=*', which reaches every public name by a proxy, "
                             "--network none, or --engine " ENGINE_BRIDGE);
}

int spec_finish(struct sandbox_spec *spec, const struct spec_host *host, struct cay_error *err) {
    int r = check_memory(spec, host->memory_bytes, err);
    if (r == 0)
        r = finish_disk(spec, err);
    if (r == 0)
        r = check_cpu(spec, host->cpus, err);
    if (r == 0)
        r = check_pids(spec, host->pids, err);
    return r;
}
