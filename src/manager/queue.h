/* The queue of creations and starts. A fixed number runs at a time; the rest waits. Each key has a
 * lane: lanes are served round robin, a lane first in, first out. Removals, commands and everything
 * else do not use the queue. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "manager/record/record.h"

struct cay_error;
struct manager;
struct manager_queue_totals;
struct queue_lane; /* opaque */

enum queue_kind {
    QUEUE_CLIENT,   /* may be refused while it waits */
    QUEUE_PROMISED, /* the client has its answer: may be refused by queue_join() only */
    QUEUE_AHEAD,    /* for the warm pool: a lane of its own, never refused */
};

enum queue_state { QUEUE_OUTSIDE, QUEUE_WAITING, QUEUE_RUNNING, QUEUE_REFUSED, QUEUE_GIVEN_UP };

/* One place in the queue, zero before queue_join(). It must outlive its place. */
struct queue_ticket {
    struct queue_ticket *next; /* in its lane */
    struct queue_lane *lane;   /* NULL while it does not wait, or returns */
    pthread_cond_t moved;
    enum queue_kind kind;
    enum queue_state state;
    bool has_waited;
    bool is_charged; /* it is one of those of its key that wait */
    int64_t since_us, began_us;
};

struct queue {
    size_t running, waiting;
    struct queue_lane *first;  /* the lane whose turn it is */
    struct queue_ticket *back; /* those that stepped out and want back in: before all lanes */
    int64_t mean_us;           /* how long a place is used, as a moving average */
    uint64_t entered, refused, waited_us;
};

/* Takes a place for a creation of this owner. If the queue is full, the youngest ticket of the
 * longest lane is refused in its favour, or, if that lane is not longer than this owner's, this
 * one: -CAY_LIMIT_REACHED with err->sys EAGAIN; manager_retry_after() says when to try again. */
int queue_join(struct manager *m, enum queue_kind kind, const char *owner, struct queue_ticket *t,
               struct cay_error *err);
/* Waits for its turn. If it fails the place is lost, and queue_leave() does nothing. */
int queue_wait(struct manager *m, struct queue_ticket *t, struct cay_error *err);
/* Gives the place back. */
void queue_leave(struct manager *m, struct queue_ticket *t);

/* For what may take minutes and is not the engine's work, such as fetching an image: others run
 * meanwhile. NULL is fine. */
void queue_step_out(struct manager *m, struct queue_ticket *t);
void queue_step_in(struct manager *m, struct queue_ticket *t);

/* True if nobody waits. */
bool queue_is_empty(struct manager *m);

/* ---- with the lock held ---- */

/* A ticket that waits does so in vain: its sandbox is to be removed. NULL is fine. */
void queue_give_up(struct manager *m, struct queue_ticket *t);
/* Everybody looks again: the limits have changed, or the manager closes. */
void queue_wake(struct manager *m);
void queue_total(const struct manager *m, struct manager_queue_totals *ret);
