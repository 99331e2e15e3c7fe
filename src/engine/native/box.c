/* One sandbox of the native engine: made by a table of steps, each with its undoing; unmade by
 * undoing them all, last first. A failure in the middle undoes exactly what was done. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "confine/lean.h"
#include "confine/syscalls.h"
#include "confine/userns.h"
#include "engine/native/enter.h"
#include "engine/native/internal.h"
#include "engine/native/rootfs/rootfs.h"
#include "image/image.h"
#include "image/store.h"

enum {
    REMOVE_MS = 10000,
    INIT_PIDS = 2, /* cay-init and the process that serves the command */
};

struct native_box {
    struct native *n;
    struct sandbox_spec spec;
    bool kept;   /* it is to outlive us */
    size_t done; /* steps that were done and must be undone */
    struct idrange ids;
    struct helper helper;
    struct userns_making userns_begun, idmap_begun;
    int userns;
    int netns;
    int lean; /* a mount namespace to start from */
    int init; /* cay-init in its memfd */
    struct cgroup cgroup;
    bool has_cgroup;
    const struct image *image; /* NULL: the host image */
    int disk;                  /* borrowed while starting; -1: none */
    bool disk_is_mount;
    int idmap; /* from the store's ids to ours; -1: not needed */
    struct image_trees trees;
    int dev;
    struct rootfs root;
    int connection;
    pid_t pid;
    int pidfd;
    struct native_phases phases;
};

static uid_t base_of(const struct native_box *b) {
    return b->n->own_userns ? 0 : b->ids.base;
}

/* ---- steps ---- */

/* What was begun when the engine was opened, or a beginning of our own. */
static int begin(struct native_box *b, struct cay_error *err) {
    if (b->n->next_helper.pid == 0)
        return native_begin(b->n, &b->ids, &b->helper, err);
    b->ids = b->n->next_ids;
    b->helper = b->n->next_helper;
    b->n->next_ids = IDRANGE_EMPTY;
    b->n->next_helper = HELPER_NONE;
    return 0;
}

static void end(struct native_box *b) {
    helper_stop(&b->helper);
    idrange_release(&b->ids);
}

/* An ordinary user's helper has nothing to make, only to watch. */
static int start_watching(struct native_box *b, struct cay_error *err) {
    int r = helper_start(-1, b->n->state_path, &b->helper, err);
    return r < 0 ? r : helper_watch(&b->helper, b->spec.id, err);
}

/* Only a tier below the ones that promise a limit gets here without its controller. */
static int make_cgroup(struct native_box *b, struct cay_error *err) {
    const struct cgroup_host *host = b->kept ? &b->n->cgroups : &b->n->limiting;
    if (host->version == CGROUP_NONE)
        return 0;
    struct cgroup_limits limits = {
        .memory_bytes = host->support[CGROUP_MEMORY].usable ? b->spec.memory_bytes : 0,
        .cpu_quota_us_per_100ms = host->support[CGROUP_CPU].usable ? b->spec.cpu_quota_us : 0,
        .pids = host->support[CGROUP_PIDS].usable ? b->spec.pids + INIT_PIDS : 0,
    };
    int r = b->n->own_userns ? start_watching(b, err) : helper_watch(&b->helper, b->spec.id, err);
    if (r == 0)
        r = cgroup_create(host, b->spec.id, &limits, &b->cgroup, err);
    b->has_cgroup = r == 0;
    return r;
}

static void remove_cgroup(struct native_box *b) {
    if (!b->has_cgroup)
        return;
    cgroup_close(&b->cgroup);
    (void)cgroup_remove(&b->n->cgroups, b->spec.id, clock_ms() + REMOVE_MS, NULL);
    b->has_cgroup = false;
}

static void give_up_userns(struct native_box *b) {
    userns_give_up(&b->userns_begun);
    userns_give_up(&b->idmap_begun);
}

/* The sandbox's own, and the one that maps the image store's ids to it. */
static int begin_userns(struct native_box *b, struct cay_error *err) {
    if (b->n->own_userns)
        return 0;
    struct id_map own = {0, b->ids.base, IDRANGE_SIZE};
    struct id_map store = {IMAGE_IDS_FIRST, b->ids.base, IMAGE_IDS_COUNT};
    int r = userns_begin(&own, &own, &b->userns_begun, err);
    if (r == 0 && (b->image != NULL || b->disk >= 0))
        r = userns_begin(&store, &store, &b->idmap_begun, err);
    b->idmap_begun.is_map = true; /* the kernel's way to that limit grows with all sandboxes */
    if (r < 0)
        give_up_userns(b);
    return r;
}

