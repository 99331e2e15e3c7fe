/* Making a sandbox must not depend on how many mounts, descriptors or processes there are. So the
 * launcher sits in a mount namespace of its own that holds one empty, read-only tmpfs, and goes
 * back to the host's only to make slots; and children share its descriptor table until they cut it
 * off above a few low numbers that are set aside for what they keep. */
#include "engine/native/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "engine/native/enter.h"
#include "engine/native/helper.h"
#include "engine/native/idrange.h"
#include "engine/native/internal.h"
#include "engine/native/ipcns.h"
#include "engine/native/keep.h"
#include "engine/native/lean.h"
#include "engine/native/mounts.h"
#include "engine/native/privilege.h"
#include "engine/native/slot.h"
#include "engine/native/syscalls.h"

enum {
    SLOTS_MAX = 1536,
    QUIET_MS = 1,
    CONNECTION_PLACE = 6, /* low numbers for what a child keeps */
    LISTENER_PLACE = 7,
    INIT_PLACE = 8,
};

struct launcher {
    struct native *n;
    int client;
    int signals;
    int ids;
    unsigned hint;
    int host_ns, lean_ns; /* mount namespaces; -1: this kernel cannot do without the host's */
    int dev;       /* shared by all; -1: this kernel cannot clone it, each sandbox gets its own */
    int nothing;   /* likewise */
    int oom_score; /* our own oom_score_adj */
    struct spec_host host;
    struct sandbox_spec defaults;
    struct cgroup_limits limits;
    unsigned ready;
    struct helper helper;
    struct slot *slots; /* NULL: none can be made, for want of walls */
    size_t slot_count;
    struct keep *keep; /* sandboxes that stay; NULL until the first request about them */
    bool idle;         /* nothing to tidy */
    bool hung_up;
};

/* ---- answers ---- */

static void answer(struct launcher *l, const struct launcher_answer *a) {
    if (fd_send(l->client, a, sizeof *a, NULL, 0) < 0)
        l->hung_up = true;
}

static void answer_failure(struct launcher *l, uint64_t tag, const struct cay_error *err) {
    struct launcher_answer a = {.event = LAUNCHER_FAILED, .tag = tag, .err = *err};
    answer(l, &a);
}

/* ---- slots ---- */

static int add_slot(struct launcher *l, struct slot **ret, struct cay_error *err) {
    struct slot *s = NULL;
    for (size_t i = 0; i < l->slot_count && s == NULL; i++)
        if (l->slots[i].state == SLOT_NONE)
            s = &l->slots[i];
    if (s == NULL && l->slot_count == SLOTS_MAX) {
        error_set(err, CAY_LIMIT_REACHED, "%d sandboxes is all that one launcher holds", SLOTS_MAX);
        return error_remedy(err, "end some, or start another launcher");
    }
    if (s == NULL)
        s = &l->slots[l->slot_count];
    int r = slot_make(l->n, &l->helper, l->ids, &l->hint, &l->limits, s, err);
    if (r < 0)
        return r;
    if (s == &l->slots[l->slot_count])
        l->slot_count++;
    *ret = s;
    return 0;
}

static void remove_slot(struct launcher *l, struct slot *s) {
    slot_free(l->n, &l->helper, s);
}

static size_t count_slots(const struct launcher *l, enum slot_state state) {
    size_t n = 0;
    for (size_t i = 0; i < l->slot_count; i++)
        n += l->slots[i].state == state;
    return n;
}

/* One that fits in this state; if none does, any in this state, or NULL. */
static struct slot *find_slot(struct launcher *l, enum slot_state state,
                              const struct sandbox_spec *spec) {
    struct slot *any = NULL;
    for (size_t i = 0; i < l->slot_count; i++) {
        struct slot *s = &l->slots[i];
        if (s->state != state)
            continue;
        if (slot_fits(s, spec))
            return s;
        any = s;
    }
    return any;
}

static struct rootfs_entry entry_of(const struct launcher *l, const struct slot *s) {
    return (struct rootfs_entry){
        .spec = &s->spec,
        .trees = &s->trees,
        .root = &s->root,
        .masks = &l->n->masks,
        .dev = l->dev,
        .base = s->base,
        .share_dev = true,
        .lean = l->lean_ns >= 0,
        .staging = l->n->state_path,
    };
}

/* Clones of host folders can only be made where the host's mounts are. */
static int prepare_at_host(struct launcher *l, struct slot *s, const struct sandbox_spec *spec,
                           struct cay_error *err) {
    int r = lean_enter(l->host_ns, err);
    if (r == 0)
        r = slot_prepare(l->n, s, spec, l->nothing, err);
    int back = lean_enter(l->lean_ns, err);
    return r < 0 ? r : back;
}

