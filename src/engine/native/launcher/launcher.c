#include "engine/native/launcher/launcher.h"

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
#include "confine/idrange.h"
#include "confine/lean.h"
#include "confine/mounts.h"
#include "confine/privilege.h"
#include "confine/userns.h"
#include "engine/native/enter.h"
#include "engine/native/internal.h"
#include "engine/native/keep/keep.h"
#include "engine/native/launcher/state.h"

enum { QUIET_MS = 1 };

/* ---- answers ---- */

static void answer_with(struct launcher *l, const struct launcher_answer *a, int fd) {
    if (fd_send(l->client, a, sizeof *a, &fd, fd >= 0 ? 1 : 0) < 0)
        l->hung_up = true;
}

static void answer(struct launcher *l, const struct launcher_answer *a) {
    answer_with(l, a, -1);
}

static void answer_failure(struct launcher *l, uint64_t tag, const struct cay_error *err) {
    struct launcher_answer a = {.event = LAUNCHER_FAILED, .tag = tag, .err = *err};
    answer(l, &a);
}

/* ---- requests ---- */

static void handle_start(struct launcher *l, const struct launcher_request *r, const int *fds) {
    struct cay_error err;
    struct slot *s = NULL;
    if (launcher_start(l, r, fds, &s, &err) < 0) {
        answer_failure(l, r->tag, &err);
        return;
    }
    struct launcher_answer a = {.event = LAUNCHER_STARTED, .tag = r->tag, .pid = s->pid};
    memcpy(a.id, s->spec.id, ID_SIZE);
    if (r->wants_counter != 0)
        (void)cgroup_keep_counters(&s->cgroup); /* without, its end tells */
    answer_with(l, &a, r->wants_counter != 0 ? s->cgroup.oom : -1);
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
    if (!s->settled)
        (void)cgroup_keep_counters(&s->cgroup); /* from the first end on; slower without */
    if (cgroup_oom_kills(&s->cgroup, &kills) == 0) {
        a.oom_killed = kills > s->oom_before;
        s->oom_before = kills;
    }
    memcpy(a.id, s->spec.id, ID_SIZE);
    bool leased = s->state == SLOT_LEASED, discarded = s->state == SLOT_DISCARDED;
    if (slot_recycle(s) < 0 || discarded) /* its trees may be of an old image */
        launcher_free_slot(l, s);
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
            (void)slot_free(l->n, &l->helper, s); /* the leases end with us */
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
    (void)userns_process_ceiling(); /* while there is a /proc to ask */
    l->host_ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (l->host_ns < 0)
        return error_errno(err, "opening the host's mount namespace");
    l->lean_ns = lean_create(l->n->state_path, err);
    l->n->shared_lean = MAX(l->lean_ns, -1);
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
    int size = 2 * LAUNCHER_SLOTS_MAX * TAKEN;
    (void)setsockopt(l->client, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size); /* less is fine */
}

static int set_up_slots(struct launcher *l, struct cay_error *err) {
    l->slots = calloc(LAUNCHER_SLOTS_MAX, sizeof *l->slots);
    if (l->slots == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    _cleanup_(closep) int init = init_memfd_create(err);
    if (init < 0)
        return init;
    if (dup3(init, LAUNCHER_INIT_PLACE, O_CLOEXEC) < 0)
        return error_errno(err, "placing cay-init");
    l->n->shared_init = LAUNCHER_INIT_PLACE;
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
    int n = poll(fds, ARRAY_LEN(fds), l->idle ? launcher_settles_in(l) : QUIET_MS);
    if (n <= 0)
        return n < 0;
    l->idle = false;
    if (fds[0].revents != 0)
        handle_request(l); /* first: somebody waits for it */
    if (fds[1].revents != 0)
        reap(l); /* in the same round: a client that never pauses must not hold it up */
    if (fds[0].revents != 0)
        (void)launcher_settle(l); /* nor this: what it frees is used for the next sandbox */
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
            launcher_tidy(&l);
    return 0;
}