static void close_userns(struct native_box *b) {
    fd_close(&b->userns);
    fd_close(&b->idmap);
}

static int make_userns(struct native_box *b, struct cay_error *err) {
    if (b->n->own_userns)
        return 0;
    b->userns = userns_finish(&b->userns_begun, err);
    int r = MIN(b->userns, 0);
    if (r == 0 && b->idmap_begun.pid > 0) {
        b->idmap = userns_finish(&b->idmap_begun, err);
        r = MIN(b->idmap, 0);
    }
    if (r < 0)
        close_userns(b);
    return r;
}

static int open_trees(struct native_box *b, struct cay_error *err) {
    if (b->image == NULL) {
        int r = native_host_image(b->n, err);
        return r < 0 ? r : image_trees_open(&b->n->image, b->userns, &b->trees, err);
    }
    return image_trees_open_store(b->image, b->idmap, &b->trees, err);
}

static void close_trees(struct native_box *b) {
    image_trees_close(&b->trees);
}

static int prepare_root(struct native_box *b, struct cay_error *err) {
    struct rootfs_owner owner = {
        .base = base_of(b),
        .own_userns = b->n->own_userns,
        .idmap = b->idmap,
        .disk = b->disk,
        .nothing = -1,
        .disk_is_mount = b->disk_is_mount,
        .volumes = native_volume_rules(b->n),
    };
    return rootfs_prepare(&b->spec, &b->trees, &owner, &b->root, err);
}

static void close_root(struct native_box *b) {
    rootfs_close(&b->root);
}

