/* Making and starting the container of a sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/program.h"
#include "base/str.h"
#include "engine/docker/bridge.h"
#include "engine/docker/images/image.h"
#include "engine/docker/internal.h"
#include "engine/docker/spec.h"
#include "engine/docker/transport/handshake.h"
#include "image/image.h"
#include "image/store.h"
#include "version.h"

#define NO_DISKS                                                                                   \
    "let Docker keep its data on btrfs, or on xfs mounted with pquota; or use --engine native"
#define WORK_NAME "work"

enum {
    ENTER_MS = 30 * 1000,
    BODY_MAX = 256 * 1024,
    FILES_MAX = 65536,
    PROCESSES_MAX = 32768, /* of a user; the control group limits the sandbox */
};

struct starting {
    struct docker_engine *d;
    struct sandbox_spec spec;
    const char *image; /* id in the store */
    int folder;        /* STATE/docker/ID */
    char door_path[PATH_MAX], work_path[PATH_MAX];
    char tools[DOCKER_VOLUME_SIZE]; /* instead of the door, on another machine */
    char *sources[SPEC_MOUNTS_MAX]; /* real paths of the mounts */
    struct docker_orders orders;
    bool had;                                  /* a container, before this start */
    uint32_t pids;                             /* that were asked for */
    bool by_stream;                            /* it cannot be given descriptors */
    bool asked;                                /* Docker, to make one */
    char from[DOCKER_ARCHIVE_SIZE + HEX_SIZE]; /* the image, as Docker knows it */
};

static void starting_free(struct starting *st) {
    for (size_t i = 0; i < SPEC_MOUNTS_MAX; i++)
        free(st->sources[i]);
    fd_close(&st->folder);
}

/* ---- checks ---- */

static int check_tier(const struct docker_engine *d, const struct sandbox_spec *spec,
                      struct cay_error *err) {
    enum tier given = docker_runtime_tier(d->runtime);
    if (spec->tier <= given)
        return 0;
    error_set(err, CAY_UNSUPPORTED, "tier %s was asked for, and Docker gives tier %s",
              tier_name(spec->tier), tier_name(given));
    return error_remedy(err, "accept --tier %s, or use engine = \"native\"", tier_name(given));
}

/* What a kernel of the runtime's own cannot do for us. */
static int check_kernel(const struct docker_engine *d, const struct sandbox_spec *spec,
                        struct cay_error *err) {
    if (docker_runtime_kernel(d->runtime) != DOCKER_KERNEL_GVISOR ||
        spec->profile == PROFILE_STRICT)
        return 0;
    error_set(err, CAY_UNSUPPORTED, "the runtime %s has no profile build", d->runtime);
    return error_remedy(err, "use the profile strict, or another runtime");
}

static int check(const struct docker_engine *d, const struct sandbox_spec *spec, const char *image,
                 struct cay_error *err) {
    int r = check_tier(d, spec, err);
    if (r == 0)
        r = check_kernel(d, spec, err);
    if (r < 0)
        return r;
    if (image[0] == '\0') {
        error_set(err, CAY_UNSUPPORTED, "Docker has no host image");
        return error_remedy(err, "name an image: --image, or image in the section [sandbox]");
    }
    if (spec->mount_count > SPEC_MOUNTS_MAX)
        return error_set(err, CAY_INVALID_ARGUMENT, "more than %d volumes", SPEC_MOUNTS_MAX);
    return 0;
}

static bool has_own_kernel(const struct docker_engine *d) {
    return docker_runtime_kernel(d->runtime) != DOCKER_KERNEL_HOST;
}

/* Why descriptors cannot be passed. */
static const char *why_apart(const struct docker_engine *d) {
    return d->is_far ? "Docker is on another machine" : "the runtime has a kernel of its own";
}

static int check_network(const struct docker_engine *d, const struct sandbox_spec *spec,
                         struct cay_error *err) {
    if (!spec->has_list || (!d->is_far && !has_own_kernel(d)))
        return 0;
    error_set(err, CAY_UNSUPPORTED, "%s, and its containers cannot have a network list",
              why_apart(d));
    return error_remedy(err, "use the network 'none', or a Docker on this machine with runc");
}

