#include "api/request_log.h"

#include <stdio.h>
#include <string.h>

#include "api/metrics/metrics.h"
#include "api/route.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"

static bool is_sane(const char *id) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-";
    size_t len = strnlen(id, REQUEST_ID_SIZE);
    return len > 0 && len < REQUEST_ID_SIZE && strspn(id, allowed) == len;
}

void request_log_begin(struct request_log *l, const char *method, const char *given) {
    l->began_us = clock_us();
    (void)snprintf(l->method, sizeof l->method, "%s", method);
    if (given != NULL && is_sane(given))
        memcpy(l->id, given, strlen(given) + 1);
    else if (id_new(l->id, NULL) < 0)
        (void)snprintf(l->id, sizeof l->id, "%llx", (unsigned long long)l->began_us);
    log_set_field("request", l->id);
}

/* Probes come every few seconds; what they find is logged once, by the watcher. */
static enum log_level level_of(const struct request_log *l, const struct route *route) {
    if (route != NULL && route->need == NEED_NO_KEY)
        return LOG_LEVEL_DEBUG;
    bool looks = str_equal(l->method, "GET") || str_equal(l->method, "HEAD");
    if (l->status >= 500)
        return LOG_LEVEL_WARN;
    return looks && l->status < 400 ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO;
}

void request_log_end(const struct request_log *l, const struct route *route, size_t row,
                     const char *caller) {
    char status[16], ms[32];
    (void)snprintf(status, sizeof status, "%u", l->status);
    int64_t took_us = clock_us() - l->began_us;
    (void)snprintf(ms, sizeof ms, "%.3f", (double)took_us / 1000);
    const struct log_field fields[] = {
        {"method", l->method}, {"route", route != NULL ? route->pattern : "none"},
        {"status", status},    {"ms", ms},
        {"caller", caller},
    };
    metrics_request(route != NULL ? row : METRICS_ROUTES_MAX - 1, l->status, took_us);
    log_line(level_of(l, route), "request", fields, ARRAY_LEN(fields));
}
