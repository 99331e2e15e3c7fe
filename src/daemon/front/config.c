/* What the configuration means to the parts of the front, at the start and when it is read anew. */
#include "api/metrics/metrics.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/log.h"
#include "daemon/front/internal.h"

enum tier front_best_tier(const struct settings *s) {
    return s->is_root ? TIER_FULL : TIER_ROOTLESS;
}

int front_defaults(const struct config *c, struct sandbox_record *ret, struct cay_error *err) {
    if (str_copy(ret->image_name, sizeof ret->image_name, c->sandbox.image) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "[sandbox] image is too long");
    if (str_copy(ret->network, sizeof ret->network, config_network(c)) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "[sandbox] network is too long");
    ret->memory_bytes = c->sandbox.memory;
    ret->disk_bytes = c->sandbox.disk;
    ret->cpu_quota_us = (uint32_t)(c->sandbox.cpus * 100000);
    ret->pids = (uint32_t)c->sandbox.pids;
    ret->tier = str_equal(c->sandbox.tier, "auto") ? TIER_NONE : tier_from_name(c->sandbox.tier);
    ret->auto_stop_minutes = c->manager.auto_stop_minutes;
    ret->auto_archive_minutes = c->manager.auto_archive_minutes;
    ret->auto_delete_minutes = c->manager.auto_delete_minutes;
    ret->on_failure = on_failure_from_name(c->manager.on_failure);
    return 0;
}

static enum network_reach reach_of(const char *name) {
    return str_equal(name, "none")     ? NETWORK_REACH_NONE
           : str_equal(name, "public") ? NETWORK_REACH_PUBLIC
                                       : NETWORK_REACH_PRIVATE;
}

static struct manager_policy policy_of(const struct config *c) {
    struct manager_policy p = {
        .profile_max = str_equal(c->manager.profile_max, "build") ? PROFILE_BUILD : PROFILE_STRICT,
        .tier_min = tier_from_name(c->manager.tier_min), /* auto is not a tier */
        .no_host_image = c->images.allowed.len > 0 && !strv_has(&c->images.allowed, "host"),
        .no_public_previews = !c->manager.public_previews,
        .lifetime_max_ms = c->manager.lifetime_max_ms};
    for (size_t i = 0; i < c->manager.engines.len; i++)
        p.engines[engine_kind_from_name(c->manager.engines.v[i])] = true; /* loading checked them */
    return p;
}

static struct manager_host_limits host_of(const struct config *c) {
    struct config_reserve memory = {0};
    (void)config_parse_reserve("memory_reserve", c->manager.memory_reserve, &memory,
                               NULL); /* loading has checked it */
    return (struct manager_host_limits){.memory_reserve_percent = memory.percent,
                                        .memory_reserve_bytes = memory.max_bytes,
                                        .pids_reserve = (uint64_t)c->manager.pids_reserve,
                                        .memory_overcommit = c->manager.memory_overcommit,
                                        .cpu_overcommit = c->manager.cpu_overcommit,
                                        .pids_overcommit = c->manager.pids_overcommit};
}

struct manager_limits front_limits(const struct config *c) {
    struct config_reserve reserve = {0};
    (void)config_parse_reserve("disk_reserve", c->manager.disk_reserve, &reserve,
                               NULL); /* loading has checked it */
    return (struct manager_limits){.max_sandboxes = c->manager.max_sandboxes,
                                   .creating_max = c->manager.creating_max,
                                   .queue_max = c->manager.queue_size,
                                   .idle_timeout_ms = c->manager.idle_timeout_ms,
                                   .volume_size_bytes = c->manager.volume_size,
                                   .policy = policy_of(c),
                                   .host = host_of(c),
                                   .network_max = reach_of(c->manager.network_max),
                                   .cleanup_interval_ms = c->manager.cleanup_interval_ms,
                                   .stop_grace_ms = c->manager.stop_timeout_ms,
                                   .sample_interval_ms = c->manager.sample_interval_ms,
                                   .warn_after_ms = c->manager.warn_after_ms,
                                   .reserve_percent = reserve.percent,
                                   .reserve_max_bytes = reserve.max_bytes};
}

