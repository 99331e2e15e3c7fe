#include "engine/native/keep/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "confine/idrange.h"
#include "confine/syscalls.h"
#include "engine/disk/disk.h"
#include "engine/native/internal.h"
#include "engine/native/keep/internal.h"
#include "engine/native/keep/worker.h"

enum {
    FREEZE_MS = 3000, /* on a busy machine each process has to get its turn to stand still */
    LOCK_MS = 5000,
    INIT_PIDS = 2, /* as of every sandbox: cay-init and the process that serves a command */
    EVENTS_MAX = 64,
    OUTLIVED_MS = 1000, /* one that was killed has ended by then */
};

static const struct kept empty = {.pidfd = -1, .group = CGROUP_EMPTY};

/* A client that is gone is noticed by whoever reads its requests. */
void keep_answer(const struct keep *k, const struct launcher_answer *a) {
    (void)fd_send(k->client, a, sizeof *a, NULL, 0);
}

void keep_answer_error(const struct keep *k, uint64_t tag, const struct cay_error *err) {
    struct launcher_answer a = {.event = LAUNCHER_FAILED, .tag = tag, .err = *err};
    keep_answer(k, &a);
}

static void answer_done(const struct keep *k, uint64_t tag) {
    keep_answer(k, &(struct launcher_answer){.event = LAUNCHER_DONE, .tag = tag});
}

static void answer_result(const struct keep *k, uint64_t tag, int r, const struct cay_error *err) {
    if (r < 0)
        keep_answer_error(k, tag, err);
    else
        answer_done(k, tag);
}

/* ---- the table ---- */

/* Where id is, or would be. */
static size_t place_of(const struct keep *k, const char *id) {
    size_t low = 0, high = k->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(k->all[middle]->record.id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct kept *keep_find(const struct keep *k, const char *id) {
    size_t at = place_of(k, id);
    return at < k->count && strcmp(k->all[at]->record.id, id) == 0 ? k->all[at] : NULL;
}

struct kept *keep_add(struct keep *k, const char *id) {
    if (k->count == k->room) {
        size_t room = MAX(k->room * 2, (size_t)64);
        struct kept **more = reallocarray(k->all, room, sizeof(struct kept *));
        if (more == NULL)
            return NULL;
        k->all = more;
        k->room = room;
    }
    struct kept *s = malloc(sizeof *s);
    if (s == NULL)
        return NULL;
    *s = empty;
    memcpy(s->record.id, id, ID_SIZE);
    size_t at = place_of(k, id);
    memmove(&k->all[at + 1], &k->all[at], (k->count - at) * sizeof(struct kept *));
    k->all[at] = s;
    k->count++;
    return s;
}

/* Closes what is open of a running one. */
static void let_go(struct kept *s) {
    fd_close(&s->pidfd);
    if (s->group.host != NULL)
        cgroup_close(&s->group);
}

void keep_drop(struct keep *k, struct kept *s) {
    size_t at = place_of(k, s->record.id);
    k->count--;
    memmove(&k->all[at], &k->all[at + 1], (k->count - at) * sizeof(struct kept *));
    let_go(s);
    free(s->waiters);
    keep_forget_deferred(s->deferred);
    free(s);
}

int keep_watch(struct keep *k, struct kept *s, int pidfd, struct cay_error *err) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = s};
    if (epoll_ctl(k->ended, EPOLL_CTL_ADD, pidfd, &event) < 0)
        return error_errno(err, "watching sandbox %s", s->record.id);
    return 0;
}

static struct kept *find_or_take(struct keep *k, const char *id) {
    struct kept *s = keep_find(k, id);
    return s != NULL ? s : keep_take_over_new(k, id);
}

static int not_found(const char *id, struct cay_error *err) {
    error_set(err, CAY_NOT_FOUND, "there is no sandbox %s", id);
    return error_remedy(err, "list them with: cay ls");
}

/* The one that runs, or the error. */
static struct kept *find_running(const struct keep *k, const char *id, struct cay_error *err) {
    struct kept *s = keep_find(k, id);
    if (s == NULL) {
        (void)not_found(id, err);
        return NULL;
    }
    if (s->record.pid != 0)
        return s;
    error_set(err, CAY_CONFLICT, "sandbox %s does not run", id);
    (void)error_remedy(err, "start it first: cay start %s", id);
    return NULL;
}

/* ---- the end of one ---- */

static uint64_t outlived_kills(const struct kept *s) {
    return clock_ms() >= s->oom_seen_ms + OUTLIVED_MS ? s->oom_seen : s->oom_outlived;
}

