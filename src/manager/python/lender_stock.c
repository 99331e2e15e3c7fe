#include "manager/python/lender_stock.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/engine.h"

enum {
    READY = 2,    /* what the launcher prepares beside these */
    QUIET_MS = 2, /* the run that has just begun needs the processor more */
    RETRY_MS = 5000,
};

int stock_start(struct engine *e, const struct sandbox_spec *asked, const char *fingerprint,
                int connection, uint64_t *ret_tag, struct cay_error *err) {
    struct sandbox_spec spec = *asked; /* the launcher checks it */
    spec.mounts = NULL;
    spec.mount_count = 0;
    spec.id[0] = spec.owner[0] = '\0';
    spec.has_list = spec.has_bridge = false;
    const struct engine_once once = {
        .spec = &spec, .ready = READY, .wants_counter = true, .fingerprint = fingerprint};
    return e->ops->once(e, &once, connection, ret_tag, err);
}

/* ---- taking ---- */

static bool is_of_kind(const struct stock *s, const struct sandbox_spec *spec,
                       const char *fingerprint) {
    const struct sandbox_spec *k = &s->kind;
    return k->memory_bytes == spec->memory_bytes && k->disk_bytes == spec->disk_bytes &&
           k->cpu_quota_us == spec->cpu_quota_us && k->pids == spec->pids &&
           k->profile == spec->profile && str_equal(s->fingerprint, fingerprint);
}

static void drop(const struct stock *s, struct stock_item *item) {
    struct cay_error ignored;
    fd_close(&item->fd);
    (void)s->engine->ops->once_end(s->engine, item->tag, NULL, &ignored); /* nobody waits for it */
}

static bool is_dead(const struct stock_item *item) {
    struct pollfd p = {.fd = item->fd};
    return poll(&p, 1, 0) != 0; /* hung up: nothing else was asked for */
}

bool stock_take(struct stock *s, const struct sandbox_spec *spec, const char *fingerprint,
                struct stock_item *ret) {
    if (spec->read_only || spec->hostname[0] != '\0')
        return false;
    if (!is_of_kind(s, spec, fingerprint)) {
        stock_empty(s);
        s->kind = *spec;
        (void)snprintf(s->fingerprint, sizeof s->fingerprint, "%s", fingerprint);
    }
    s->asked_at = clock_ms();
    while (s->count > 0) {
        *ret = s->items[0];
        s->count--;
        memmove(&s->items[0], &s->items[1], s->count * sizeof s->items[0]);
        if (!is_dead(ret))
            return true;
        drop(s, ret);
    }
    return false;
}

/* ---- making ---- */

int64_t stock_due(const struct stock *s) {
    if (s->kind.memory_bytes == 0 || s->count == STOCK_SIZE)
        return 0;
    return MAX(s->asked_at + QUIET_MS, s->retry_at);
}

static int add(struct stock *s, struct cay_error *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making a connection");
    struct stock_item item = {.fd = pair[0]};
    int r = stock_start(s->engine, &s->kind, s->fingerprint, pair[1], &item.tag, err);
    (void)close(pair[1]);
    if (r < 0)
        (void)close(pair[0]);
    else
        s->items[s->count++] = item;
    return r;
}

void stock_fill(struct stock *s) {
    struct cay_error ignored; /* clients start their own meanwhile, and hear of it */
    int64_t due = stock_due(s);
    if (due == 0 || clock_ms() < due)
        return;
    if (add(s, &ignored) < 0)
        s->retry_at = clock_ms() + RETRY_MS;
}

void stock_empty(struct stock *s) {
    for (size_t i = 0; i < s->count; i++)
        drop(s, &s->items[i]);
    s->count = 0;
}
