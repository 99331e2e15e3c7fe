/* What others count, or charge, for the budgets of keys: the proxy its connections, and builds,
 * which outlive the manager. Once that is closed nothing is noted any more. */
#include <stdio.h>

#include "api/toolbox/outputs.h"
#include "base/error.h"
#include "daemon/front/internal.h"

int front_take_build(void *user, const char *owner, struct cay_error *err) {
    struct front *f = user;
    (void)pthread_mutex_lock(&f->budget_lock);
    int r = f->is_over ? error_set(err, CAY_UNAVAILABLE, "the daemon is shutting down")
                       : manager_budget_take(f->manager, owner, BUDGET_BUILDS, err);
    (void)pthread_mutex_unlock(&f->budget_lock);
    return r;
}

void front_give_build(void *user, const char *owner) {
    struct front *f = user;
    (void)pthread_mutex_lock(&f->budget_lock);
    if (!f->is_over)
        manager_budget_give(f->manager, owner, BUDGET_BUILDS);
    (void)pthread_mutex_unlock(&f->budget_lock);
}

static void output_changed(void *user, const char *owner, uint64_t bytes) {
    struct front *f = user;
    struct budget_disk row = {.bytes = bytes};
    (void)snprintf(row.owner, sizeof row.owner, "%s", owner); /* ids fit */
    (void)pthread_mutex_lock(&f->budget_lock);
    if (!f->is_over)
        manager_disk_note(f->manager, BUDGET_DISK_OUTPUTS, &row);
    (void)pthread_mutex_unlock(&f->budget_lock);
}

static uint64_t output_left(void *user, const char *owner) {
    struct front *f = user;
    (void)pthread_mutex_lock(&f->budget_lock);
    uint64_t left = f->is_over ? 0 : manager_disk_left(f->manager, owner, "");
    (void)pthread_mutex_unlock(&f->budget_lock);
    return left;
}

struct outputs_rules front_outputs_rules(struct front *f) {
    struct outputs_rules rules = outputs_rules;
    rules.changed = output_changed;
    rules.left = output_left;
    rules.user = f;
    return rules;
}

static void proxy_lost(void *user) {
    struct front *f = user;
    (void)pthread_mutex_lock(&f->budget_lock);
    bool is_over = f->is_over;
    if (!is_over)
        manager_budget_forget(f->manager, BUDGET_PROXY);
    if (!is_over)
        manager_network_again(f->manager);
    (void)pthread_mutex_unlock(&f->budget_lock);
}

static void proxy_counted(void *user, const char *owner, uint32_t connections) {
    struct front *f = user;
    (void)pthread_mutex_lock(&f->budget_lock);
    if (!f->is_over)
        manager_budget_note(f->manager, owner, BUDGET_PROXY, connections);
    (void)pthread_mutex_unlock(&f->budget_lock);
}

const struct egress_hears front_proxy_news = {.lost = proxy_lost, .counted = proxy_counted};

void front_budget_end(struct front *f) {
    (void)pthread_mutex_lock(&f->budget_lock);
    f->is_over = true;
    (void)pthread_mutex_unlock(&f->budget_lock);
}
