/* Which isolation, images, lifetimes and previews a key may choose. Whoever runs the daemon chooses
 * it for everybody else: a key that could ask for another engine, for a lower tier or for the
 * profile build would decide by itself how far its code is from the host. */
#include <stdio.h>

#include "base/error.h"
#include "base/str.h"
#include "manager/internal.h"

static int refuse(const char *what, const char *key, struct cay_error *err) {
    error_set(err, CAY_FORBIDDEN, "this key may not use %s", what);
    return error_remedy(err, "omit it, or ask whoever runs the daemon: %s in the configuration",
                        key);
}

/* With the lock held: whoever sees all has no policy. */
static bool is_free(const struct manager *m, const char *owner) {
    const struct key *k = owner[0] == '\0' ? NULL : keys_find(m, owner);
    return owner[0] == '\0' || (k != NULL && key_sees_all(k));
}

/* The least isolation that is not a step down: what a sandbox gets that does not say. */
static enum tier least_tier(const struct manager *m, const struct sandbox_record *r) {
    if (m->limits.policy.tier_min != TIER_NONE)
        return m->limits.policy.tier_min;
    if (r->engine != ENGINE_NATIVE || m->defaults.tier == TIER_NONE)
        return m->best_tier[r->engine];
    return m->defaults.tier;
}

/* With the lock held: keys and limits may change. */
static int check(const struct manager *m, const struct sandbox_record *r, struct cay_error *err) {
    const struct manager_policy *p = &m->limits.policy;
    char what[64];
    if (is_free(m, sandbox_record_key(r)))
        return 0;
    if (p->no_host_image && str_equal(r->image_name, "host") &&
        !str_equal(m->defaults.image_name, "host"))
        return refuse("the image host", "[images] allowed", err);
    if (r->engine != m->kind && !p->engines[r->engine]) {
        (void)snprintf(what, sizeof what, "the engine %s", engine_kind_name(r->engine));
        return refuse(what, "[manager] engines", err);
    }
    if (r->profile > MAX(p->profile_max, m->defaults.profile))
        return refuse("the profile build", "[manager] profile_max", err);
    if (r->tier < least_tier(m, r)) {
        (void)snprintf(what, sizeof what, "the tier %s", tier_name(r->tier));
        return refuse(what, "[manager] tier_min", err);
    }
    return 0;
}

int policy_check(struct manager *m, const struct sandbox_record *r, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int e = check(m, r, err);
    (void)pthread_mutex_unlock(&m->lock);
    return e;
}

/* One that does not say how long it lives gets the longest life. */
static int limit_life(const struct manager_policy *p, struct sandbox_record *r,
                      struct cay_error *err) {
    int64_t last = r->created_ms + p->lifetime_max_ms;
    if (p->lifetime_max_ms == 0)
        return 0;
    if (r->destroy_ms == 0)
        r->destroy_ms = last;
    if (r->destroy_ms <= last)
        return 0;
    error_set(err, CAY_FORBIDDEN, "a sandbox of this key lives at most %lld s",
              (long long)(p->lifetime_max_ms / 1000));
    return error_remedy(err, "ask for less, or whoever runs the daemon: [manager] lifetime_max");
}

int policy_limit(struct manager *m, struct sandbox_record *r, struct cay_error *err) {
    int e = 0;
    (void)pthread_mutex_lock(&m->lock);
    const struct manager_policy p = m->limits.policy;
    bool has_none = is_free(m, sandbox_record_key(r));
    (void)pthread_mutex_unlock(&m->lock);
    if (has_none)
        return 0;
    if (p.no_public_previews && r->is_public)
        e = refuse("public previews", "[manager] public_previews", err);
    return e < 0 ? e : limit_life(&p, r, err);
}

/* A key that was removed keeps what it made: only its sandboxes find it. */
void policy_image_owner(struct manager *m, const struct sandbox_record *r,
                        struct image_wish *wish) {
    (void)pthread_mutex_lock(&m->lock);
    bool sees_all = is_free(m, sandbox_record_key(r));
    (void)pthread_mutex_unlock(&m->lock);
    if (sees_all)
        return;
    memcpy(wish->owner, r->owner, sizeof wish->owner);
    memcpy(wish->made_by, r->made_by, sizeof wish->made_by);
}