static int take_or_share(const struct native_box *b, int shared, struct cay_error *err) {
    if (shared < 0)
        return helper_take(&b->helper, err);
    int fd = fcntl(shared, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? error_errno(err, "taking what sandboxes share") : fd;
}

/* What the helper made meanwhile, in the order of native_begin. */
static int take_from_helper(struct native_box *b, struct cay_error *err) {
    _cleanup_(closep) int sockets = -1; /* for those who lease the namespace again */
    b->netns = helper_take_pair(&b->helper, &sockets, err);
    if (b->netns < 0)
        return b->netns;
    b->dev = helper_take(&b->helper, err);
    if (b->dev < 0)
        return b->dev;
    b->lean = take_or_share(b, b->n->shared_lean, err);
    if (b->lean < 0)
        return b->lean;
    b->init = take_or_share(b, b->n->shared_init, err);
    return MIN(b->init, 0);
}

static void close_parts(struct native_box *b) {
    fd_close(&b->netns);
    fd_close(&b->lean);
    fd_close(&b->dev);
    fd_close(&b->init);
}

static int take_parts(struct native_box *b, struct cay_error *err) {
    if (b->n->own_userns) {
        b->init = init_memfd_create(err);
        return MIN(b->init, 0);
    }
    int r = take_from_helper(b, err);
    if (r < 0)
        close_parts(b);
    return r;
}

/* The limit itself where no control group keeps it; the resource limit counts by user, so cay
 * itself counts too. Else a second wall. */
static uint32_t pids_rlimit(const struct native_box *b) {
    return b->n->cgroups.support[CGROUP_PIDS].usable ? userns_process_ceiling()
                                                     : b->spec.pids + INIT_PIDS + 1;
}

/* From the lean namespace and back, where the tree can be put together without the host's mounts.
 */
static pid_t start_lean(struct native_box *b, struct enter_plan *plan, struct cay_error *err) {
    bool lean = b->lean >= 0 && b->root.overlay >= 0;
    if (!lean)
        return enter_start(plan, &b->pidfd, err);
    plan->fs.lean = true;
    _cleanup_(closep) int host = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (host < 0)
        return error_errno(err, "opening the mount namespace");
    int r = lean_enter(b->lean, err);
    if (r < 0)
        return r;
    struct cay_error other;
    pid_t pid = enter_start(plan, &b->pidfd, err);
    r = lean_enter(host, pid < 0 ? &other : err);
    if (pid > 0 && r < 0) {
        (void)pidfd_send_signal(b->pidfd, SIGKILL, NULL, 0);
        fd_close(&b->pidfd);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    return r < 0 && pid > 0 ? r : pid;
}

static int start_init(struct native_box *b, struct cay_error *err) {
    const struct sock_fprog *filter;
    int r = native_filter_for(b->n, &b->spec, &filter, err);
    if (r < 0)
        return r;
    int pair[2];
    /* a sequenced-packet socket makes cay-init wait there for the listener */
    int type = b->kept ? SOCK_SEQPACKET : SOCK_STREAM;
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the connection to cay-init");
    struct enter_plan plan = {
        .fs = {.spec = &b->spec,
               .trees = &b->trees,
               .root = &b->root,
               .masks = &b->n->masks,
               .dev = b->dev,
               .base = base_of(b),
               .own_userns = b->n->own_userns,
               .staging = b->n->state_path},
        .cgroup = b->has_cgroup ? &b->cgroup : NULL,
        .netns = b->netns,
        .userns = b->userns,
        .single_id = b->n->single_id,
        .pids_rlimit = pids_rlimit(b),
        .landlock_abi = b->n->landlock_abi,
        .filter = filter,
        .init = b->init,
        .listener = -1,
        .connection = pair[1],
        .die_with_parent = !b->kept,
        .for_parent = b->kept && b->n->for_parent,
    };
    pid_t pid = start_lean(b, &plan, err);
    (void)close(pair[1]);
    if (pid < 0) {
        (void)close(pair[0]);
        return (int)pid;
    }
    b->pid = pid;
    b->connection = pair[0];
    return 0;
}

/* Ends everything in its pid namespace; a child of our parent is reaped there. */
static void kill_and_wait(pid_t pid, int pidfd) {
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    (void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0); /* it may have ended by itself */
    while (waitpid(pid, NULL, 0) < 0)
        if (errno != EINTR) {
            while (poll(&ended, 1, -1) < 0 && errno == EINTR)
                ;
            return;
        }
}

/* PID 1 is reaped only after the kernel has ended everything else in its namespace. */
static void kill_init(struct native_box *b) {
    kill_and_wait(b->pid, b->pidfd);
    fd_close(&b->pidfd);
    fd_close(&b->connection);
}

static const struct step {
    const char *name;
    int (*run)(struct native_box *b, struct cay_error *err);
    void (*undo)(struct native_box *b);
    size_t phase; /* offset into struct native_phases of the time that it counts for */
} steps[] = {
#define PHASE(member) offsetof(struct native_phases, member)
    {"leasing ids and starting the helper", begin, end, PHASE(prepare_us)},
    {"beginning user namespaces", begin_userns, give_up_userns, PHASE(prepare_us)},
    {"making the control group", make_cgroup, remove_cgroup, PHASE(prepare_us)},
    {"making the user namespace", make_userns, close_userns, PHASE(prepare_us)},
    {"opening the image", open_trees, close_trees, PHASE(root_us)},
    {"preparing the root file system", prepare_root, close_root, PHASE(root_us)},
    {"making namespaces and /dev", take_parts, close_parts, PHASE(prepare_us)},
    {"starting the sandbox", start_init, kill_init, PHASE(start_us)},
#undef PHASE
};

static void undo_all(struct native_box *b) {
    while (b->done > 0)
        steps[--b->done].undo(b);
}

/* ---- interface ---- */

static int check_tier(const struct native *n, enum tier wanted, struct cay_error *err) {
    if (n->tier >= wanted)
        return 0;
    const struct native_wall *w = n->walls;
    while (w->ok || w->needed_for > wanted)
        w++;
    error_set(err, CAY_UNSUPPORTED, "this host cannot give tier %s: %s is missing (%s)",
              tier_name(wanted), w->name, w->detail);
    return error_remedy(err, "%s; or accept less by name: --tier %s", w->remedy,
                        tier_name(n->tier));
}

static struct native_box *new_box(struct native *n, const struct sandbox_spec *spec,
                                  const struct native_root *root) {
    struct native_box *b = malloc(sizeof *b);
    if (b != NULL)
        *b = (struct native_box){
            .n = n,
            .spec = *spec,
            .ids = IDRANGE_EMPTY,
            .helper = HELPER_NONE,
            .userns_begun = USERNS_MAKING_NONE,
            .idmap_begun = USERNS_MAKING_NONE,
            .userns = -1,
            .netns = -1,
            .lean = -1,
            .init = -1,
            .cgroup = CGROUP_EMPTY,
            .image = root != NULL ? root->image : NULL,
            .disk = root != NULL ? root->disk : -1,
            .disk_is_mount = root != NULL && root->disk_is_mount,
            .idmap = -1,
            .trees = IMAGE_TREES_EMPTY,
            .dev = -1,
            .root = ROOTFS_EMPTY,
            .connection = -1,
            .pidfd = -1,
        };
    return b;
}

static int do_steps(struct native_box *b, struct cay_error *err) {
    while (b->done < ARRAY_LEN(steps)) {
        const struct step *s = &steps[b->done];
        int64_t begin = clock_us();
        int r = s->run(b, err);
        *(int64_t *)((char *)&b->phases + s->phase) += clock_us() - begin;
        if (r < 0) {
            error_prefix(err, "%s", s->name);
            undo_all(b);
            return r;
        }
        b->done++;
    }
    return 0;
}

static int start_box(struct native *n, const struct sandbox_spec *spec,
                     const struct native_root *root, bool kept, struct native_box **ret,
                     struct cay_error *err) {
    int r = spec->has_bridge ? spec_refuse_bridge(err) : check_tier(n, spec->tier, err);
    if (r < 0)
        return r;
    _cleanup_(freep) struct native_box *b = new_box(n, spec, root);
    if (b == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    b->kept = kept;
    r = do_steps(b, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(b);
    return 0;
}

int native_start(struct native *n, const struct sandbox_spec *spec, const struct native_root *root,
                 struct native_box **ret, struct cay_error *err) {
    return start_box(n, spec, root, false, ret, err);
}

/* The helper must be gone before the sandbox may live on: it removes what its maker leaves. */
int native_start_kept(struct native *n, const struct sandbox_spec *spec,
                      const struct native_root *root, struct native_kept *ret,
                      struct cay_error *err) {
    _cleanup_(freep) struct native_box *b = NULL;
    int r = start_box(n, spec, root, true, &b, err);
    if (r < 0)
        return r;
    helper_stop(&b->helper);
    *ret = (struct native_kept){
        .pid = b->pid,
        .pidfd = b->pidfd,
        .ids = b->ids,
        .group = b->cgroup,
        .waiting = b->connection,
    };
    close_parts(b);
    close_root(b);
    close_trees(b);
    close_userns(b);
    return 0;
}

int native_let_live(struct native_kept *kept, int listener, struct cay_error *err) {
    enum { LISTENER_COMES = 2 }; /* cay-init's word for it */
    char what = LISTENER_COMES;
    int r = fd_send(kept->waiting, &what, 1, &listener, 1);
    if (r < 0)
        return error_sys(err, -r, "giving cay-init its socket");
    fd_close(&kept->waiting);
    return 0;
}

void native_abandon(struct native *n, struct native_kept *kept) {
    kill_and_wait(kept->pid, kept->pidfd);
    fd_close(&kept->waiting);
    fd_close(&kept->pidfd);
    char id[ID_SIZE];
    memcpy(id, kept->group.id, sizeof id);
    if (kept->group.host != NULL) {
        cgroup_close(&kept->group);
        (void)cgroup_remove(&n->cgroups, id, clock_ms() + REMOVE_MS, NULL);
    }
    idrange_release(&kept->ids);
}

struct native_box *native_box_destroy(struct native_box *b) {
    if (b != NULL)
        undo_all(b);
    free(b);
    return NULL;
}

int native_box_take_connection(struct native_box *box) {
    return TAKE_FD(box->connection);
}

const struct native_phases *native_box_phases(const struct native_box *box) {
    return &box->phases;
}

int native_box_pidfd(const struct native_box *box) {
    return box->pidfd;
}

bool native_box_oom_killed(const struct native_box *box) {
    uint64_t kills;
    return box->has_cgroup && cgroup_oom_kills(&box->cgroup, &kills) == 0 && kills > 0;
}