static int prepare(struct launcher *l, struct slot *s, const struct sandbox_spec *spec,
                   struct cay_error *err) {
    int r = slot_needs_host(s, spec) ? prepare_at_host(l, s, spec, err)
                                     : slot_prepare(l->n, s, spec, l->nothing, err);
    if (r < 0)
        return r;
    struct rootfs_entry e = entry_of(l, s);
    r = l->dev < 0 ? 0 : rootfs_assemble(&e, &s->root);
    if (r == 0)
        return 0;
    slot_drop_root(s); /* half of one fits nobody */
    return error_sys(err, -r, "assembling the file tree");
}

/* ---- starting ---- */

static int set_limits(struct slot *s, const struct sandbox_spec *spec, struct cay_error *err) {
    enum { INIT_PIDS = 2 };
    struct cgroup_limits limits = {spec->memory_bytes, spec->cpu_quota_us, spec->pids + INIT_PIDS};
    return cgroup_set_limits(&s->cgroup, &limits, err);
}

static int lease_idle(struct launcher *l, const struct sandbox_spec *spec, struct slot **ret,
                      struct cay_error *err) {
    struct slot *s = find_slot(l, SLOT_IDLE, spec);
    int r = s != NULL ? 0 : add_slot(l, &s, err);
    if (r == 0 && !slot_fits(s, spec))
        r = prepare(l, s, spec, err);
    if (r == 0)
        r = set_limits(s, spec, err);
    *ret = s;
    return r;
}

/* Puts the received descriptors where children find them; the order is that of the bits. */
static int place_descriptors(const struct launcher_request *r, const int *fds) {
    size_t at = 0;
    if ((r->fds & LAUNCHER_CONNECTION) != 0 && dup3(fds[at++], CONNECTION_PLACE, O_CLOEXEC) < 0)
        return -errno;
    if ((r->fds & LAUNCHER_LISTENER) != 0 && dup3(fds[at], LISTENER_PLACE, O_CLOEXEC) < 0)
        return -errno;
    return 0;
}

/* The places must not keep a connection open that its owner thinks closed. */
static void clear_places(void) {
    (void)dup3(INIT_PLACE, CONNECTION_PLACE, O_CLOEXEC);
    (void)dup3(INIT_PLACE, LISTENER_PLACE, O_CLOEXEC);
}

/* Children have our score. Looking it up here is cheaper than in a /proc that nobody has used yet.
 */
static bool has_plain_oom_score(const struct launcher *l) {
    char text[16];
    return fd_read_again(l->oom_score, text, sizeof text) > 0 && text[0] != '-';
}

static pid_t launch(struct launcher *l, struct slot *s, uint32_t fds, struct cay_error *err) {
    const struct sock_fprog *filter;
    int r = native_filter_for(l->n, &s->spec, &filter, err);
    if (r < 0)
        return r;
    r = s->ipcns < 0 ? 0 : ipcns_join(s->ipcns);
    if (r < 0)
        return error_sys(err, -r, "entering the IPC namespace");
    _cleanup_(closep) int own_dev = l->dev >= 0 ? -1 : rootfs_make_dev();
    if (l->dev < 0 && own_dev < 0)
        return error_sys(err, -own_dev, "making /dev");
    struct enter_plan plan = {
        .fs = entry_of(l, s),
        .cgroup = &s->cgroup,
        .netns = s->netns,
        .ipcns_joined = s->ipcns >= 0,
        .userns = s->userns,
        .landlock_abi = l->n->landlock_abi,
        .filter = filter,
        .init = INIT_PLACE,
        .listener = (fds & LAUNCHER_LISTENER) != 0 ? LISTENER_PLACE : -1,
        .connection = (fds & LAUNCHER_CONNECTION) != 0 ? CONNECTION_PLACE : -1,
        .die_with_parent = true,
        .share_descriptors = true,
        .plain_oom_score = has_plain_oom_score(l),
        .plain_caller = true,
    };
    if (own_dev >= 0) {
        plan.fs.dev = own_dev;
        plan.fs.share_dev = false;
    }
    return enter_start(&plan, NULL, err); /* the pid stays ours until we reap it */
}

