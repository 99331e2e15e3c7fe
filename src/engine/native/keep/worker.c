#include "engine/native/keep/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "confine/lean.h"
#include "engine/native/internal.h"

enum { TRIES_MAX = 3 };

/* ---- processes ---- */

/* The child has nothing of those that run. */
static _noreturn_ void become_worker(struct keep *k, int sock, pid_t launcher) {
    (void)prctl(PR_SET_NAME, "cay-worker", 0, 0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != launcher)
        _exit(1);
    struct cay_error err;
    if (lean_enter(k->home, &err) < 0) /* the launcher may be elsewhere at the moment */
        _exit(1);
    for (size_t i = 0; i < k->count; i++)
        fd_close(&k->all[i]->pidfd);
    for (size_t i = 0; i < KEEP_WORKERS_MAX; i++)
        if (k->workers[i].pid != 0)
            fd_close(&k->workers[i].sock);
    fd_close(&k->ended);
    keep_worker_run(k, sock);
}

static int start_worker(struct keep *k, struct keep_worker *w) {
    int pair[2];
    pid_t launcher = getpid();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = w};
    pid_t pid = epoll_ctl(k->ended, EPOLL_CTL_ADD, pair[0], &event) < 0 ? -1 : fork();
    if (pid == 0) {
        (void)close(pair[0]);
        become_worker(k, pair[1], launcher);
    }
    (void)close(pair[1]);
    if (pid < 0) {
        int r = -errno;
        (void)close(pair[0]);
        return r;
    }
    *w = (struct keep_worker){.pid = pid, .sock = pair[0]};
    return 0;
}

void keep_workers_start(struct keep *k) {
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    k->worker_count = (size_t)MIN(MAX(cpus, 1) * 2 + KEEP_WORKERS_SPARE, KEEP_WORKERS_MAX);
    for (size_t i = 0; i < k->worker_count; i++)
        (void)start_worker(k, &k->workers[i]); /* tried again when it is needed */
}

static struct keep_task *free_task(struct keep_task *t) {
    fd_close(&t->listener);
    free(t->tags);
    free(t);
    return NULL;
}

static void free_tasks(struct keep_task *t) {
    while (t != NULL) {
        struct keep_task *next = t->next;
        (void)free_task(t);
        t = next;
    }
}

void keep_workers_stop(struct keep *k) {
    for (size_t i = 0; i < k->worker_count; i++) {
        struct keep_worker *w = &k->workers[i];
        if (w->pid == 0)
            continue;
        fd_close(&w->sock); /* it finishes what it has begun */
        if (w->task != NULL)
            w->task = free_task(w->task);
    }
    free_tasks(k->starts.first);
    free_tasks(k->endings.first);
}

/* ---- handing out ---- */

static void fail_task(struct keep *k, struct keep_task *t, const struct cay_error *err);

static size_t order_size(const struct keep_order *o) {
    return offsetof(struct keep_order, r) +
           (o->work == KEEP_WORK_START ? launcher_request_size(o->r.spec.mount_count) : 0);
}

/* One that is idle, started if need be; NULL if all are busy, or none can be started. */
static struct keep_worker *idle_worker(struct keep *k) {
    struct keep_worker *none = NULL;
    for (size_t i = 0; i < k->worker_count; i++) {
        struct keep_worker *w = &k->workers[i];
        if (w->pid != 0 && w->sock >= 0 && w->task == NULL)
            return w;
        if (w->pid == 0)
            none = w;
    }
    return none != NULL && start_worker(k, none) == 0 ? none : NULL;
}

static size_t count_busy(const struct keep *k) {
    size_t n = 0;
    for (size_t i = 0; i < k->worker_count; i++)
        n += k->workers[i].task != NULL;
    return n;
}

/* One reports, or its end is reported. */
static bool is_any_alive(const struct keep *k) {
    for (size_t i = 0; i < k->worker_count; i++)
        if (k->workers[i].pid != 0)
            return true;
    return false;
}

/* It is dead, or as good as; it is our child until keep_worker_ended. */
static void dismiss(struct keep_worker *w) {
    (void)kill(w->pid, SIGKILL);
    fd_close(&w->sock);
}

static struct keep_task *take_first(struct keep_queue *q) {
    struct keep_task *t = q->first;
    q->first = t->next;
    if (q->first == NULL)
        q->last = NULL;
    t->next = NULL;
    return t;
}

static void add_last(struct keep_queue *q, struct keep_task *t) {
    if (q->last == NULL)
        q->first = t;
    else
        q->last->next = t;
    q->last = t;
}

/* What ends sandboxes comes first, and some workers are for that alone: it makes room, and whoever
 * removes a sandbox does not wait for those who create some. */
