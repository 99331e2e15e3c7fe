/* How serving ends. Connections that are open stay open, so requests keep coming: each of them is
 * told to try again before anything is done, and what it would use may be freed as soon as the last
 * request that was let in has ended. */
#include <stdlib.h>
#include <unistd.h>

#include "api/http/ws.h"
#include "api/http_internal.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"

enum { LOOK_US = 5 * 1000, ANSWER_MS = 250 };

/* Counted first: either this sees the end, or whoever waits for the end sees this. */
bool http_let_in(struct http_request *q) {
    (void)atomic_fetch_add(&q->http->under_way, 1);
    q->is_let_in = true;
    if (!atomic_load(&q->http->is_draining))
        return true;
    http_let_out(q);
    return false;
}

void http_let_out(struct http_request *q) {
    if (q->is_let_in)
        (void)atomic_fetch_sub(&q->http->under_way, 1);
    q->is_let_in = false;
}

void http_end_expired(struct http *h) {
    (void)atomic_fetch_add(&h->under_way, 1); /* the manager stays as long as for a request */
    if (!atomic_load(&h->is_draining))
        manager_key_end_expired(h->options.manager);
    (void)atomic_fetch_sub(&h->under_way, 1);
}

void http_fill_turned_away(struct http_request *q) {
    (void)atomic_fetch_add(&q->http->turned_away, 1);
    struct cay_error err;
    error_set(&err, CAY_UNAVAILABLE, "the daemon is stopping or being replaced; nothing was done");
    (void)error_remedy(&err, "try again in a second");
    call_fail(&q->call, &err, 0);
    (void)call_add_header(&q->call, "Retry-After", "1", NULL);
}

static void close_doors(struct http *h) {
    for (size_t i = 0; i < ARRAY_LEN(h->ports); i++)
        if (h->ports[i].daemon != NULL && !h->ports[i].is_quiet)
            (void)MHD_quiesce_daemon(h->ports[i].daemon);
    h->ports[0].is_quiet = h->ports[1].is_quiet = true;
}

unsigned http_drain(struct http *h, bool has_successor) {
    atomic_store(&h->is_draining, true);
    unsigned under_way = http_under_way(h);
    if (has_successor)
        close_doors(h);
    ws_end_all(WS_VIEWERS);
    return under_way;
}

unsigned http_under_way(struct http *h) {
    return (unsigned)MAX(atomic_load(&h->under_way), 0);
}

unsigned http_turned_away(struct http *h) {
    return (unsigned)atomic_load(&h->turned_away);
}

static bool wait_until(struct http *h, int64_t wait_ms, bool (*is_so)(struct http *h)) {
    int64_t deadline = clock_deadline(wait_ms);
    while (!is_so(h) && !clock_expired(deadline))
        (void)usleep(LOOK_US);
    return is_so(h);
}

static bool is_settled(struct http *h) {
    return atomic_load(&h->under_way) <= atomic_load(&h->conversing);
}

static bool is_unused(struct http *h) {
    return atomic_load(&h->under_way) == 0;
}

void http_end_runs(void) {
    ws_end_all(WS_RUNS);
}

bool http_is_left(struct http *h) {
    return http_count_peers(&h->ports[0]) + http_count_peers(&h->ports[1]) == 0;
}

bool http_settle(struct http *h, int64_t wait_ms) {
    return wait_until(h, wait_ms, is_settled);
}

bool http_wait(struct http *h, int64_t wait_ms) {
    return wait_until(h, wait_ms, is_unused);
}

void http_linger(struct http *h, int64_t wait_ms) {
    (void)wait_until(h, wait_ms, http_is_left);
    close_doors(h);
    (void)wait_until(h, ANSWER_MS, http_is_left);
}