/* A sandbox that waits for a client, so that starting is nothing but handing it over. */
static int make_ready(struct launcher *l, struct slot *s, struct cay_error *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making a socket pair");
    pid_t pid = dup3(pair[1], CONNECTION_PLACE, O_CLOEXEC) < 0
                    ? error_errno(err, "placing a socket")
                    : launch(l, s, LAUNCHER_CONNECTION, err);
    (void)close(pair[1]);
    clear_places();
    slot_drop_root(s); /* the sandbox has it now */
    if (pid < 0) {
        (void)close(pair[0]);
        return (int)pid;
    }
    s->waiting = pair[0];
    s->pid = pid;
    s->state = SLOT_READY;
    return 0;
}

/* One piece of the work that makes the next start fast. False if there is none left. */
static bool refill(struct launcher *l) {
    struct cay_error err;
    if (l->slots == NULL || count_slots(l, SLOT_READY) >= l->ready)
        return false;
    struct slot *s = find_slot(l, SLOT_IDLE, &l->defaults);
    if (s == NULL)
        return add_slot(l, &s, &err) == 0;
    if (!slot_fits(s, &l->defaults))
        return prepare(l, s, &l->defaults, &err) == 0;
    return make_ready(l, s, &err) == 0;
}

/* Work that nobody waits for, until there is none or somebody comes. */
static void tidy(struct launcher *l) {
    for (size_t i = 0; i < l->slot_count; i++)
        if (l->slots[i].state == SLOT_LEASED)
            slot_drop_root(&l->slots[i]); /* the sandbox has it now */
    struct pollfd client = {.fd = l->client, .events = POLLIN};
    while (refill(l))
        if (poll(&client, 1, 0) != 0)
            return;
    l->idle = true;
}

static int start_idle(struct launcher *l, const struct launcher_request *r, const int *fds,
                      const struct sandbox_spec *spec, struct slot **ret, struct cay_error *err) {
    struct slot *s;
    int code = lease_idle(l, spec, &s, err);
    if (code < 0)
        return code;
    code = place_descriptors(r, fds);
    pid_t pid = code < 0 ? error_sys(err, -code, "placing descriptors") : launch(l, s, r->fds, err);
    clear_places();
    s->spec.mounts = NULL;
    s->spec.mount_count = 0;
    if (pid < 0) {
        remove_slot(l, s);
        return (int)pid;
    }
    s->pid = pid;
    *ret = s;
    return 0;
}

/* Hands a waiting sandbox over. NULL if there is none that fits; one that has died meanwhile is
 * found out here and passed over. */
static struct slot *start_ready(struct launcher *l, const struct launcher_request *r,
                                const int *fds, const struct sandbox_spec *spec) {
    char what = (char)r->fds;
    size_t count = (size_t)__builtin_popcount(r->fds);
    struct slot *s = find_slot(l, SLOT_READY, spec);
    if (s == NULL || !slot_fits(s, spec) || set_limits(s, spec, NULL) < 0 ||
        fd_send(s->waiting, &what, 1, fds, count) < 0)
        return NULL;
    fd_close(&s->waiting);
    return s;
}

static int start(struct launcher *l, const struct launcher_request *r, const int *fds,
                 struct slot **ret, struct cay_error *err) {
    struct sandbox_spec spec = r->spec;
    if (l->slots == NULL) {
        error_set(err, CAY_UNSUPPORTED, "throw-away sandboxes of a launcher need every wall");
        return error_remedy(err, "see 'cay doctor'");
    }
    int code = spec_finish(&spec, &l->host, err);
    if (code < 0)
        return code;
    struct slot *s = start_ready(l, r, fds, &spec);
    code = s != NULL ? 0 : start_idle(l, r, fds, &spec, &s, err);
    if (code < 0)
        return code;
    s->state = SLOT_LEASED;
    s->tag = r->tag;
    *ret = s;
    return 0;
}

static void handle_start(struct launcher *l, const struct launcher_request *r, const int *fds) {
    struct cay_error err;
    struct slot *s = NULL;
    if (start(l, r, fds, &s, &err) < 0) {
        answer_failure(l, r->tag, &err);
        return;
    }
    struct launcher_answer a = {.event = LAUNCHER_STARTED, .tag = r->tag, .pid = s->pid};
    memcpy(a.id, s->spec.id, ID_SIZE);
    answer(l, &a);
}

static void handle_end(struct launcher *l, uint64_t tag) {
    for (size_t i = 0; i < l->slot_count; i++)
        if (l->slots[i].state == SLOT_LEASED && l->slots[i].tag == tag)
            (void)kill(l->slots[i].pid, SIGKILL); /* reaped, and answered, like any other end */
}

/* Runs where the host's mounts are. Whoever only wants throw-away sandboxes does not take over what
 * another launcher may be serving. */