struct http_rules front_rules(const struct config *c) {
    return (struct http_rules){.hosts = &c->server.allowed_hosts,
                               .origins = &c->server.allowed_origins,
                               .metrics_public = c->server.metrics_public,
                               .client_timeout_ms = c->server.client_timeout_ms,
                               .public_url = c->server.public_url};
}

int front_set_pool(struct front *f, const struct config *c, struct cay_error *err) {
    return manager_set_pool(f->manager, (size_t)c->manager.pool_size, &c->manager.pool_images, err);
}

int front_set_interpreters(struct front *f, const struct config *c, struct cay_error *err) {
    const struct settings *s = f->options->settings;
    struct sandbox_record defaults = {0};
    int r = front_defaults(c, &defaults, err);
    const struct interpreters_rules rules = {
        .warm = c->python.warm,
        .preload = &c->python.preload,
        .waiting = (size_t)c->python.waiting,
        .spec = {.memory_bytes = defaults.memory_bytes,
                 .cpu_quota_us = defaults.cpu_quota_us,
                 .pids = defaults.pids,
                 .tier = defaults.tier != TIER_NONE ? defaults.tier : front_best_tier(s)},
        .work_dir = c->sandbox.work_dir,
        .index_url = c->python.index_url,
        .find_links = c->python.find_links,
    };
    return r < 0 ? r : interpreters_set_rules(f->interpreters, &rules, err);
}

/* ---- another configuration ---- */

static void use_config(struct front *f, struct config *config) {
    (void)pthread_rwlock_wrlock(&f->config_lock);
    struct config *before = f->config;
    f->config = config;
    (void)pthread_rwlock_unlock(&f->config_lock);
    if (before != f->options->settings->config)
        config_free(before);
    settings_apply_level(f->options->settings->log_level, config);
    settings_apply_format(f->options->settings->log_format, config);
}

/* What may be refused comes first: then everything stays as it was. */
static int apply(struct front *f, const struct config *c, struct tls *tls, struct cay_error *err) {
    struct sandbox_record defaults = {0};
    struct manager_limits limits = front_limits(c);
    struct http_rules rules = front_rules(c);
    int r = front_defaults(c, &defaults, err);
    if (r == 0)
        r = http_set_tls(f->http, tls, err);
    if (r == 0)
        r = http_set_rules(f->http, &rules, err);
    if (r == 0)
        r = manager_configure(f->manager, &limits, &defaults, err);
    if (r == 0)
        r = front_set_interpreters(f, c, err);
    return r < 0 ? r : front_set_pool(f, c, err);
}

static int take_config(struct front *f, const int *fds, struct cay_error *err) {
    _cleanup_(config_freep) struct config *c = NULL;
    struct tls tls = {0};
    struct cay_error late;
    int r = config_unpack(fds[0], &c, err);
    if (r == 0 && fds[1] >= 0)
        r = tls_unpack(fds[1], &tls, err);
    if (r == 0)
        r = apply(f, c, &tls, err);
    tls_free(&tls);
    if (r < 0)
        return r;
    if (front_fetch_ahead(f, &c->images.prepull, &late) < 0)
        log_event(LOG_LEVEL_WARN, "images are not fetched ahead", "why", "%s", late.message);
    use_config(f, TAKE_PTR(c));
    return 0;
}

void front_take_reload(struct front *f, const struct control_message *m, const int *fds) {
    struct control_message answer = {.op = CONTROL_RELOADED, .number = m->number};
    int r = fds[0] < 0 ? -CAY_INVALID_ARGUMENT : take_config(f, fds, &answer.err);
    if (r < 0)
        answer.op = CONTROL_REFUSED;
    metrics_count(r < 0 ? METRICS_RELOAD_FAILURES : METRICS_RELOADS, 1);
    if (fds[0] >= 0)
        (void)control_send(f->options->control, &answer, NULL, 0); /* gone: the next receive says */
}
