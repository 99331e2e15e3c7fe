#include "engine/docker/spec.h"

#include <stdio.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "engine/docker/parse.h"
#include "image/record.h"

enum { CPU_PERIOD_US = 100000, FILES_SOFT = 1024 };

/* What cay-enter needs to make the work folder and to become cay-init, which has the first three
 * alone; in the profile build, what root inside keeps as well. */
static const char *const strict_capabilities[] = {"SETUID", "SETGID", "KILL", "SETPCAP", "CHOWN"};
static const char *const build_capabilities[] = {"DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP"};

static void put_list(struct jsonw *w, const char *key, const char *const *words, size_t count) {
    jsonw_key(w, key);
    jsonw_begin_array(w);
    for (size_t i = 0; i < count; i++)
        jsonw_string(w, words[i]);
    jsonw_end_array(w);
}

static void put_capabilities(struct jsonw *w, const struct docker_plan *p) {
    const struct sandbox_spec *spec = p->spec;
    static const char *const all[] = {"ALL"};
    put_list(w, "CapDrop", all, ARRAY_LEN(all));
    jsonw_key(w, "CapAdd");
    jsonw_begin_array(w);
    for (size_t i = 0; i < ARRAY_LEN(strict_capabilities); i++)
        jsonw_string(w, strict_capabilities[i]);
    for (size_t i = 0; spec->profile == PROFILE_BUILD && i < ARRAY_LEN(build_capabilities); i++)
        jsonw_string(w, build_capabilities[i]);
    if (p->has_network) /* for its walls, before anything of the sandbox runs */
        jsonw_string(w, "NET_ADMIN");
    jsonw_end_array(w);
}

/* Swap equal to the memory means none. */
static void put_limits(struct jsonw *w, const struct sandbox_spec *spec) {
    if (spec->memory_bytes != 0) {
        jsonw_put_unsigned(w, "Memory", spec->memory_bytes);
        jsonw_put_unsigned(w, "MemorySwap", spec->memory_bytes);
    }
    if (spec->cpu_quota_us != 0) {
        jsonw_put_unsigned(w, "CpuPeriod", CPU_PERIOD_US);
        jsonw_put_unsigned(w, "CpuQuota", spec->cpu_quota_us);
    }
    if (spec->pids != 0)
        jsonw_put_unsigned(w, "PidsLimit", spec->pids);
}

static void put_mount(struct jsonw *w, const char *source, const char *target, bool read_only) {
    jsonw_begin_object(w);
    jsonw_put_string(w, "Type", "bind");
    jsonw_put_string(w, "Source", source);
    jsonw_put_string(w, "Target", target);
    jsonw_put_bool(w, "ReadOnly", read_only);
    jsonw_key(w, "BindOptions"); /* what is mounted below on the host stays outside */
    jsonw_begin_object(w);
    jsonw_put_string(w, "Propagation", "private");
    jsonw_put_bool(w, "NonRecursive", true);
    jsonw_end_object(w);
    jsonw_end_object(w);
}

/* One of Docker's; without a name it goes with the container. */
static void put_volume(struct jsonw *w, const char *name, const char *target, bool read_only) {
    jsonw_begin_object(w);
    jsonw_put_string(w, "Type", "volume");
    if (name != NULL)
        jsonw_put_string(w, "Source", name);
    jsonw_put_string(w, "Target", target);
    jsonw_put_bool(w, "ReadOnly", read_only);
    jsonw_key(w, "VolumeOptions"); /* nothing of the image comes into it */
    jsonw_begin_object(w);
    jsonw_put_bool(w, "NoCopy", true);
    jsonw_end_object(w);
    jsonw_end_object(w);
}

static void put_far_mounts(struct jsonw *w, const struct docker_plan *p) {
    put_volume(w, p->door, DOCKER_DOOR_INSIDE, true);
    if (p->spec->read_only)
        put_volume(w, NULL, DOCKER_WORK_INSIDE, false);
    for (size_t i = 0; i < p->spec->mount_count; i++)
        put_volume(w, p->sources[i], p->spec->mounts[i].target, p->spec->mounts[i].read_only);
}

/* Mounts of this form fail when their source is missing; the older "Binds" would make a folder. */
static void put_mounts(struct jsonw *w, const struct docker_plan *p) {
    jsonw_key(w, "Mounts");
    jsonw_begin_array(w);
    if (p->is_far)
        put_far_mounts(w, p);
    else
        put_mount(w, p->door, DOCKER_DOOR_INSIDE, true);
    if (p->work != NULL)
        put_mount(w, p->work, DOCKER_WORK_INSIDE, false);
    for (size_t i = 0; !p->is_far && i < p->spec->mount_count; i++)
        put_mount(w, p->sources[i], p->spec->mounts[i].target, p->spec->mounts[i].read_only);
    jsonw_end_array(w);
}

/* What stays writable where the root is not, and is nobody's to keep; and where cay-init's socket
 * is that must not be met by commands. */
