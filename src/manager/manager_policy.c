/* Which isolation a key may choose. Whoever runs the daemon chooses it for everybody else: a key
 * that could ask for Docker, for a lower tier or for the profile build would decide by itself how
 * far its code is from the host. */
#include "base/error.h"
#include "base/str.h"
#include "manager/manager_internal.h"

static int refuse(const char *what, const char *key, struct cay_error *err) {
    error_set(err, CAY_FORBIDDEN, "this key may not use %s", what);
    return error_remedy(err, "omit it, or ask whoever runs the daemon: %s in the section [manager]",
                        key);
}

/* The least isolation that is not a step down: what a sandbox gets that does not say. */
static enum tier least_tier(const struct manager *m, const struct sandbox_record *r) {
    if (m->limits.policy.tier_min != TIER_NONE)
        return m->limits.policy.tier_min;
    if (r->engine == ENGINE_DOCKER)
        return TIER_BASIC;
    return m->defaults.tier != TIER_NONE ? m->defaults.tier : m->best_tier;
}

/* With the lock held: keys and limits may change. */
static int check(const struct manager *m, const struct sandbox_record *r, struct cay_error *err) {
    const struct key *k = r->owner[0] == '\0' ? NULL : keys_find(m, r->owner);
    if (r->owner[0] == '\0' || (k != NULL && key_sees_all(k)))
        return 0;
    const struct manager_policy *p = &m->limits.policy;
    char what[64];
    if (r->engine != m->kind && !p->engines[r->engine]) {
        (void)snprintf(what, sizeof what, "the engine %s", engine_kind_name(r->engine));
        return refuse(what, "engines", err);
    }
    if (r->profile > MAX(p->profile_max, m->defaults.profile))
        return refuse("the profile build", "profile_max", err);
    if (r->tier < least_tier(m, r)) {
        (void)snprintf(what, sizeof what, "the tier %s", tier_name(r->tier));
        return refuse(what, "tier_min", err);
    }
    return 0;
}

int policy_check(struct manager *m, const struct sandbox_record *r, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int e = check(m, r, err);
    (void)pthread_mutex_unlock(&m->lock);
    return e;
}
