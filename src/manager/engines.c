#include "manager/engines.h"

#include "base/error.h"
#include "manager/internal.h"

enum {
    GONE_MS = 5 * 1000,    /* a launcher that ends is replaced sooner */
    SILENT_MS = 15 * 1000, /* what a launcher with much to do may take for one request */
};

/* ---- pings ---- */

/* With the lock held. */
static bool has_sandboxes(const struct manager *m, enum engine_kind kind) {
    for (size_t i = 0; i < m->count; i++)
        if (m->boxes[i]->record.engine == kind)
            return true;
    return false;
}

bool engine_is_used(struct manager *m, enum engine_kind kind) {
    (void)pthread_mutex_lock(&m->lock);
    bool used = m->engines[kind] != NULL &&
                (kind == m->kind || (m->is_used[kind] && has_sandboxes(m, kind)));
    (void)pthread_mutex_unlock(&m->lock);
    return used;
}

void manager_ping(struct manager *m, enum engine_kind kind) {
    if (engine_is_used(m, kind) && m->engines[kind]->ops->ping != NULL)
        m->engines[kind]->ops->ping(m->engines[kind]);
}

/* ---- what is known ---- */

static int fail_gone(int64_t gone_ms, struct cay_error *err) {
    error_set(err, CAY_UNAVAILABLE, "the launcher has been gone for %lld s",
              (long long)(gone_ms / 1000));
    return error_remedy(err, "the daemon's log says why it does not start again");
}

static int fail_silent(int64_t silent_ms, struct cay_error *err) {
    error_set(err, CAY_UNAVAILABLE, "the launcher has not answered for %lld s",
              (long long)(silent_ms / 1000));
    return error_remedy(err, "see whether it hangs (docs/operating.md, CayEngineDown); killing it "
                             "is safe: the daemon starts another, and sandboxes run on");
}

static int fail_away(struct cay_error *err) {
    error_set(err, CAY_UNAVAILABLE, "the engine could not be asked what it has");
    return error_remedy(err, "the daemon's log says why");
}

static int judge(const struct manager_engine *e, bool is_default, int64_t gone_ms, bool is_away,
                 struct cay_error *err) {
    if (is_default && gone_ms >= GONE_MS)
        return fail_gone(gone_ms, err);
    if (e->health.silent_ms >= SILENT_MS)
        return fail_silent(e->health.silent_ms, err);
    if (e->health.err.code != CAY_OK && gone_ms == 0) {
        *err = e->health.err;
        err->code = CAY_UNAVAILABLE;
        return -CAY_UNAVAILABLE;
    }
    /* One that is started when it is needed may be gone, and all is well. */
    return !is_default && is_away ? fail_away(err) : 0;
}

void manager_engine_look(struct manager *m, enum engine_kind kind, struct manager_engine *ret) {
    *ret = (struct manager_engine){.is_used = engine_is_used(m, kind)};
    if (!ret->is_used)
        return;
    struct engine *e = m->engines[kind];
    int64_t gone_ms = e->ops->gone_ms == NULL ? 0 : e->ops->gone_ms(e);
    if (e->ops->health != NULL)
        e->ops->health(e, &ret->health);
    (void)pthread_mutex_lock(&m->lock);
    bool is_default = kind == m->kind, is_away = m->is_away[kind];
    (void)pthread_mutex_unlock(&m->lock);
    ret->is_up = judge(ret, is_default, gone_ms, is_away, &ret->why) == 0;
    ret->is_default = is_default;
    ret->is_silent = ret->health.silent_ms >= SILENT_MS;
}

static int check_engine(struct manager *m, bool only_default, struct cay_error *err) {
    for (enum engine_kind k = ENGINE_NATIVE; k < ENGINE_KINDS; k++) {
        struct manager_engine e;
        manager_engine_look(m, k, &e);
        if (!e.is_used || e.is_up || (only_default && !e.is_default))
            continue;
        *err = e.why;
        return -CAY_UNAVAILABLE;
    }
    return 0;
}

int manager_health(struct manager *m, struct cay_error *err) {
    if (manager_check_database(m, err) < 0 || manager_check_rescue(m, err) < 0)
        return -CAY_UNAVAILABLE;
    return check_engine(m, false, err);
}

int manager_check_database(struct manager *m, struct cay_error *err) {
    if (db_check(m->db, err) == 0)
        return 0;
    err->code = CAY_UNAVAILABLE; /* whatever it is, nothing can be promised */
    (void)error_prefix(err, "the daemon cannot do its work");
    return -CAY_UNAVAILABLE;
}

int manager_check_ready(struct manager *m, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int r = table_check_open(m, err);
    (void)pthread_mutex_unlock(&m->lock);
    if (r == 0)
        r = manager_check_rescue(m, err);
    return r < 0 ? r : check_engine(m, true, err);
}
