#include "manager/queue.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "manager/internal.h"

enum {
    WIDTH_MIN = 4,
    WIDTH_PER_CPU = 4,
    WIDTH_MAX = 64,
    ROOM = 512,
    RETRY_MAX_S = 60,
    MEAN_WEIGHT = 8, /* of what the mean was, in ninths */
};

/* No id of a key looks like this. */
static const char pool_lane[] = "+pool";

struct queue_lane {
    struct queue_lane *next; /* whose turn is after this one's */
    char owner[OWNER_SIZE];
    struct queue_ticket *first;
    size_t count;
};

/* ---- limits ---- */

static size_t width_of(const struct manager *m) {
    if (m->limits.creating_max > 0)
        return (size_t)m->limits.creating_max;
    return (size_t)MIN(MAX(WIDTH_PER_CPU * get_nprocs(), WIDTH_MIN), WIDTH_MAX);
}

static size_t room_of(const struct manager *m) {
    return m->limits.queue_max > 0 ? (size_t)m->limits.queue_max : ROOM;
}

/* ---- lanes ---- */

static struct queue_lane *find_lane(const struct queue *q, const char *owner) {
    struct queue_lane *l = q->first;
    while (l != NULL && !str_equal(l->owner, owner))
        l = l->next;
    return l;
}

static void append_lane(struct queue *q, struct queue_lane *lane) {
    struct queue_lane **at = &q->first;
    while (*at != NULL)
        at = &(*at)->next;
    lane->next = NULL;
    *at = lane;
}

static struct queue_lane *open_lane(struct queue *q, const char *owner) {
    struct queue_lane *lane = find_lane(q, owner);
    if (lane != NULL)
        return lane;
    lane = calloc(1, sizeof *lane);
    if (lane == NULL)
        return NULL;
    (void)snprintf(lane->owner, sizeof lane->owner, "%s", owner);
    append_lane(q, lane);
    return lane;
}

static void unlink_lane(struct queue *q, const struct queue_lane *lane) {
    struct queue_lane **at = &q->first;
    while (*at != lane)
        at = &(*at)->next;
    *at = lane->next;
}

/* What waits is charged to its key. */
static int charge(struct manager *m, const char *owner, struct queue_ticket *t,
                  struct cay_error *err) {
    struct budget_charge c = budget_charge_for(owner, "");
    c.amount[BUDGET_WAITING] = 1;
    int r = budget_admit(m, &c, err);
    t->is_charged = r == 0;
    return r;
}

static void discharge(struct manager *m, const char *owner, struct queue_ticket *t) {
    struct budget_charge c = budget_charge_for(owner, "");
    c.amount[BUDGET_WAITING] = 1;
    if (t->is_charged)
        budget_release(m, &c);
    t->is_charged = false;
}

/* Out of its lane, or out of those that come back. */
static void unlink_ticket(struct manager *m, struct queue_ticket *t) {
    struct queue *q = &m->queue;
    struct queue_lane *lane = t->lane;
    if (lane != NULL)
        discharge(m, lane->owner, t);
    struct queue_ticket **at = lane != NULL ? &lane->first : &q->back;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    t->next = NULL;
    t->lane = NULL;
    q->waiting--;
    if (lane == NULL || --lane->count > 0)
        return;
    unlink_lane(q, lane);
    free(lane);
}

static void append_ticket(struct queue_ticket **at, struct queue_ticket *t) {
    while (*at != NULL)
        at = &(*at)->next;
    *at = t;
}

/* ---- whose turn it is ---- */

static struct queue_ticket *take_next(struct manager *m) {
    struct queue *q = &m->queue;
    struct queue_ticket *t = q->back;
    struct queue_lane *lane = q->first;
    if (t == NULL && lane != NULL && lane->count > 1) { /* the others come before its next one */
        q->first = lane->next;
        append_lane(q, lane);
    }
    if (t == NULL && lane != NULL)
        t = lane->first;
    if (t != NULL)
        unlink_ticket(m, t);
    return t;
}

static void enter(struct queue *q, struct queue_ticket *t) {
    t->state = QUEUE_RUNNING;
    t->began_us = clock_us();
    q->running++;
}

static void dispatch(struct manager *m) {
    struct queue *q = &m->queue;
    while (q->waiting > 0 && q->running < width_of(m)) {
        struct queue_ticket *t = take_next(m);
        enter(q, t);
        (void)pthread_cond_signal(&t->moved);
    }
}