static void handle_kept(struct launcher *l, const struct launcher_request *r, int listener) {
    struct cay_error err;
    int code = lean_enter(l->host_ns, &err);
    if (code == 0 && l->keep == NULL)
        code = keep_open(l->n, l->client, &l->host, &l->keep, &err);
    if (code < 0)
        answer_failure(l, r->tag, &err);
    else
        keep_handle(l->keep, r, listener);
    l->hung_up |= lean_enter(l->lean_ns, &err) < 0; /* nothing would work any more */
}

static void tend_kept(struct launcher *l) {
    struct cay_error err;
    if (lean_enter(l->host_ns, &err) == 0)
        keep_tend(l->keep);
    l->hung_up |= lean_enter(l->lean_ns, &err) < 0;
}

static void handle_request(struct launcher *l) {
    static union {
        struct launcher_request request;
        char bytes[sizeof(struct launcher_request) + 1]; /* so that one that is too long shows */
    } in;
    struct launcher_request *r = &in.request;
    memset(r, 0, launcher_request_size(0)); /* a short one must not get a part of the last */
    int fds[3];                             /* so that one too many shows, too */
    size_t count;
    ssize_t n = fd_receive(l->client, &in, sizeof in, fds, ARRAY_LEN(fds), &count);
    if (n <= 0) {
        l->hung_up = n != -EAGAIN;
        return;
    }
    struct cay_error err;
    int code = launcher_check(r, (size_t)n);
    if (code == 0 && count != (size_t)__builtin_popcount(r->fds))
        code = -EINVAL;
    if (code < 0) {
        error_sys(&err, -code, "malformed request to the launcher");
        answer_failure(l, r->tag, &err);
    } else if (r->op == LAUNCHER_END) {
        handle_end(l, r->tag);
    } else {
        r->spec.mounts = r->mounts;
        r->spec.mount_count = ((size_t)n - launcher_request_size(0)) / sizeof(struct mount_spec);
        if (r->op == LAUNCHER_START)
            handle_start(l, r, fds);
        else
            handle_kept(l, r, count > 0 ? fds[0] : -1);
    }
    for (size_t i = 0; i < count; i++)
        (void)close(fds[i]);
}

/* ---- ending ---- */

static void handle_ended(struct launcher *l, struct slot *s, int status) {
    struct launcher_answer a = {.event = LAUNCHER_ENDED, .tag = s->tag, .status = status};
    uint64_t kills;
    (void)cgroup_keep_counters(&s->cgroup); /* from the first end on; slower without */
    if (cgroup_oom_kills(&s->cgroup, &kills) == 0) {
        a.oom_killed = kills > s->oom_before;
        s->oom_before = kills;
    }
    memcpy(a.id, s->spec.id, ID_SIZE);
    bool leased = s->state == SLOT_LEASED;
    if (slot_recycle(s) < 0)
        remove_slot(l, s);
    if (leased)
        answer(l, &a);
}

static void reap(struct launcher *l) {
    struct signalfd_siginfo info;
    while (read(l->signals, &info, sizeof info) > 0)
        ;
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (l->keep != NULL && keep_reaped(l->keep, pid, status))
            continue;
        for (size_t i = 0; i < l->slot_count; i++)
            if (l->slots[i].state >= SLOT_READY && l->slots[i].pid == pid) {
                handle_ended(l, &l->slots[i], status);
                break;
            }
    }
}

/* ---- setting up ---- */

static void launcher_close(struct launcher *l) {
    for (size_t i = 0; i < l->slot_count; i++)
        if (l->slots[i].state >= SLOT_READY)
            (void)kill(l->slots[i].pid, SIGKILL);
    for (size_t i = 0; i < l->slot_count; i++) {
        struct slot *s = &l->slots[i];
        while (s->state >= SLOT_READY && waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        if (s->state != SLOT_NONE)
            slot_free(l->n, &l->helper, s);
    }
    keep_close(l->keep);
    helper_stop(&l->helper);
    fd_close(&l->ids);
    fd_close(&l->dev);
    fd_close(&l->nothing);
    fd_close(&l->oom_score);
    fd_close(&l->host_ns);
    fd_close(&l->lean_ns);
    fd_close(&l->signals);
    free(l->slots);
}

int launcher_reserve_descriptors(struct cay_error *err) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (null >= 0 && null < ENTER_LOW_FDS)
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return error_errno(err, "setting descriptors aside");
    (void)close(null);
    return 0;
}

/* Before 6.15 a detached mount cannot be cloned: then nothing is shared, and the launcher stays
 * with the host's mounts. */