static void put_tmpfs(struct jsonw *w, const struct docker_plan *p) {
    jsonw_key(w, "Tmpfs");
    jsonw_begin_object(w);
    if (p->spec->read_only) {
        jsonw_put_string(w, "/tmp", "rw,nosuid,nodev,mode=1777");
        jsonw_put_string(w, "/run", "rw,nosuid,nodev,mode=755");
    }
    if (docker_runtime_kernel(p->runtime) == DOCKER_KERNEL_GVISOR)
        jsonw_put_string(w, DOCKER_WAY_INSIDE,
                         "rw,nosuid,nodev,noexec,size=64k,mode=700,uid=65533,gid=65533");
    jsonw_end_object(w);
}

static void put_ulimit(struct jsonw *w, const char *name, uint64_t soft, uint64_t hard) {
    jsonw_begin_object(w);
    jsonw_put_string(w, "Name", name);
    jsonw_put_unsigned(w, "Soft", soft);
    jsonw_put_unsigned(w, "Hard", hard);
    jsonw_end_object(w);
}

/* Said here because podman would ask for more than some hosts may give; cay-enter sets the rest. */
static void put_ulimits(struct jsonw *w, const struct docker_plan *p) {
    jsonw_key(w, "Ulimits");
    jsonw_begin_array(w);
    put_ulimit(w, "core", 0, 0);
    if (p->files != 0)
        put_ulimit(w, "nofile", MIN(p->files, (uint64_t)FILES_SOFT), p->files);
    if (p->processes != 0)
        put_ulimit(w, "nproc", p->processes, p->processes);
    jsonw_end_array(w);
}

/* Where Docker keeps files with quotas; elsewhere it refuses. */
static void put_disk(struct jsonw *w, uint64_t bytes) {
    char text[32];
    if (bytes == 0)
        return;
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
    jsonw_key(w, "StorageOpt");
    jsonw_begin_object(w);
    jsonw_put_string(w, "size", text);
    jsonw_end_object(w);
}

/* Those that Docker hides by default, and those that the native engine does; to give a list
 * replaces Docker's. Root inside is the host's root here, so files that only root reads count. */
static const char *const hidden[] = {
    "/proc/acpi",
    "/proc/asound",
    "/proc/bootconfig",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/diskstats",
    "/proc/dynamic_debug",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/locks",
    "/proc/mdstat",
    "/proc/modules",
    "/proc/pagetypeinfo",
    "/proc/partitions",
    "/proc/pressure",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/softirqs",
    "/proc/swaps",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/vmallocinfo",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
};

static void put_host_config(struct jsonw *w, const struct docker_plan *p) {
    static const char *const security[] = {"no-new-privileges"};
    jsonw_key(w, "HostConfig");
    jsonw_begin_object(w);
    put_limits(w, p->spec);
    put_disk(w, p->spec->disk_bytes);
    put_capabilities(w, p);
    put_list(w, "SecurityOpt", security, ARRAY_LEN(security));
    put_ulimits(w, p);
    put_mounts(w, p);
    jsonw_put_bool(w, "ReadonlyRootfs", p->spec->read_only);
    put_tmpfs(w, p);
    jsonw_put_string(w, "NetworkMode", p->has_network ? DOCKER_NETWORK : "none");
    jsonw_put_string(w, "IpcMode", "private");
    jsonw_put_string(w, "CgroupnsMode", "private"); /* control groups v1 have another default */
    put_list(w, "MaskedPaths", hidden, ARRAY_LEN(hidden));
    if (p->runtime[0] != '\0')
        jsonw_put_string(w, "Runtime", p->runtime);
    jsonw_put_bool(w, "Privileged", false);
    jsonw_put_bool(w, "Init", false); /* ours is PID 1 */
    jsonw_key(w, "LogConfig");        /* nothing is written there */
    jsonw_begin_object(w);
    jsonw_put_string(w, "Type", "none");
    jsonw_end_object(w);
    jsonw_key(w, "RestartPolicy"); /* the manager decides */
    jsonw_begin_object(w);
    jsonw_put_string(w, "Name", "no");
    jsonw_end_object(w);
    jsonw_end_object(w);
}

static void put_labels(struct jsonw *w, const struct docker_plan *p) {
    jsonw_key(w, "Labels");
    jsonw_begin_object(w);
    jsonw_put_string(w, DOCKER_LABEL_ID, p->spec->id);
    jsonw_put_string(w, DOCKER_LABEL_HOME, p->home);
    jsonw_put_string(w, DOCKER_LABEL_VERSION, p->version);
    if (p->spec->owner[0] != '\0')
        jsonw_put_string(w, DOCKER_LABEL_KEY, p->spec->owner);
    if (p->by_stream && !p->is_far) /* of one that is far, all are */
        jsonw_put_string(w, DOCKER_LABEL_WAY, DOCKER_WAY_STREAM);
    jsonw_end_object(w);
}

static int finish(const struct jsonw *w, struct cay_error *err) {
    int r = jsonw_finish(w);
    return r < 0 ? error_sys(err, -r, "writing a request to Docker") : 0;
}