static void end_wait(struct manager *m, struct queue_ticket *t, enum queue_state how) {
    unlink_ticket(m, t);
    t->state = how;
    (void)pthread_cond_signal(&t->moved);
}

/* ---- a full queue ---- */

static int64_t retry_after_s(const struct manager *m) {
    int64_t us = m->queue.mean_us * (int64_t)m->queue.waiting / (int64_t)width_of(m);
    return MIN(us / 1000000 + 1, (int64_t)RETRY_MAX_S);
}

int64_t manager_retry_after(struct manager *m) {
    (void)pthread_mutex_lock(&m->lock);
    int64_t s = retry_after_s(m);
    (void)pthread_mutex_unlock(&m->lock);
    return s;
}

static int refuse(struct manager *m, struct cay_error *err) {
    m->queue.refused++;
    error_set(err, CAY_LIMIT_REACHED, "too many sandboxes are being created (waiting: %zu)",
              m->queue.waiting);
    error_try_later(err);
    return error_remedy(err,
                        "try again in %lld s, or raise queue_size in the section [manager] of "
                        "the configuration",
                        (long long)retry_after_s(m));
}

static struct queue_lane *longest_lane(const struct queue *q) {
    struct queue_lane *longest = NULL;
    for (struct queue_lane *l = q->first; l != NULL; l = l->next)
        if (!str_equal(l->owner, pool_lane) && (longest == NULL || l->count > longest->count))
            longest = l;
    return longest;
}

static struct queue_ticket *youngest_client(const struct queue_lane *lane) {
    struct queue_ticket *youngest = NULL;
    for (struct queue_ticket *t = lane->first; t != NULL; t = t->next)
        if (t->kind == QUEUE_CLIENT)
            youngest = t;
    return youngest;
}

/* A key that has filled the queue makes room for one that has not. */
static bool make_room(struct manager *m, const char *owner) {
    struct queue *q = &m->queue;
    const struct queue_lane *longest = longest_lane(q), *own = find_lane(q, owner);
    if (longest == NULL || longest->count <= (own == NULL ? 0 : own->count) + 1)
        return false;
    struct queue_ticket *t = youngest_client(longest);
    if (t != NULL)
        end_wait(m, t, QUEUE_REFUSED);
    return t != NULL;
}

/* ---- places ---- */

static void prepare(struct queue_ticket *t, enum queue_kind kind) {
    pthread_condattr_t attr;
    *t = (struct queue_ticket){.kind = kind, .since_us = clock_us()};
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&t->moved, &attr);
    (void)pthread_condattr_destroy(&attr);
}

/* Finds the lane of a ticket, unless it is refused. */
static int admit(struct manager *m, const char *owner, struct queue_ticket *t,
                 struct cay_error *err) {
    struct queue *q = &m->queue;
    bool is_client = t->kind != QUEUE_AHEAD, is_busy = q->running >= width_of(m);
    int r = is_client && (is_busy || q->waiting > 0) ? charge(m, owner, t, err) : 0;
    if (r < 0)
        return r;
    bool is_full = q->waiting >= room_of(m) && is_busy && is_client && !make_room(m, owner);
    t->lane = is_full ? NULL : open_lane(q, owner);
    if (t->lane != NULL)
        return 0;
    discharge(m, owner, t);
    return is_full ? refuse(m, err) : error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
}

static int join_locked(struct manager *m, const char *owner, struct queue_ticket *t,
                       struct cay_error *err) {
    struct queue *q = &m->queue;
    int r = table_check_open(m, err);
    if (r < 0)
        return r;
    r = admit(m, owner, t, err);
    if (r < 0)
        return r;
    t->state = QUEUE_WAITING;
    append_ticket(&t->lane->first, t);
    t->lane->count++;
    q->waiting++;
    dispatch(m);
    t->has_waited = t->state != QUEUE_RUNNING;
    return 0;
}

int queue_join(struct manager *m, enum queue_kind kind, const char *owner, struct queue_ticket *t,
               struct cay_error *err) {
    prepare(t, kind);
    (void)pthread_mutex_lock(&m->lock);
    int r = join_locked(m, kind == QUEUE_AHEAD ? pool_lane : owner, t, err);
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        (void)pthread_cond_destroy(&t->moved);
    return r;
}

static void wait_until(struct manager *m, struct queue_ticket *t, int64_t deadline) {
    struct timespec until = {.tv_sec = deadline / 1000, .tv_nsec = deadline % 1000 * 1000000};
    while (t->state == QUEUE_WAITING && !m->closing && !clock_expired(deadline))
        (void)pthread_cond_timedwait(&t->moved, &m->lock, &until);
}

