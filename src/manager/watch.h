/* Watching what becomes of sandboxes: a queue of news for each viewer, who sees what his key sees.
 */
#pragma once

#include "manager/record/key.h"
#include "manager/record/record.h"

struct cay_error;
struct manager;
struct watch;

enum { WATCH_QUEUE_MAX = 256 }; /* of a viewer who is slow, the oldest news are dropped */

struct watch_news {
    struct watch_news *next;      /* the queue's */
    struct sandbox_record record; /* as it was then */
    const char *old_state;        /* NULL: it is new */
    const char *new_state;        /* "destroyed" when it is gone, else that of the record */
};

/* From now on. Until manager_unwatch the manager must stay. */
int manager_watch(struct manager *m, const struct key *caller, struct watch **ret,
                  struct cay_error *err);
void manager_unwatch(struct manager *m, struct watch *w); /* NULL is fine */

/* Can be read from while there are news, and when it is over; only watch_take reads it. */
int watch_fd(const struct watch *w);
/* True once the manager is to be closed: no more follow, and the viewer has to go. */
bool watch_is_over(struct manager *m);
/* The oldest, the caller's to free; NULL: there are none. */
struct watch_news *watch_take(struct manager *m, struct watch *w);
void watch_news_free(struct watch_news *n);

/* ---- for the manager, with its lock held ---- */

/* Tells who watches. old_state NULL: it is new. */
void watch_report(struct manager *m, const struct sandbox_record *r, const char *old_state,
                  const char *new_state);
/* Wakes all who watch, since it is over. */
void watch_wake(struct manager *m);