int docker_spec_create(const struct docker_plan *p, struct buf *out, struct cay_error *err) {
    static const char *const entry[] = {DOCKER_DOOR_INSIDE "/enter", "wait"};
    struct jsonw w = JSONW_INIT(out);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "Image", p->image);
    put_list(&w, "Entrypoint", entry, p->by_stream ? 2 : 1);
    put_list(&w, "Cmd", NULL, 0);
    jsonw_put_string(&w, "User", "0:0");
    jsonw_put_string(&w, "WorkingDir", "/");
    if (p->spec->hostname[0] != '\0')
        jsonw_put_string(&w, "Hostname", p->spec->hostname);
    /* Which takes half of the time; then cay-enter writes /etc/hosts, if it can. */
    jsonw_put_bool(&w, "NetworkDisabled", !p->has_network && !p->spec->read_only);
    jsonw_put_string(&w, "StopSignal", "SIGKILL");
    jsonw_put_integer(&w, "StopTimeout", 1); /* of dockerd's own end; the manager has its grace */
    jsonw_key(&w, "Healthcheck");            /* one of the image would run as root, past our init */
    jsonw_begin_object(&w);
    static const char *const none[] = {"NONE"};
    put_list(&w, "Test", none, ARRAY_LEN(none));
    jsonw_end_object(&w);
    put_labels(&w, p);
    put_host_config(&w, p);
    jsonw_end_object(&w);
    return finish(&w, err);
}

int docker_spec_filler(const char *image, const char *volume, struct buf *out,
                       struct cay_error *err) {
    static const char *const entry[] = {DOCKER_DOOR_INSIDE "/enter"};
    struct jsonw w = JSONW_INIT(out);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "Image", image);
    put_list(&w, "Entrypoint", entry, ARRAY_LEN(entry));
    jsonw_put_bool(&w, "NetworkDisabled", true);
    jsonw_key(&w, "HostConfig");
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "NetworkMode", "none");
    jsonw_key(&w, "Mounts");
    jsonw_begin_array(&w);
    put_volume(&w, volume, DOCKER_DOOR_INSIDE, false);
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    jsonw_end_object(&w);
    return finish(&w, err);
}

int docker_spec_volume(const char *id, const char *home, struct buf *out, struct cay_error *err) {
    char name[DOCKER_VOLUME_SIZE];
    struct jsonw w = JSONW_INIT(out);
    (void)snprintf(name, sizeof name, DOCKER_VOLUME_PREFIX "%.*s", ID_LEN, id);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "Name", name);
    jsonw_key(&w, "Labels");
    jsonw_begin_object(&w);
    jsonw_put_string(&w, DOCKER_LABEL_HOME, home);
    jsonw_end_object(&w);
    jsonw_end_object(&w);
    return finish(&w, err);
}

int docker_spec_network(struct buf *out, struct cay_error *err) {
    struct jsonw w = JSONW_INIT(out);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "Name", DOCKER_NETWORK);
    jsonw_put_bool(&w, "CheckDuplicate", true);
    jsonw_put_string(&w, "Driver", "bridge");
    jsonw_put_bool(&w, "EnableIPv6", false);
    jsonw_key(&w, "Options");
    jsonw_begin_object(&w);
    jsonw_put_string(&w, DOCKER_OPTION_ICC, "false");
    jsonw_end_object(&w);
    jsonw_key(&w, "Labels");
    jsonw_begin_object(&w);
    jsonw_put_string(&w, DOCKER_LABEL_NETWORK, DOCKER_NETWORK_KIND);
    jsonw_end_object(&w);
    jsonw_end_object(&w);
    return finish(&w, err);
}

int docker_spec_commit(const struct image_record *from, struct buf *out, struct cay_error *err) {
    static const char *const labels[] = {DOCKER_LABEL_ID, DOCKER_LABEL_HOME, DOCKER_LABEL_KEY,
                                         DOCKER_LABEL_VERSION, DOCKER_LABEL_WAY};
    struct jsonw w = JSONW_INIT(out);
    jsonw_begin_object(&w);
    put_list(&w, "Entrypoint", (const char *const *)from->entrypoint.v, from->entrypoint.len);
    put_list(&w, "Cmd", (const char *const *)from->cmd.v, from->cmd.len);
    put_list(&w, "Env", (const char *const *)from->env.v, from->env.len);
    jsonw_put_string(&w, "User", from->user);
    jsonw_put_string(&w, "WorkingDir",
                     from->working_dir[0] != '\0' ? from->working_dir : DOCKER_WORK_INSIDE);
    jsonw_key(&w, "Labels"); /* empty: they cannot be taken away */
    jsonw_begin_object(&w);
    for (size_t i = 0; i < ARRAY_LEN(labels); i++)
        jsonw_put_string(&w, labels[i], "");
    jsonw_end_object(&w);
    jsonw_end_object(&w);
    return finish(&w, err);
}

int docker_spec_update(const struct sandbox_spec *spec, struct buf *out, struct cay_error *err) {
    struct jsonw w = JSONW_INIT(out);
    jsonw_begin_object(&w);
    put_limits(&w, spec);
    jsonw_end_object(&w);
    return finish(&w, err);
}