/* What only a Docker on this machine can show; and only if the kernel inside is the host's cay can
 * look whether what is shown is what was checked. */
static int check_apart_mount(const struct docker_engine *d, const struct mount_spec *m,
                             struct cay_error *err) {
    if (!m->named) {
        error_set(err, CAY_UNSUPPORTED, "%s, and cannot show the folder '%.200s' of this one",
                  why_apart(d), m->source);
        return error_remedy(err, "copy it into the sandbox, or use a named volume");
    }
    if (strchr(m->source, '/') != NULL) {
        error_set(err, CAY_UNSUPPORTED, "%s, and cannot show a part of a volume", why_apart(d));
        return error_remedy(err, "show the whole volume");
    }
    return 0;
}

/* Everything that this engine can say of it; Docker itself may refuse later. */
static int check_disk(const struct docker_info *info, const struct sandbox_spec *spec,
                      struct cay_error *err) {
    if (spec->disk_bytes == 0 || info->can_limit_disk)
        return 0;
    error_set(err, CAY_UNSUPPORTED,
              "the Docker engine limits no disks where Docker keeps files by %.40s on %.40s",
              info->driver, info->backing[0] != '\0' ? info->backing : "its own disk");
    return error_remedy(err, NO_DISKS);
}

/* A sandbox whose limits would not count is refused. Asked once. */
static int check_abilities(struct docker_engine *d, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    struct docker_info info = {0};
    if (__atomic_load_n(&d->is_able, __ATOMIC_ACQUIRE))
        return 0;
    int r = docker_do(d->api, &(struct docker_call){.method = "GET", .path = "/info"}, &a, err);
    if (r == 0)
        r = docker_parse_info(buf_text(&a.body), a.body.len, &info, err);
    if (r < 0)
        return r;
    const char *lacks = !info.can_limit_memory ? "memory"
                        : !info.can_limit_cpu  ? "processors"
                        : !info.can_limit_pids ? "processes"
                                               : NULL;
    if (lacks != NULL) {
        error_set(err, CAY_UNSUPPORTED, "this Docker cannot limit the %s of containers", lacks);
        return error_remedy(err,
                            "give it the cgroup controllers memory, cpu and pids; without root "
                            "that needs cgroup v2");
    }
    r = docker_runtime_check(&info, d->runtime, err);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&d->tools_lock);
    if (!__atomic_load_n(&d->is_able, __ATOMIC_ACQUIRE)) /* else somebody reads it */
        d->info = info;
    __atomic_store_n(&d->is_able, true, __ATOMIC_RELEASE);
    (void)pthread_mutex_unlock(&d->tools_lock);
    return 0;
}

/* ---- folders ---- */

static int put_program(const struct starting *st, int from, const char *name,
                       struct cay_error *err) {
    (void)unlinkat(st->folder, name, 0); /* one may be running */
    _cleanup_(closep) int to =
        openat(st->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755);
    if (to < 0)
        return error_errno(err, "making %s", name);
    char data[65536];
    ssize_t n;
    for (off_t at = 0; (n = pread(from, data, sizeof data, at)) > 0; at += n) {
        int r = fd_write_all(to, data, (size_t)n);
        if (r < 0)
            return error_sys(err, -r, "writing %s", name);
    }
    if (n < 0 || fchmod(to, 0755) < 0)
        return error_errno(err, "writing %s", name);
    return 0;
}