static void note_kills(struct kept *s, uint64_t kills) {
    s->oom_outlived = outlived_kills(s);
    s->oom_seen = kills;
    s->oom_seen_ms = clock_ms();
}

/* The counter is of all processes in the group, and of its whole life. */
static bool ended_by_oom(const struct kept *s, int status) {
    uint64_t kills = 0;
    bool is_killed = status == -1 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return is_killed && s->group.host != NULL && cgroup_oom_kills(&s->group, &kills) == 0 &&
           kills > outlived_kills(s);
}

void keep_note_end(const struct keep *k, struct kept *s, enum engine_end_cause cause, int status) {
    bool is_oom = ended_by_oom(s, status);
    s->record.has_ended = true;
    s->record.end_cause = cause;
    s->record.end_status = status;
    s->record.end_oom = is_oom;
    struct launcher_answer a = {
        .event = LAUNCHER_KEPT_ENDED, .oom_killed = is_oom, .status = status, .cause = cause};
    memcpy(a.id, s->record.id, ID_SIZE);
    keep_answer(k, &a);
}

void keep_write_stopped(const struct keep *k, struct kept *s) {
    s->record.pid = 0;
    _cleanup_(closep) int folder = keep_open_folder(k, s->record.id);
    if (folder >= 0)
        (void)keep_record_write(folder, &s->record, NULL);
}

static void answer_waiters(struct keep *k, struct kept *s) {
    _cleanup_(freep) struct keep_waiter *waiters = TAKE_PTR(s->waiters);
    size_t count = s->waiter_count;
    s->waiter_count = 0;
    for (size_t i = 0; i < count; i++)
        answer_done(k, waiters[i].tag);
}

void keep_settle(struct keep *k, struct kept *s) {
    s->busy = false;
    answer_waiters(k, s);
    keep_replay(k, TAKE_PTR(s->deferred));
}

/* Those who stopped it wait for the removal, too. */
static bool is_to_be_removed(const struct kept *s) {
    for (size_t i = 0; i < s->waiter_count; i++)
        if (s->waiters[i].removes)
            return true;
    return false;
}