static int set_up_mounts(struct launcher *l, struct cay_error *err) {
    l->dev = rootfs_make_dev();
    if (l->dev < 0)
        return error_sys(err, -l->dev, "making /dev");
    _cleanup_(closep) int clone = mounts_clone(l->dev, "", false, 0, -1);
    if (clone < 0) {
        fd_close(&l->dev);
        return 0;
    }
    l->nothing = rootfs_make_nothing();
    if (l->nothing < 0)
        return error_sys(err, -l->nothing, "making what hides files");
    l->host_ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (l->host_ns < 0)
        return error_errno(err, "opening the host's mount namespace");
    l->lean_ns = lean_create(l->n->state_path, err);
    return l->lean_ns < 0 ? l->lean_ns : lean_enter(l->lean_ns, err);
}

static int set_up_signals(struct launcher *l, struct cay_error *err) {
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return error_errno(err, "blocking signals");
    l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return l->signals < 0 ? error_errno(err, "making a signalfd") : 0;
}

/* Sandboxes inherit them, and need not set them one by one. */
static int set_up_limits(struct cay_error *err) {
    int r = privilege_set_common_rlimits();
    return r < 0 ? error_sys(err, -r, "setting resource limits") : 0;
}

/* A client that asks for many sandboxes before it reads an answer must not have both of them wait
 * for each other. */
static void make_room_for_answers(const struct launcher *l) {
    enum { TAKEN = 2560 }; /* by one in the kernel; each sandbox has two */
    int size = 2 * SLOTS_MAX * TAKEN;
    (void)setsockopt(l->client, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size); /* less is fine */
}

static int set_up_slots(struct launcher *l, struct cay_error *err) {
    l->slots = calloc(SLOTS_MAX, sizeof *l->slots);
    if (l->slots == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    _cleanup_(closep) int init = native_init_memfd(err);
    if (init < 0)
        return init;
    if (dup3(init, INIT_PLACE, O_CLOEXEC) < 0)
        return error_errno(err, "placing cay-init");
    int r = spec_finish(&l->defaults, &l->host, err);
    if (r < 0)
        return r;
    l->ids = idrange_open(err);
    if (l->ids < 0)
        return l->ids;
    l->oom_score = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
    if (l->oom_score < 0)
        return error_errno(err, "opening /proc/self/oom_score_adj");
    r = helper_start(l->ids, l->n->state_path, &l->helper, err);
    return r < 0 ? r : set_up_mounts(l, err);
}

static int set_up(struct launcher *l, struct cay_error *err) {
    make_room_for_answers(l);
    int r = spec_look_up_host(&l->host, err);
    if (r == 0)
        r = set_up_signals(l, err);
    if (r == 0)
        r = set_up_limits(err);
    if (r < 0 || l->n->own_userns || l->n->tier < TIER_FULL)
        return r;
    return set_up_slots(l, err);
}

/* Waits for something to do; false if there was nothing for a moment. What makes the next start
 * fast must not slow down the one that has just begun, so it waits for such a moment. */
static bool wait_and_serve(struct launcher *l) {
    struct pollfd fds[] = {
        {.fd = l->client, .events = POLLIN},
        {.fd = l->signals, .events = POLLIN},
        {.fd = l->keep != NULL ? keep_descriptor(l->keep) : -1, .events = POLLIN},
    };
    int n = poll(fds, ARRAY_LEN(fds), l->idle ? -1 : QUIET_MS);
    if (n <= 0)
        return n < 0;
    l->idle = false;
    if (fds[0].revents != 0)
        handle_request(l); /* first: somebody waits for it */
    if (fds[1].revents != 0)
        reap(l); /* in the same round: a client that never pauses must not hold it up */
    if (fds[2].revents != 0)
        tend_kept(l);
    return true;
}

int launcher_serve(struct native *n, int sock, unsigned ready, const struct sandbox_spec *defaults,
                   struct cay_error *err) {
    _cleanup_(launcher_close) struct launcher l = {
        .n = n,
        .client = sock,
        .signals = -1,
        .ids = -1,
        .host_ns = -1,
        .lean_ns = -1,
        .dev = -1,
        .nothing = -1,
        .oom_score = -1,
        .defaults = *defaults,
        .ready = ready,
        .helper = HELPER_NONE,
        .hint = (unsigned)getpid() * 64,
    };
    int r = set_up(&l, err);
    if (r < 0)
        return r;
    l.limits =
        (struct cgroup_limits){l.defaults.memory_bytes, l.defaults.cpu_quota_us, l.defaults.pids};
    while (!l.hung_up)
        if (!wait_and_serve(&l))
            tidy(&l);
    return 0;
}