static void hand_out(struct keep *k) {
    while (k->endings.first != NULL || k->starts.first != NULL) {
        bool ending = k->endings.first != NULL;
        if (!ending && count_busy(k) + KEEP_WORKERS_SPARE >= k->worker_count)
            return;
        struct keep_worker *w = idle_worker(k);
        if (w == NULL && is_any_alive(k))
            return;
        struct keep_queue *q = ending ? &k->endings : &k->starts;
        if (w != NULL) {
            if (fd_send(w->sock, &q->first->order, order_size(&q->first->order), NULL, 0) == 0)
                w->task = take_first(q);
            else
                dismiss(w);
            continue;
        }
        struct cay_error err;
        struct keep_task *t = take_first(q);
        error_set(&err, CAY_RESOURCE_EXHAUSTED, "no process of the launcher can do it");
        (void)error_remedy(&err, "the host may be short of memory or processes: try again");
        fail_task(k, t, &err);
    }
}

static struct keep_task *new_task(enum keep_work work, struct kept *s, const uint64_t *tags,
                                  size_t count) {
    struct keep_task *t = calloc(1, sizeof *t);
    uint64_t *copy = calloc(count + 1, sizeof *copy);
    if (t == NULL || copy == NULL) {
        free(t);
        free(copy);
        return NULL;
    }
    if (count > 0)
        memcpy(copy, tags, count * sizeof *copy);
    *t = (struct keep_task){.s = s, .tags = copy, .tag_count = count, .listener = -1};
    t->order.work = work;
    if (s != NULL) {
        t->order.record = s->record;
        s->busy = true;
    }
    return t;
}

void keep_begin_start(struct keep *k, struct kept *s, bool is_new, const struct launcher_request *r,
                      int listener) {
    struct keep_task *t = new_task(KEEP_WORK_START, s, &r->tag, 1);
    if (t == NULL) {
        keep_fail_tags(k, &r->tag, 1);
        if (is_new)
            keep_drop(k, s);
        return;
    }
    t->listener = fcntl(listener, F_DUPFD_CLOEXEC, 0);
    t->order.is_new = is_new;
    memcpy(&t->order.r, r, launcher_request_size(0));
    if (r->spec.mount_count > 0)
        memcpy(t->order.r.mounts, r->spec.mounts, r->spec.mount_count * sizeof r->mounts[0]);
    t->order.r.spec.mounts = NULL; /* means nothing elsewhere */
    s->making = is_new;
    add_last(&k->starts, t);
    hand_out(k);
}

void keep_begin_clean_up(struct keep *k, struct kept *s) {
    struct keep_task *t = new_task(KEEP_WORK_CLEAN_UP, s, NULL, 0);
    if (t == NULL) { /* then here, whoever waits */
        keep_clean_up(k, &s->record);
        keep_settle(k, s);
        return;
    }
    s->record.pid = 0;
    add_last(&k->endings, t);
    hand_out(k);
}

void keep_begin_remove(struct keep *k, const struct keep_record *record, const char *old,
                       const uint64_t *tags, size_t count) {
    struct keep_task *t = new_task(KEEP_WORK_REMOVE, NULL, tags, count);
    if (t == NULL) {
        keep_fail_tags(k, tags, count); /* the next launcher sweeps it */
        return;
    }
    t->order.record = *record;
    memcpy(t->order.old, old, sizeof t->order.old);
    add_last(&k->endings, t);
    hand_out(k);
}

/* ---- reports ---- */

static void answer_all(const struct keep *k, const struct keep_task *t,
                       const struct cay_error *err) {
    for (size_t i = 0; i < t->tag_count; i++)
        if (err != NULL)
            keep_answer_error(k, t->tags[i], err);
        else
            keep_answer(k, &(struct launcher_answer){.event = LAUNCHER_DONE, .tag = t->tags[i]});
}

/* It was not started: one that was new is no more. */
static void fail_start(struct keep *k, struct keep_task *t, const struct cay_error *err) {
    struct kept *s = t->s;
    answer_all(k, t, err);
    s->busy = s->making = false;
    struct keep_deferred *deferred = TAKE_PTR(s->deferred);
    if (t->order.is_new)
        keep_drop(k, s);
    keep_replay(k, deferred);
}

static void fail_task(struct keep *k, struct keep_task *t, const struct cay_error *err) {
    if (t->order.work == KEEP_WORK_START)
        fail_start(k, t, err);
    else
        answer_all(k, t, err);
    if (t->order.work == KEEP_WORK_CLEAN_UP) {
        keep_clean_up(k, &t->order.record);
        keep_settle(k, t->s);
    }
    (void)free_task(t);
}