static bool remove_ended(struct keep *k, struct kept *s) {
    _cleanup_(freep) struct keep_waiter *waiters = s->waiters;
    _cleanup_(freep) uint64_t *tags = calloc(s->waiter_count + 1, sizeof *tags);
    size_t count = s->waiter_count;
    if (tags == NULL) {
        (void)TAKE_PTR(waiters);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        tags[i] = waiters[i].tag;
    s->waiters = NULL;
    s->waiter_count = 0;
    return keep_remove(k, s, tags, count);
}

static void handle_end(struct keep *k, struct kept *s) {
    int status;
    if (s->child && !s->reaped && waitpid(s->record.pid, &status, WNOHANG) == s->record.pid) {
        s->status = status;
        s->reaped = true;
    }
    (void)epoll_ctl(k->ended, EPOLL_CTL_DEL, s->pidfd, NULL);
    status = s->reaped ? s->status : s->child ? -1 : process_exit_status(s->pidfd);
    keep_note_end(k, s, s->waiter_count > 0 ? ENGINE_END_ASKED : ENGINE_END_UNASKED, status);
    let_go(s);
    s->paused = false;
    if (!is_to_be_removed(s) || !remove_ended(k, s))
        keep_begin_clean_up(k, s);
}

/* ---- requests that wait ---- */

static bool must_wait(enum launcher_op op) {
    return op == LAUNCHER_KEEP || op == LAUNCHER_STOP || op == LAUNCHER_REMOVE ||
           op == LAUNCHER_PAUSE || op == LAUNCHER_RESUME || op == LAUNCHER_RESIZE;
}

int keep_descriptor(const struct keep *k) {
    return k->ended;
}

static bool is_worker(const struct keep *k, const void *p) {
    return (uintptr_t)p >= (uintptr_t)k->workers &&
           (uintptr_t)p < (uintptr_t)(k->workers + KEEP_WORKERS_MAX);
}

void keep_tend(struct keep *k) {
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(k->ended, events, EVENTS_MAX, 0);
    for (int i = 0; i < n; i++)
        if (is_worker(k, events[i].data.ptr))
            keep_worker_reports(k, events[i].data.ptr);
        else
            handle_end(k, events[i].data.ptr);
}

bool keep_reaped(struct keep *k, pid_t pid, int status) {
    if (keep_job_ended(k, pid, status) || keep_worker_ended(k, pid))
        return true;
    for (size_t i = 0; i < k->count; i++) {
        struct kept *s = k->all[i];
        if (!s->child || s->reaped || s->record.pid != pid)
            continue;
        s->reaped = true;
        s->status = status;
        return true; /* its pidfd tells the rest */
    }
    return false;
}

/* ---- requests ---- */

static int add_waiter(struct kept *s, uint64_t tag, bool removes, struct cay_error *err) {
    struct keep_waiter *more = reallocarray(s->waiters, s->waiter_count + 1, sizeof *more);
    if (more == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    s->waiters = more;
    s->waiters[s->waiter_count++] = (struct keep_waiter){.tag = tag, .removes = removes};
    return 0;
}

/* Frozen processes do not end everywhere: thawed they do, with the signal waiting for them. */
static int kill_it(struct kept *s, struct cay_error *err) {
    if (pidfd_send_signal(s->pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
        return error_errno(err, "killing sandbox %s", s->record.id);
    if (s->paused)
        (void)cgroup_thaw(&s->group, NULL);
    return 0;
}

static void handle_keep(struct keep *k, const struct launcher_request *r, int listener) {
    struct cay_error err;
    struct kept *s = find_or_take(k, r->spec.id);
    bool is_new = s == NULL;
    if (!is_new && s->record.pid != 0) {
        error_set(&err, CAY_CONFLICT, "sandbox %s runs already", r->spec.id);
        (void)error_remedy(&err, "use it, or stop it first");
        keep_answer_error(k, r->tag, &err);
        return;
    }
    if (is_new)
        s = keep_add(k, r->spec.id);
    if (s == NULL)
        keep_fail_tags(k, &r->tag, 1);
    else
        keep_begin_start(k, s, is_new, r, listener);
}

static void handle_stop(struct keep *k, const struct launcher_request *r, bool removes) {
    struct cay_error err;
    struct kept *s = find_or_take(k, r->spec.id);
    if (s == NULL) {
        answer_result(k, r->tag, removes ? 0 : not_found(r->spec.id, &err), &err);
        return;
    }
    if (s->record.pid == 0 && removes) {
        (void)keep_remove(k, s, &r->tag, 1);
        return;
    }
    int code = s->record.pid == 0 ? 1 : add_waiter(s, r->tag, removes, &err);
    if (code == 0)
        code = kill_it(s, &err);
    if (code < 0 && s->waiter_count > 0)
        s->waiter_count--; /* our own: it is answered here */
    if (code != 0)
        answer_result(k, r->tag, code, &err);
}

static int require_group(const struct kept *s, struct cay_error *err) {
    if (s->group.host != NULL)
        return 0;
    error_set(err, CAY_UNSUPPORTED, "sandbox %s has no control group", s->record.id);
    return error_remedy(err, "'cay doctor' tells what this host lacks");
}

static int set_paused(struct keep *k, const char *id, bool paused, struct cay_error *err) {
    struct kept *s = find_running(k, id, err);
    if (s == NULL)
        return -(int)err->code;
    if (s->paused == paused)
        return 0;
    int r = require_group(s, err);
    if (r == 0)
        r = paused ? cgroup_freeze(&s->group, FREEZE_MS, err) : cgroup_thaw(&s->group, err);
    if (r == 0)
        s->paused = paused;
    return r;
}

static int write_limits(struct keep *k, struct kept *s, const struct keep_record *r,
                        struct cay_error *err) {
    const struct cgroup_support *support = k->n->cgroups.support;
    struct cgroup_limits limits = {
        .memory_bytes = support[CGROUP_MEMORY].usable ? r->memory_bytes : 0,
        .cpu_quota_us_per_100ms = support[CGROUP_CPU].usable ? r->cpu_quota_us : 0,
        .pids = support[CGROUP_PIDS].usable ? r->pids + INIT_PIDS : 0,
    };
    int code = cgroup_set_limits(&s->group, &limits, err);
    if (code < 0)
        return code;
    s->record = *r;
    _cleanup_(closep) int folder = keep_open_folder(k, r->id);
    return folder < 0 ? error_sys(err, -folder, "opening the folder of sandbox %s", r->id)
                      : keep_record_write(folder, r, err);
}

/* Whether or not it runs. */
static int resize_disk(struct keep *k, struct kept *s, uint64_t bytes, struct cay_error *err) {
    int r = spec_check_kept_disk(bytes, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int folder = keep_open_folder(k, s->record.id);
    if (folder < 0)
        return error_sys(err, -folder, "opening the folder of sandbox %s", s->record.id);
    r = disk_grow(folder, bytes, err);
    if (r < 0)
        return r;
    s->record.disk_bytes = bytes;
    return keep_record_write(folder, &s->record, err);
}

static int resize_running(struct keep *k, const struct sandbox_spec *spec, struct cay_error *err) {
    struct kept *s = find_running(k, spec->id, err);
    if (s == NULL)
        return -(int)err->code;
    int r = require_group(s, err);
    if (r < 0)
        return r;
    if (spec->memory_bytes != 0)
        r = cgroup_require(&k->n->cgroups, CGROUP_MEMORY, err);
    if (r == 0 && spec->cpu_quota_us != 0)
        r = cgroup_require(&k->n->cgroups, CGROUP_CPU, err);
    if (r < 0)
        return r;
    struct keep_record record = s->record;
    if (spec->memory_bytes != 0)
        record.memory_bytes = spec->memory_bytes;
    if (spec->cpu_quota_us != 0)
        record.cpu_quota_us = spec->cpu_quota_us;
    if (spec->pids != 0)
        record.pids = spec->pids;
    struct sandbox_spec whole = {.memory_bytes = record.memory_bytes,
                                 .cpu_quota_us = record.cpu_quota_us,
                                 .pids = record.pids};
    r = spec_finish(&whole, k->host, err);
    return r < 0 ? r : write_limits(k, s, &record, err);
}

/* The disk last: what it has got it keeps. */
static int resize(struct keep *k, const struct sandbox_spec *spec, struct cay_error *err) {
    struct kept *s = keep_find(k, spec->id);
    if (s == NULL)
        return not_found(spec->id, err);
    bool others = spec->memory_bytes != 0 || spec->cpu_quota_us != 0 || spec->pids != 0;
    int r = others || spec->disk_bytes == 0 ? resize_running(k, spec, err) : 0;
    return r < 0 || spec->disk_bytes == 0 ? r : resize_disk(k, s, spec->disk_bytes, err);
}

static void handle_stats(struct keep *k, const struct launcher_request *r) {
    struct cay_error err;
    struct kept *s = keep_find(k, r->spec.id);
    struct cgroup_stats now = {0};
    int code = s == NULL || s->making  ? not_found(r->spec.id, &err)
               : s->group.host == NULL ? 0
                                       : cgroup_stats(&s->group, &now, &err);
    if (code < 0) {
        keep_answer_error(k, r->tag, &err);
        return;
    }
    if (now.oom_kills != s->oom_seen)
        note_kills(s, now.oom_kills);
    struct launcher_answer a = {.event = LAUNCHER_HAS_STATS, .tag = r->tag};
    memcpy(a.id, r->spec.id, ID_SIZE);
    a.stats = (struct engine_stats){
        .memory_bytes = now.memory_bytes,
        .memory_limit = k->n->cgroups.support[CGROUP_MEMORY].usable ? s->record.memory_bytes : 0,
        .memory_peak = now.memory_peak_bytes,
        .cpu_us = now.cpu_us,
        .pids = now.pids,
        .oom_kills = now.oom_kills,
        .disk_limit = s->record.disk_bytes,
    };
    if (r->op == LAUNCHER_USAGE)
        keep_answer(k, &a);
    else
        keep_measure(k, s, &a);
}

static enum engine_state state_of(const struct kept *s) {
    return s->record.pid == 0 ? ENGINE_STOPPED : s->paused ? ENGINE_PAUSED : ENGINE_RUNNING;
}

static void handle_list(const struct keep *k, const struct launcher_request *r) {
    struct launcher_answer a = {.event = LAUNCHER_HAS_LIST, .tag = r->tag};
    const struct cgroup_support *support = k->n->cgroups.support;
    a.list.count = 0;
    a.list.unkept = (support[CGROUP_MEMORY].usable ? 0 : (uint32_t)ENGINE_UNKEPT_MEMORY) |
                    (support[CGROUP_CPU].usable ? 0 : (uint32_t)ENGINE_UNKEPT_CPUS);
    memset(a.list.entries, 0, sizeof a.list.entries);
    size_t at = place_of(k, r->spec.id);
    if (at < k->count && strcmp(k->all[at]->record.id, r->spec.id) == 0)
        at++;
    for (; at < k->count && a.list.count < LAUNCHER_PAGE; at++) {
        const struct keep_record *record = &k->all[at]->record;
        if (k->all[at]->making)
            continue; /* it is not promised yet */
        struct engine_sandbox *e = &a.list.entries[a.list.count++];
        memcpy(e->id, record->id, ID_SIZE);
        memcpy(e->image, record->image, HEX_SIZE);
        e->state = state_of(k->all[at]);
        e->cpu_quota_us = record->cpu_quota_us;
        e->pids = record->pids;
        e->memory_bytes = record->memory_bytes;
        e->disk_bytes = record->disk_bytes;
        e->has_ended = record->pid == 0 && record->has_ended;
        e->end = (struct engine_end){.oom_killed = record->end_oom,
                                     .status = record->end_status,
                                     .cause = record->end_cause};
    }
    keep_answer(k, &a);
}

void keep_handle(struct keep *k, const struct launcher_request *r, int listener) {
    struct cay_error err;
    struct kept *s = must_wait(r->op) ? keep_find(k, r->spec.id) : NULL;
    if (s != NULL && s->busy) {
        keep_defer(k, s, r, listener);
        return;
    }
    switch (r->op) {
    case LAUNCHER_KEEP:
        handle_keep(k, r, listener);
        break;
    case LAUNCHER_STOP:
    case LAUNCHER_REMOVE:
        handle_stop(k, r, r->op == LAUNCHER_REMOVE);
        break;
    case LAUNCHER_PAUSE:
    case LAUNCHER_RESUME:
        answer_result(k, r->tag, set_paused(k, r->spec.id, r->op == LAUNCHER_PAUSE, &err), &err);
        break;
    case LAUNCHER_RESIZE:
        answer_result(k, r->tag, resize(k, &r->spec, &err), &err);
        break;
    case LAUNCHER_VOLUME_MAKE:
    case LAUNCHER_VOLUME_REMOVE:
    case LAUNCHER_VOLUME_GROW:
        keep_handle_volume(k, r);
        break;
    case LAUNCHER_STATS:
    case LAUNCHER_USAGE:
        handle_stats(k, r);
        break;
    case LAUNCHER_SPACE:
        keep_divide_space(k, r);
        break;
    case LAUNCHER_REPAIR:
        keep_repair(k, r);
        break;
    case LAUNCHER_ARCHIVE:
    case LAUNCHER_UNARCHIVE:
    case LAUNCHER_SNAPSHOT:
    case LAUNCHER_BACKUP:
    case LAUNCHER_BACKUP_RESTORE:
    case LAUNCHER_BACKUP_REMOVE:
        answer_result(k, r->tag, error_set(&err, CAY_UNSUPPORTED, "the launcher keeps no archives"),
                      &err);
        break;
    default:
        handle_list(k, r);
        break;
    }
}

/* ---- opening and closing ---- */

/* A launcher that was killed may hold it for a moment more, by a process of its own. */
static int lock_folder(const struct keep *k, struct cay_error *err) {
    int64_t deadline = clock_deadline(LOCK_MS);
    while (flock(k->folder, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return error_errno(err, "locking the folder of sandboxes");
        if (clock_expired(deadline)) {
            error_set(err, CAY_CONFLICT, "another launcher serves this state folder");
            return error_remedy(err, "stop the other daemon, or use another --state-dir");
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL);
    }
    return 0;
}

static int open_parts(struct keep *k, struct cay_error *err) {
    int state = k->n->state_dir;
    if (mkdirat(state, KEEP_FOLDER, 0700) < 0 && errno != EEXIST)
        return error_errno(err, "making the folder of sandboxes");
    k->folder = openat(state, KEEP_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (k->folder < 0)
        return error_errno(err, "opening the folder of sandboxes");
    int r = lock_folder(k, err);
    if (r < 0)
        return r;
    k->home = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (k->home < 0)
        return error_errno(err, "opening the mount namespace");
    k->ended = epoll_create1(EPOLL_CLOEXEC);
    if (k->ended < 0)
        return error_errno(err, "watching sandboxes");
    return keep_take_over(k, err);
}

int keep_open(struct native *n, int client, const struct spec_host *host, struct keep **ret,
              struct cay_error *err) {
    struct keep *k = malloc(sizeof *k);
    if (k == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    *k = (struct keep){
        .n = n, .client = client, .host = host, .folder = -1, .home = -1, .ended = -1};
    int r = open_parts(k, err);
    if (r < 0) {
        keep_close(k);
        return r;
    }
    keep_sweep(k);
    keep_workers_start(k);
    *ret = k;
    return 0;
}

void keep_close(struct keep *k) {
    if (k == NULL)
        return;
    keep_workers_stop(k);
    while (k->count > 0)
        keep_drop(k, k->all[k->count - 1]);
    for (size_t i = 0; i < k->job_count; i++)
        free(k->jobs[i].tags);
    free(k->all);
    free(k->jobs);
    fd_close(&k->folder);
    fd_close(&k->home);
    fd_close(&k->ended);
    free(k);
}