/* Why it waited in vain. */
static int explain(struct manager *m, const struct queue_ticket *t, struct cay_error *err) {
    if (t->state == QUEUE_GIVEN_UP)
        return error_set(err, CAY_CONFLICT, "the sandbox was removed before it was started");
    int r = table_check_open(m, err);
    return r < 0 ? r : refuse(m, err);
}

int queue_wait(struct manager *m, struct queue_ticket *t, struct cay_error *err) {
    struct queue *q = &m->queue;
    int r = 0;
    (void)pthread_mutex_lock(&m->lock);
    wait_until(m, t, clock_deadline(m->limits.transition_ms));
    if (t->state == QUEUE_WAITING)
        end_wait(m, t, QUEUE_REFUSED);
    if (t->state == QUEUE_RUNNING) {
        q->entered++;
        q->waited_us += (uint64_t)(t->began_us - t->since_us);
    } else {
        r = explain(m, t, err);
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        (void)pthread_cond_destroy(&t->moved);
    return r;
}

static void give_back(struct manager *m, struct queue_ticket *t) {
    struct queue *q = &m->queue;
    int64_t used_us = clock_us() - t->began_us;
    q->mean_us =
        q->mean_us == 0 ? used_us : (MEAN_WEIGHT * q->mean_us + used_us) / (MEAN_WEIGHT + 1);
    q->running--;
    t->state = QUEUE_OUTSIDE;
    dispatch(m);
}

void queue_leave(struct manager *m, struct queue_ticket *t) {
    (void)pthread_mutex_lock(&m->lock);
    bool has_place = t->state == QUEUE_RUNNING || t->state == QUEUE_WAITING;
    if (t->state == QUEUE_RUNNING)
        give_back(m, t);
    else if (has_place)
        end_wait(m, t, QUEUE_OUTSIDE);
    (void)pthread_mutex_unlock(&m->lock);
    if (has_place)
        (void)pthread_cond_destroy(&t->moved);
}

void queue_step_out(struct manager *m, struct queue_ticket *t) {
    if (t == NULL)
        return;
    (void)pthread_mutex_lock(&m->lock);
    if (t->state == QUEUE_RUNNING)
        give_back(m, t);
    (void)pthread_mutex_unlock(&m->lock);
}

/* It has waited for its turn once, so it is before all others now, and is not refused. */
void queue_step_in(struct manager *m, struct queue_ticket *t) {
    if (t == NULL)
        return;
    struct queue *q = &m->queue;
    (void)pthread_mutex_lock(&m->lock);
    if (t->state == QUEUE_OUTSIDE) {
        t->state = QUEUE_WAITING;
        append_ticket(&q->back, t);
        q->waiting++;
        dispatch(m);
        while (t->state == QUEUE_WAITING && !m->closing)
            (void)pthread_cond_wait(&t->moved, &m->lock);
    }
    if (t->state != QUEUE_RUNNING) { /* given up, or closing: whoever makes it finds out */
        if (t->state == QUEUE_WAITING)
            unlink_ticket(m, t);
        enter(q, t);
    }
    (void)pthread_mutex_unlock(&m->lock);
}

bool queue_is_empty(struct manager *m) {
    (void)pthread_mutex_lock(&m->lock);
    bool empty = m->queue.waiting == 0;
    (void)pthread_mutex_unlock(&m->lock);
    return empty;
}

void queue_give_up(struct manager *m, struct queue_ticket *t) {
    if (t != NULL && t->state == QUEUE_WAITING)
        end_wait(m, t, QUEUE_GIVEN_UP);
}

void queue_wake(struct manager *m) {
    dispatch(m);
    for (const struct queue_lane *l = m->queue.first; l != NULL; l = l->next)
        for (struct queue_ticket *t = l->first; t != NULL; t = t->next)
            (void)pthread_cond_signal(&t->moved);
    for (struct queue_ticket *t = m->queue.back; t != NULL; t = t->next)
        (void)pthread_cond_signal(&t->moved);
}

void queue_total(const struct manager *m, struct manager_queue_totals *ret) {
    const struct queue *q = &m->queue;
    *ret = (struct manager_queue_totals){
        .running = q->running,
        .waiting = q->waiting,
        .entered = q->entered,
        .refused = q->refused,
        .waited_us = q->waited_us,
    };
    for (const struct queue_lane *l = q->first; l != NULL; l = l->next)
        ret->keys++;
}