/* What the container is started with; of this version, whatever made the container. */
static int put_programs(const struct starting *st, struct cay_error *err) {
    char path[PATH_MAX];
    int r = program_find("cay-enter", path, sizeof path, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int enter = open(path, O_RDONLY | O_CLOEXEC);
    if (enter < 0)
        return error_errno(err, "opening %s", path);
    r = put_program(st, enter, DOCKER_ENTER_NAME, err);
    return r < 0 || !st->by_stream ? r : put_program(st, st->d->init, DOCKER_INIT_NAME, err);
}

/* The work folder of a sandbox whose root cannot be written. */
static int make_work(struct starting *st, struct cay_error *err) {
    if (!st->spec.read_only)
        return 0;
    if (mkdirat(st->folder, WORK_NAME, 0755) < 0)
        return errno == EEXIST ? 0 : error_errno(err, "making the work folder");
    if (fchownat(st->folder, WORK_NAME, st->spec.run_uid, st->spec.run_gid, AT_SYMLINK_NOFOLLOW) <
        0)
        return error_errno(err, "making the work folder");
    return 0;
}

static int make_folder(struct starting *st, struct cay_error *err) {
    struct docker_engine *d = st->d;
    if (mkdirat(d->folder, st->spec.id, 0755) < 0 && errno != EEXIST)
        return error_errno(err, "making the folder of the sandbox");
    st->folder = openat(d->folder, st->spec.id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (st->folder < 0 || fchmod(st->folder, 0755) < 0)
        return error_errno(err, "opening the folder of the sandbox");
    if (mkdirat(st->folder, "in", 0755) < 0 && errno != EEXIST)
        return error_errno(err, "making the folder of the sandbox");
    int r = make_work(st, err);
    if (r < 0)
        return r;
    r = str_format(st->door_path, sizeof st->door_path, "%s/%s/%s/in", d->home, d->folder_name,
                   st->spec.id);
    if (r == 0)
        r = str_format(st->work_path, sizeof st->work_path, "%s/%s/%s/" WORK_NAME, d->home,
                       d->folder_name, st->spec.id);
    if (r < 0)
        return error_sys(err, -r, "naming the folder of the sandbox");
    /* From here on the folder that is shown inside. */
    int in = openat(st->folder, "in", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (in < 0)
        return error_errno(err, "opening the folder of the sandbox");
    fd_close(&st->folder);
    st->folder = in;
    return st->d->is_far ? 0 : put_programs(st, err);
}

/* Volumes of Docker's; one that is missing would be made, empty, and is made here with our label.
 */
static int find_far_sources(struct starting *st, struct cay_error *err) {
    for (size_t i = 0; i < st->spec.mount_count; i++) {
        const char *id = st->spec.mounts[i].source;
        char name[DOCKER_VOLUME_SIZE];
        int r = check_apart_mount(st->d, &st->spec.mounts[i], err);
        if (r == 0)
            r = docker_far_volume_make(st->d, id, err);
        if (r < 0)
            return r;
        (void)snprintf(name, sizeof name, DOCKER_VOLUME_PREFIX "%.*s", ID_LEN, id);
        st->sources[i] = strdup(name);
        if (st->sources[i] == NULL)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    docker_far_tools_name(st->d, st->tools);
    return 0;
}

static int find_sources(struct starting *st, struct cay_error *err) {
    char path[PATH_MAX];
    if (st->d->is_far)
        return find_far_sources(st, err);
    for (size_t i = 0; i < st->spec.mount_count; i++) {
        enum volume_kind kind; /* nothing is mounted or mapped here */
        int r = has_own_kernel(st->d) ? check_apart_mount(st->d, &st->spec.mounts[i], err) : 0;
        if (r < 0)
            return r;
        _cleanup_(closep) int fd = volume_open(&st->d->volumes, &st->spec.mounts[i], &kind, err);
        if (fd < 0)
            return fd;
        r = volume_real_path(fd, path);
        if (r < 0)
            return error_sys(err, -r, "looking where a volume is");
        struct stat found;
        if (fstat(fd, &found) < 0)
            return error_errno(err, "looking what a volume is");
        struct docker_volume *v = &st->orders.volumes[i];
        *v = (struct docker_volume){.device = found.st_dev, .inode = found.st_ino};
        memcpy(v->target, st->spec.mounts[i].target, sizeof v->target);
        st->orders.volume_count = has_own_kernel(st->d) ? 0 : (uint32_t)i + 1;
        st->sources[i] = strdup(path);
        if (st->sources[i] == NULL)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    return 0;
}

/* Whose the work folder is, by the image's own users. The image is pinned, so that a container that
 * somebody removes from Docker can be made again. */
static int look_at_image(struct starting *st, struct cay_error *err) {
    struct image image = IMAGE_NONE;
    int r = image_open(st->d->home, st->image, &image, err);
    if (r < 0)
        return r;
    if (st->spec.run_user[0] != '\0') /* one that is unknown cay-init refuses */
        (void)image_run_ids(&image, st->spec.run_user, &st->spec.run_uid, &st->spec.run_gid);
    r = image_store_pin(st->d->home, st->spec.id, st->image, err);
    image_close(&image);
    return r;
}

/* ---- the container ---- */

/* That there was a container once: if it is gone, so is what the sandbox had written. */
static int remember(const struct starting *st, struct cay_error *err) {
    int fd =
        openat(st->folder, DOCKER_MADE_NAME, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0444);
    if (fd < 0)
        return error_errno(err, "writing down that there is a container");
    (void)close(fd);
    return 0;
}

/* Our own limit, or what is enough if that is more: an engine on our host may not be able to give
 * more than we have. Of one on another host we do not know. */
static uint64_t limit_of(int resource, uint64_t enough) {
    struct rlimit limit;
    if (getrlimit((unsigned)resource, &limit) < 0 || limit.rlim_max == RLIM_INFINITY)
        return enough;
    return MIN(limit.rlim_max, enough);
}

/* Docker on xfs finds out last that it has no quotas there. */
static int explain(const struct starting *st, int r, struct cay_error *err) {
    if (st->spec.disk_bytes == 0 || err == NULL || strstr(err->message, "storage-opt") == NULL)
        return r;
    error_set(err, CAY_UNSUPPORTED,
              "the Docker engine limits no disks where Docker has no project quotas");
    return error_remedy(err, NO_DISKS);
}

static int create(struct starting *st, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    _cleanup_(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    char path[DOCKER_PATH_SIZE];
    bool far = st->d->is_far;
    struct docker_plan plan = {.spec = &st->spec,
                               .image = st->from,
                               .home = st->d->label,
                               .version = CAY_VERSION,
                               .runtime = st->d->runtime,
                               .is_far = far,
                               .by_stream = st->by_stream,
                               .door = far ? st->tools : st->door_path,
                               .work = st->spec.read_only && !far ? st->work_path : NULL,
                               .files = far ? 0 : limit_of(RLIMIT_NOFILE, FILES_MAX),
                               .processes = far ? 0 : limit_of(RLIMIT_NPROC, PROCESSES_MAX),
                               .has_network = st->spec.has_bridge,
                               .sources = (const char *const *)st->sources};
    if (str_format(path, sizeof path, "/containers/create?name=cay-%s", st->spec.id) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not a sandbox that can be started");
    int r = far ? docker_far_tools(st->d, st->from, err) : 0;
    if (r == 0)
        r = docker_spec_create(&plan, &body, err);
    if (r < 0)
        return r;
    struct docker_call call = {
        .method = "POST", .path = path, .body = buf_text(&body), .body_len = body.len};
    st->asked = true;
    r = docker_do(st->d->api, &call, &a, err);
    return r < 0 ? explain(st, r, err) : remember(st, err);
}

/* What the sandbox had written, if it was archived; else its image. */
static int have_image(struct starting *st, struct cay_error *err) {
    int r = st->d->is_run ? 0 : docker_archive_find(st->d, st->spec.id, st->from, err);
    if (r != 0)
        return r < 0 ? r : 0;
    if (str_format(st->from, sizeof st->from, "sha256:%s", st->image) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of an image");
    return docker_image_ensure(st->d->api, st->d->home, st->image, err);
}

/* A container keeps its runtime. */
static int refuse_kernel(const struct starting *st, struct cay_error *err) {
    error_set(err, CAY_CONFLICT,
              st->by_stream ? "the container was made with a runtime that shares the host's kernel"
                            : "the container was made with a runtime that has its own kernel");
    return error_remedy(err, "set runtime in the section [docker] as it was when the sandbox was "
                             "made, or take a snapshot of it then");
}

/* Makes the container if there is none; else gives it the limits of now. */
static int have_container(struct starting *st, struct cay_error *err) {
    struct docker_container c;
    int r = docker_inspect(st->d, st->spec.id, "/json", &c, err);
    if (r == -CAY_NOT_FOUND && st->had) {
        error_set(err, CAY_NOT_FOUND,
                  "the container of the sandbox was removed from Docker, and its files with it");
        return error_remedy(err, "remove the sandbox, and make another");
    }
    if (r == -CAY_NOT_FOUND) {
        r = have_image(st, err);
        return r < 0 ? r : create(st, err);
    }
    if (r < 0)
        return r;
    if (c.state != ENGINE_STOPPED)
        return error_set(err, CAY_CONFLICT, "the container of the sandbox runs already");
    if (!st->d->is_far && c.by_stream != st->by_stream)
        return refuse_kernel(st, err);
    struct sandbox_spec limits = st->spec;
    limits.disk_bytes = 0;
    if (c.memory_bytes == limits.memory_bytes && c.cpu_quota_us == limits.cpu_quota_us &&
        c.pids == limits.pids)
        return 0;
    limits.pids = st->pids; /* to which the engine adds once more */
    return st->d->engine.ops->resize(&st->d->engine, &limits, err);
}

/* A volume that is shown there is its owner's. */
static bool may_write_hosts(const struct sandbox_spec *spec) {
    for (size_t i = 0; i < spec->mount_count; i++)
        if (str_equal(spec->mounts[i].target, "/etc") ||
            str_equal(spec->mounts[i].target, "/etc/hosts"))
            return false;
    return !spec->read_only;
}

static int fill_orders(const struct docker_engine *d, const struct sandbox_spec *spec,
                       struct docker_orders *ret, struct cay_error *err) {
    struct seccomp_options o = {.deny_setid = spec_has_writable_mount(spec)};
    ret->version = DOCKER_ORDERS_VERSION;
    ret->build = spec->profile == PROFILE_BUILD;
    ret->set_file_capabilities = !spec_has_writable_mount(spec);
    ret->work_uid = spec->run_uid;
    ret->work_gid = spec->run_gid;
    ret->is_gvisor = docker_runtime_kernel(d->runtime) == DOCKER_KERNEL_GVISOR;
    ret->write_hosts = may_write_hosts(spec);
    int n = seccomp_build(&o, ret->filter, ARRAY_LEN(ret->filter));
    if (n < 0)
        return error_sys(err, -n, "building the seccomp filter");
    ret->filter_count = (uint32_t)n;
    return 0;
}

static int start_once(const struct starting *st, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    char path[DOCKER_PATH_SIZE];
    int r = docker_path(path, st->spec.id, "/start", err);
    return r < 0 ? r
                 : docker_do(st->d->api, &(struct docker_call){.method = "POST", .path = path}, &a,
                             err);
}

/* Docker remembers a network by its id: one that somebody removed, and that was made again, is not
 * the container's any more. */
static int start_container(const struct starting *st, struct cay_error *err) {
    int r = start_once(st, err);
    if (r != -CAY_NOT_FOUND || !st->spec.has_bridge || !st->had)
        return r;
    r = docker_net_connect(st->d, st->spec.id, err);
    return r < 0 ? r : start_once(st, err);
}

/* A start that fails may be for want of the programs, which somebody could have removed: the next
 * one brings them again. */
static int run_by_stream(struct starting *st, int listener, struct cay_error *err) {
    struct docker_engine *d = st->d;
    char image[128];
    (void)snprintf(image, sizeof image, "sha256:%s", st->image);
    int r = d->is_far ? docker_far_tools(d, image, err) : 0;
    if (r == 0)
        r = docker_bridge_reserve(d, st->spec.id, err);
    if (r == 0)
        r = start_container(st, err);
    if (r == 0)
        r = docker_far_enter(d, st->spec.id, &st->orders, ENTER_MS, err);
    if (r == 0)
        r = docker_bridge_open(d, st->spec.id, listener, err);
    if (r < 0) {
        docker_bridge_close(d, st->spec.id);
        (void)pthread_mutex_lock(&d->tools_lock);
        d->has_tools = false;
        (void)pthread_mutex_unlock(&d->tools_lock);
    }
    return r;
}

static int run(struct starting *st, int listener, struct cay_error *err) {
    int r = fill_orders(st->d, &st->spec, &st->orders, err);
    if (r < 0 || st->by_stream)
        return r < 0 ? r : run_by_stream(st, listener, err);
    int door = docker_door_open(st->folder, err);
    if (door < 0)
        return door;
    r = start_container(st, err);
    if (r == 0)
        r = docker_door_serve(door, &st->orders, st->d->init, listener, ENTER_MS, err);
    docker_door_close(st->folder, &door);
    return r;
}

/* Of a network that cannot be closed, and of one that should not be there. */
static int explain_walls(const struct starting *st, int r, struct cay_error *err) {
    if (r == 0 || err == NULL || strstr(err->message, DOCKER_WALLS_STEP) == NULL)
        return r;
    if (st->spec.has_bridge)
        return error_remedy(err, "give the kernel nf_tables with reject (modules nf_tables and "
                                 "nft_reject_inet), or use --network 'allow=*'");
    error_set(err, CAY_CONFLICT, "the container was given a network that cay did not ask for");
    return error_remedy(err, "take it away: docker network disconnect NETWORK cay-%s", st->spec.id);
}

/* Of a sandbox that never ran nothing is left; another one's container stays, stopped. */
static void undo(struct starting *st, bool ran) {
    struct engine *e = &st->d->engine;
    if (!st->had && !st->asked) /* which is all that there is, whether or not Docker is there */
        (void)path_remove_tree(st->d->folder, st->spec.id);
    if (!st->had)
        (void)e->ops->remove(e, st->spec.id, NULL);
    else if (ran)
        (void)e->ops->stop(e, st->spec.id, NULL);
}

/* Everything but the container. */
static int prepare(struct starting *st, struct cay_error *err) {
    char made[ID_SIZE + sizeof "/in/" DOCKER_MADE_NAME];
    (void)snprintf(made, sizeof made, "%s/in/" DOCKER_MADE_NAME, st->spec.id);
    st->had = faccessat(st->d->folder, made, F_OK, 0) == 0;
    int r = st->d->is_run ? docker_runs_own(st->d, st->spec.id, err) : 0;
    if (r == 0)
        r = look_at_image(st, err);
    if (r == 0)
        r = find_sources(st, err);
    return r < 0 ? r : make_folder(st, err);
}

int docker_start(struct engine *e, const struct sandbox_spec *spec, const char *image, int listener,
                 struct cay_error *err) {
    _cleanup_(starting_free) struct starting st = {
        .d = docker_of(e), .spec = *spec, .image = image, .folder = -1, .pids = spec->pids};
    st.by_stream = st.d->is_far || has_own_kernel(st.d);
    st.spec.pids = docker_runtime_pids(st.d->runtime, spec->pids);
    int r = check(st.d, spec, image, err);
    if (r == 0)
        r = check_network(st.d, spec, err);
    if (r == 0)
        r = check_abilities(st.d, err);
    if (r == 0)
        r = check_disk(&st.d->info, spec, err);
    if (r < 0)
        return r;
    r = prepare(&st, err);
    if (r == 0 && spec->has_bridge)
        r = docker_net_prepare(st.d, &st.orders.walls, err);
    if (r == 0)
        r = have_container(&st, err);
    bool ran = r == 0;
    if (ran)
        r = explain_walls(&st, run(&st, listener, err), err);
    if (r < 0)
        undo(&st, ran);
    return r;
}
