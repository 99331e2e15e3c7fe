/* What may change while the manager works, and whether it can work at all. */
#include <string.h>

#include "base/error.h"
#include "manager/internal.h"

int64_t settings_grace(struct manager *m) {
    (void)pthread_mutex_lock(&m->lock);
    int64_t grace_ms = m->limits.stop_grace_ms;
    (void)pthread_mutex_unlock(&m->lock);
    return grace_ms;
}

int manager_configure(struct manager *m, const struct manager_limits *limits,
                      const struct sandbox_record *defaults, struct cay_error *err) {
    struct sandbox_record next = {0};
    if (sandbox_record_copy(defaults, &next) < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    (void)pthread_mutex_lock(&m->lock);
    m->limits.max_sandboxes = limits->max_sandboxes;
    m->limits.creating_max = limits->creating_max;
    m->limits.queue_max = limits->queue_max;
    m->limits.idle_timeout_ms = limits->idle_timeout_ms;
    m->limits.cleanup_interval_ms = limits->cleanup_interval_ms;
    m->limits.stop_grace_ms = limits->stop_grace_ms;
    m->limits.sample_interval_ms = limits->sample_interval_ms;
    m->limits.warn_after_ms = limits->warn_after_ms;
    m->limits.host = limits->host;
    m->limits.reserve_percent = limits->reserve_percent;
    m->limits.reserve_max_bytes = limits->reserve_max_bytes;
    struct sandbox_record before = m->defaults;
    m->defaults = next;
    queue_wake(m);
    reaper_wake(m); /* its intervals may be shorter now */
    (void)pthread_mutex_unlock(&m->lock);
    sandbox_record_free(&before);
    return 0;
}
