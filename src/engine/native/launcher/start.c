/* Making a sandbox must not depend on how many mounts, descriptors or processes there are. So the
 * launcher sits in a mount namespace of its own that holds one empty, read-only tmpfs, and goes
 * back to the host's only to make slots; and children share its descriptor table until they cut it
 * off above a few low numbers that are set aside for what they keep. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "confine/idrange.h"
#include "confine/ipcns.h"
#include "confine/lean.h"
#include "confine/syscalls.h"
#include "confine/userns.h"
#include "engine/native/enter.h"
#include "engine/native/internal.h"
#include "engine/native/launcher/state.h"

/* Low numbers for what a child keeps. */
enum { CONNECTION_PLACE = 6, LISTENER_PLACE = 7 };

/* Making a slot takes about two milliseconds, which is nothing for a sandbox that lived this long.
 */
enum { SETTLE_MS = 500 };

/* ---- slots ---- */

static bool has_range(const void *user, uid_t base) {
    const struct launcher *l = user;
    for (size_t i = 0; i < l->slot_count; i++)
        if (l->slots[i].state != SLOT_NONE && l->slots[i].base == base)
            return true;
    return false;
}

void launcher_free_slot(struct launcher *l, struct slot *s) {
    uid_t base = s->base;
    if (slot_free(l->n, &l->helper, s) == 0) {
        idrange_give_back(l->ids, base);
    } else {
        s->state = SLOT_LOST;
        s->base = base;
    }
}

static int add_slot(struct launcher *l, struct slot **ret, struct cay_error *err) {
    struct slot *s = NULL;
    for (size_t i = 0; i < l->slot_count && s == NULL; i++)
        if (l->slots[i].state == SLOT_NONE)
            s = &l->slots[i];
    if (s == NULL && l->slot_count == LAUNCHER_SLOTS_MAX) {
        error_set(err, CAY_LIMIT_REACHED, "%d sandboxes is all that one launcher holds",
                  LAUNCHER_SLOTS_MAX);
        return error_remedy(err, "end some, or start another launcher");
    }
    if (s == NULL)
        s = &l->slots[l->slot_count];
    uid_t base;
    int r = idrange_take(l->ids, &l->hint, &(struct idrange_holder){has_range, l}, &base, err);
    if (r < 0)
        return r;
    r = slot_make(l->n, &l->helper, base, &l->limits, s, err);
    if (r < 0) {
        idrange_give_back(l->ids, base);
        return r;
    }
    if (s == &l->slots[l->slot_count])
        l->slot_count++;
    *ret = s;
    return 0;
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
    (void)dup3(LAUNCHER_INIT_PLACE, CONNECTION_PLACE, O_CLOEXEC);
    (void)dup3(LAUNCHER_INIT_PLACE, LISTENER_PLACE, O_CLOEXEC);
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
        .pids_rlimit = userns_process_ceiling(),
        .landlock_abi = l->n->landlock_abi,
        .filter = filter,
        .init = LAUNCHER_INIT_PLACE,
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

/* The one that has been leased longest of those that are not settled, or NULL. */
static struct slot *next_to_settle(const struct launcher *l) {
    struct slot *first = NULL;
    for (size_t i = 0; i < l->slot_count; i++) {
        struct slot *s = &l->slots[i];
        if (s->state == SLOT_LEASED && !s->settled &&
            (first == NULL || s->leased_ms < first->leased_ms))
            first = s;
    }
    return first;
}

int launcher_settles_in(const struct launcher *l) {
    const struct slot *s = next_to_settle(l);
    return s == NULL ? -1 : (int)MAX(s->leased_ms + SETTLE_MS - clock_ms(), 0);
}

bool launcher_settle(struct launcher *l) {
    struct slot *s = next_to_settle(l);
    if (s == NULL || clock_ms() < s->leased_ms + SETTLE_MS)
        return false;
    slot_settle(s);
    return true;
}

void launcher_tidy(struct launcher *l) {
    for (size_t i = 0; i < l->slot_count; i++)
        if (l->slots[i].state == SLOT_LEASED)
            slot_drop_root(&l->slots[i]); /* the sandbox has it now */
    struct pollfd client = {.fd = l->client, .events = POLLIN};
    while (refill(l) || launcher_settle(l))
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
        launcher_free_slot(l, s);
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

/* The host has changed: what was made of its old image fits nobody any more. Sandboxes that run
 * keep it, and so does the lock that protects it from being removed, which stays open. */
static void renew_image(struct launcher *l) {
    fd_close(&l->n->image.root_fd);
    l->n->image = HOST_IMAGE_NONE;
    for (size_t i = 0; i < l->slot_count; i++)
        if (l->slots[i].state == SLOT_READY)
            slot_discard(&l->slots[i]);
        else if (l->slots[i].state == SLOT_IDLE || l->slots[i].state == SLOT_LEASED)
            slot_drop_image(&l->slots[i]);
}

static bool has_image(const struct launcher *l, const char *fingerprint) {
    return fingerprint[0] == '\0' || l->n->image.root_fd < 0 ||
           str_equal(l->n->image.fingerprint, fingerprint);
}

/* From now on this many sandboxes like this one are made ahead; any others that wait are ended. */
static void keep_ready(struct launcher *l, unsigned count, const struct sandbox_spec *spec) {
    if (count == 0 || spec->mount_count > 0 || spec->read_only || spec->hostname[0] != '\0')
        return;
    l->ready = count;
    l->defaults = *spec;
    l->defaults.id[0] = '\0';
    size_t kept = 0;
    for (size_t i = 0; i < l->slot_count; i++) {
        struct slot *s = &l->slots[i];
        if (s->state == SLOT_READY && (!slot_fits(s, &l->defaults) || ++kept > count))
            slot_discard(s);
    }
}

int launcher_start(struct launcher *l, const struct launcher_request *r, const int *fds,
                   struct slot **ret, struct cay_error *err) {
    struct sandbox_spec spec = r->spec;
    if (l->slots == NULL) {
        error_set(err, CAY_UNSUPPORTED, "throw-away sandboxes of a launcher need every wall");
        return error_remedy(err, "see 'cay doctor'");
    }
    int code = spec_finish(&spec, &l->host, err);
    if (code < 0)
        return code;
    if (!has_image(l, r->fingerprint))
        renew_image(l);
    struct slot *s = start_ready(l, r, fds, &spec);
    code = s != NULL ? 0 : start_idle(l, r, fds, &spec, &s, err);
    if (code < 0)
        return code;
    s->state = SLOT_LEASED;
    s->tag = r->tag;
    s->leased_ms = clock_ms();
    keep_ready(l, r->ready, &spec);
    *ret = s;
    return 0;
}