/* Takes over what a worker has started; fds are its pidfd and the socket of its cay-init. */
static void take_started(struct keep *k, struct keep_task *t, const struct keep_report *report,
                         int *fds) {
    struct cay_error err;
    struct kept *s = t->s;
    struct native_kept box = {.pid = report->record.pid,
                              .pidfd = fds[0],
                              .ids = IDRANGE_EMPTY,
                              .group = CGROUP_EMPTY,
                              .waiting = fds[1]};
    memcpy(box.group.id, report->record.id, ID_SIZE);
    box.group.host = report->has_group ? &k->n->cgroups : NULL;
    int r = keep_watch(k, s, box.pidfd, &err);
    if (r == 0)
        r = native_let_live(&box, t->listener, &err);
    if (r < 0) {
        native_abandon(k->n, &box);
        if (t->order.is_new)
            keep_unmake_folder(k, report->record.id);
        else
            keep_write_stopped(k, s);
        fail_start(k, t, &err);
        return;
    }
    s->record = report->record;
    s->pidfd = box.pidfd;
    s->group = box.group;
    s->paused = s->reaped = s->making = false;
    s->oom_outlived = s->oom_seen = 0;
    s->child = true;
    struct launcher_answer a = {.event = LAUNCHER_STARTED, .tag = t->tags[0], .pid = s->record.pid};
    memcpy(a.id, s->record.id, ID_SIZE);
    keep_answer(k, &a);
    keep_settle(k, s);
}

static void finish_task(struct keep *k, struct keep_task *t, const struct keep_report *report,
                        int *fds, size_t count) {
    if (t->order.work == KEEP_WORK_START && report->result == 0 && count == 2) {
        take_started(k, t, report, fds);
        return;
    }
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
    if (t->order.work == KEEP_WORK_START)
        fail_start(k, t, &report->err);
    else
        answer_all(k, t, report->result < 0 ? &report->err : NULL);
    if (t->order.work == KEEP_WORK_CLEAN_UP)
        keep_settle(k, t->s);
}

/* A sandbox that was being started ends by itself, since nobody holds the socket at which it waits.
 * Its control group and files may be there. */
static void abandon_start(struct keep *k, struct keep_task *t, const struct cay_error *err) {
    struct kept *s = t->s;
    answer_all(k, t, err);
    s->making = false;
    if (!t->order.is_new || !keep_remove(k, s, NULL, 0))
        keep_begin_clean_up(k, s);
    (void)free_task(t);
}

/* It was killed, most likely for want of memory. */
static void lose_worker(struct keep *k, struct keep_worker *w) {
    struct cay_error err;
    struct keep_task *t = TAKE_PTR(w->task);
    dismiss(w);
    if (t == NULL)
        return;
    if (t->order.work != KEEP_WORK_START && ++t->tries < TRIES_MAX) {
        add_last(&k->endings, t); /* what is done already is done */
        return;
    }
    error_set(&err, CAY_RESOURCE_EXHAUSTED, "a process of the launcher did not end well");
    (void)error_remedy(&err, "the host may be short of memory: try again");
    if (t->order.work == KEEP_WORK_START)
        abandon_start(k, t, &err);
    else
        fail_task(k, t, &err);
}

void keep_worker_reports(struct keep *k, struct keep_worker *w) {
    static struct keep_report report;
    int fds[2];
    size_t count = 0;
    ssize_t n = fd_receive(w->sock, &report, sizeof report, fds, ARRAY_LEN(fds), &count);
    if (n == -EAGAIN)
        return;
    if (n != (ssize_t)sizeof report || w->task == NULL) {
        lose_worker(k, w);
    } else {
        struct keep_task *t = TAKE_PTR(w->task);
        finish_task(k, t, &report, fds, count);
        (void)free_task(t);
    }
    hand_out(k);
}

bool keep_worker_ended(struct keep *k, pid_t pid) {
    for (size_t i = 0; i < k->worker_count; i++) {
        struct keep_worker *w = &k->workers[i];
        if (w->pid != pid)
            continue;
        if (w->sock >= 0)
            lose_worker(k, w);
        *w = (struct keep_worker){.sock = -1};
        hand_out(k);
        return true;
    }
    return false;
}

/* ---- requests that wait for a worker ---- */

void keep_defer(const struct keep *k, struct kept *s, const struct launcher_request *r,
                int listener) {
    struct keep_deferred *d = calloc(1, sizeof *d), **at = &s->deferred;
    if (d == NULL) {
        keep_fail_tags(k, &r->tag, 1);
        return;
    }
    memcpy(&d->r, r, launcher_request_size(0));
    if (r->spec.mount_count > 0)
        memcpy(d->r.mounts, r->spec.mounts, r->spec.mount_count * sizeof r->mounts[0]);
    d->listener = listener < 0 ? -1 : fcntl(listener, F_DUPFD_CLOEXEC, 0);
    while (*at != NULL)
        at = &(*at)->next;
    *at = d;
}

static struct keep_deferred *free_deferred(struct keep_deferred *d) {
    struct keep_deferred *next = d->next;
    fd_close(&d->listener);
    free(d);
    return next;
}

void keep_replay(struct keep *k, struct keep_deferred *list) {
    while (list != NULL) {
        list->r.spec.mounts = list->r.mounts;
        keep_handle(k, &list->r, list->listener);
        list = free_deferred(list);
    }
}

void keep_forget_deferred(struct keep_deferred *list) {
    while (list != NULL)
        list = free_deferred(list);
}
