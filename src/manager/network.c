/* What sandboxes reach: the list of each goes to a proxy outside, which gets a socket that listens
 * in the sandbox. Without a proxy, or before it has that, nothing is reached. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "egress/control.h"
#include "engine/engines.h"
#include "manager/internal.h"
#include "wire/client_listen.h"

enum { LISTEN_MS = 5000 };

/* ---- what may be asked for ---- */

/* The most that this owner may have. */
static enum network_reach reach_of(struct manager *m, const char *owner) {
    (void)pthread_mutex_lock(&m->lock);
    const struct key *k = owner[0] == '\0' ? NULL : keys_find(m, owner);
    bool is_free = owner[0] == '\0' || (k != NULL && key_sees_all(k));
    enum network_reach most = is_free ? NETWORK_REACH_PRIVATE : m->limits.network_max;
    (void)pthread_mutex_unlock(&m->lock);
    return most;
}

static int check_reach(struct manager *m, const char *owner, const struct network *n,
                       struct cay_error *err) {
    enum network_reach reach = network_reach(n);
    if (reach == NETWORK_REACH_NONE)
        return 0;
    if (m->network == NULL && !n->is_bridge) {
        error_set(err, CAY_UNSUPPORTED, "a network list cannot be kept here: there is no proxy");
        return error_remedy(err, "use the network 'none'");
    }
    if (reach <= reach_of(m, owner))
        return 0;
    error_set(err, CAY_FORBIDDEN,
              reach == NETWORK_REACH_PRIVATE ? "this key may not open private ranges of addresses"
                                             : "this key may not open the network");
    return error_remedy(err, "ask who runs the daemon: network_max in the section [manager] of the "
                             "configuration");
}

int manager_check_network(struct manager *m, const char *owner, const char *network,
                          struct cay_error *err) {
    struct network list;
    int e = network_parse(network, &list, err);
    if (e == 0 && list.is_bridge)
        e = spec_refuse_bridge(err);
    return e < 0 ? e : check_reach(m, owner, &list, err);
}

int network_check(struct manager *m, const struct sandbox_record *r, struct cay_error *err) {
    struct network list;
    int e = network_parse(r->network, &list, err);
    if (e == 0 && list.is_bridge && !engine_can(r->engine, ENGINE_HAS_BRIDGE))
        e = spec_refuse_bridge(err);
    return e < 0 ? e : check_reach(m, sandbox_record_key(r), &list, err);
}

int network_check_change(const struct sandbox_record *r, const char *to, struct cay_error *err) {
    bool is_bridge = network_is_bridge(r->network);
    if (network_is_bridge(to) == is_bridge)
        return 0;
    error_set(err, CAY_UNSUPPORTED,
              is_bridge ? "a sandbox that was made with the network 'bridge' keeps it"
                        : "only a new sandbox can have the network 'bridge'");
    return error_remedy(err, "make another one with --network; 'cay snapshot' keeps its files");
}

/* ---- opening and closing ---- */

bool network_has_list(const struct sandbox_record *r) {
    return r->network[0] != '\0' && !str_equal(r->network, "none") &&
           !network_is_bridge(r->network);
}

static int listen_inside(const char *id, int door, struct cay_error *err) {
    _cleanup_(closep) int fd = socket_connect(id, LISTEN_MS, err);
    if (fd < 0)
        return fd;
    const struct wire_call call = {.fd = fd, .deadline_ms = clock_deadline(LISTEN_MS)};
    return wire_listen(&call, EGRESS_PORT, door, err);
}

/* The limit of its key goes along: it cannot change while the key is there. */
static int set_list(struct manager *m, const struct sandbox_record *r, int door,
                    struct cay_error *err) {
    const struct egress_wish wish = {
        .id = r->id,
        .network = r->network,
        .owner = sandbox_record_key(r),
        .owner_max = (uint32_t)manager_budget_limit(m, sandbox_record_key(r), BUDGET_PROXY),
        .door = door};
    return m->network->set(m->user, &wish, err);
}

int network_open(struct manager *m, struct sandbox *s, struct cay_error *err) {
    int pair[2];
    if (m->network == NULL || !network_has_list(&s->record))
        return 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making a socket");
    int r = set_list(m, &s->record, pair[1], err);
    (void)close(pair[1]);
    if (r == 0)
        r = listen_inside(s->record.id, pair[0], err);
    (void)close(pair[0]);
    return r < 0 ? error_prefix(err, "opening the network of sandbox %s", s->record.id) : 0;
}

int network_change(struct manager *m, struct sandbox *s, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    enum sandbox_state state = s->record.state;
    (void)pthread_mutex_unlock(&m->lock);
    if (m->network == NULL || (state != SANDBOX_STARTED && state != SANDBOX_PAUSED))
        return 0;
    /* One that stands still cannot listen, but what it has may be closed. */
    if (state == SANDBOX_STARTED && network_has_list(&s->record))
        return network_open(m, s, err);
    return set_list(m, &s->record, -1, err);
}

void network_close(struct manager *m, const char *id) {
    if (m->network != NULL)
        m->network->drop(m->user, id);
}

/* ---- all of them again ---- */

static void open_again(struct manager *m, const char *id) {
    struct sandbox *s = NULL;
    struct cay_error err;
    if (turn_take(m, id, &s, &err) < 0)
        return;
    if (s->record.state == SANDBOX_STARTED && network_open(m, s, &err) < 0)
        log_event(LOG_LEVEL_WARN, "a sandbox has no network", "why", "%s", err.message);
    turn_end(m, s);
}

static bool is_wanted_again(struct manager *m) {
    (void)pthread_mutex_lock(&m->lock);
    bool again = m->network_again && !m->closing;
    m->network_again = false;
    (void)pthread_mutex_unlock(&m->lock);
    return again;
}

static void *run_again(void *user) {
    struct manager *m = user;
    while (is_wanted_again(m)) {
        size_t count = 0;
        struct sandbox **all = table_snapshot(m, &count);
        for (size_t i = 0; all != NULL && i < count; i++)
            if (network_has_list(&all[i]->record))
                open_again(m, all[i]->record.id);
        if (all != NULL)
            table_snapshot_free(m, all, count);
    }
    worker_end(m, &m->opening);
    return NULL;
}

void manager_network_again(struct manager *m) {
    pthread_t thread;
    struct cay_error err;
    (void)pthread_mutex_lock(&m->lock);
    bool is_idle = m->network != NULL && m->ready && !m->is_rescue && !m->opening && !m->closing;
    m->network_again = true;
    (void)pthread_mutex_unlock(&m->lock);
    if (!is_idle)
        return;
    if (worker_start(m, &thread, run_again, &m->opening, &err) < 0)
        log_event(LOG_LEVEL_WARN, "sandboxes have no network", "why", "%s", err.message);
    else
        (void)pthread_detach(thread);
}
