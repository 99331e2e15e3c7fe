#include "remote/far_shape.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "remote/far_read.h"

enum { GIB = 1024 * 1024 * 1024 };

static uint64_t gib(const struct json *at, const char *key) {
    double n = far_number(at, key, 0);
    return n > 0 && n < 1e6 ? (uint64_t)(n * GIB) : 0;
}

static void put_time(struct jsonw *w, const char *name, const struct json *at) {
    int64_t ms = 0;
    (void)clock_from_iso8601(far_string(at, name, ""), &ms); /* 0 if it is none */
    jsonw_put_optional_time(w, name, ms);
}

static void put_pairs(struct jsonw *w, const char *name, const struct json *at) {
    _cleanup_(strv_free) struct strv pairs = {0};
    (void)far_pairs(at, name, &pairs); /* those that fit */
    jsonw_put_pairs(w, name, &pairs);
}

/* The snapshot, or the image of the line "FROM image" that it was built from. */
static void put_image(struct jsonw *w, const struct json *at) {
    struct json build = {0};
    const char *image = far_string(at, "snapshot", "");
    (void)json_get_object(at, "buildInfo", JSON_OPTIONAL, &build, NULL);
    const char *recipe = build.value != NULL ? far_string(&build, "dockerfileContent", "") : "";
    char name[256];
    if (image[0] == '\0' && str_starts(recipe, "FROM ")) {
        (void)snprintf(name, sizeof name, "%.*s", (int)MIN(strcspn(recipe + 5, "\r\n"), 255u),
                       recipe + 5);
        image = name;
    }
    jsonw_put_string(w, "image", image);
}

static void put_intervals(struct jsonw *w, const struct json *at) {
    jsonw_put_integer(w, "autoStopInterval", far_integer(at, "autoStopInterval", 0));
    jsonw_put_integer(w, "autoArchiveInterval", far_integer(at, "autoArchiveInterval", 0));
    jsonw_put_integer(w, "archiveSize", 0);
    jsonw_put_integer(w, "autoDeleteInterval", far_integer(at, "autoDeleteInterval", -1));
}

void far_put_sandbox(struct jsonw *w, const void *row) {
    const struct json *at = row;
    jsonw_put_string(w, "id", far_string(at, "id", ""));
    jsonw_put_string(w, "name", far_string(at, "name", far_string(at, "id", "")));
    jsonw_put_string(w, "state", far_string(at, "state", "unknown"));
    put_image(w, at);
    jsonw_put_string(w, "user", far_string(at, "user", ""));
    jsonw_put_string(w, "workDir", "");
    jsonw_put_unsigned(w, "memory", gib(at, "memory"));
    jsonw_put_number(w, "cpus", far_number(at, "cpu", 0));
    jsonw_put_unsigned(w, "disk", gib(at, "disk"));
    jsonw_put_unsigned(w, "pids", 0);
    put_pairs(w, "labels", at);
    put_pairs(w, "env", at);
    put_time(w, "createdAt", at);
    put_time(w, "updatedAt", at);
    put_time(w, "lastActivityAt", at);
    put_intervals(w, at);
    jsonw_put_string(w, "onFailure", "");
    jsonw_put_string(w, "engine", "");
    jsonw_put_string(w, "tier", "");
    jsonw_put_string(w, "profile", "");
    jsonw_put_optional(w, "progress", "");
    jsonw_put_optional(w, "errorReason", far_string(at, "errorReason", ""));
    jsonw_put_optional(w, "errorRemedy", "");
}

void far_put_volume(struct jsonw *w, const void *row) {
    const struct json *at = row;
    jsonw_put_string(w, "id", far_string(at, "id", ""));
    jsonw_put_string(w, "name", far_string(at, "name", ""));
    jsonw_put_string(w, "organizationId", far_string(at, "organizationId", ""));
    jsonw_put_string(w, "state", far_string(at, "state", "unknown"));
    put_time(w, "createdAt", at);
    put_time(w, "updatedAt", at);
    jsonw_put_optional(w, "errorReason", far_string(at, "errorReason", ""));
}

static uint64_t count(const struct json *at, const char *key) {
    double n = far_number(at, key, 0);
    return n > 0 && n < 1e18 ? (uint64_t)n : 0;
}

/* What the protocol does not tell is 0. */
void far_put_stats(struct jsonw *w, const void *row) {
    const struct json *at = row;
    jsonw_put_unsigned(w, "memoryBytes", count(at, "memUsed"));
    jsonw_put_unsigned(w, "memoryLimit", count(at, "memTotal"));
    jsonw_put_unsigned(w, "memoryPeak", 0);
    jsonw_put_unsigned(w, "cpuMicros", 0);
    jsonw_put_unsigned(w, "pids", 0);
    jsonw_put_unsigned(w, "oomKills", 0);
    jsonw_put_integer(w, "oomAgeMs", -1);
    jsonw_put_unsigned(w, "diskBytes", count(at, "diskUsed"));
    jsonw_put_unsigned(w, "diskLimit", count(at, "diskTotal"));
}

void far_put_status(struct jsonw *w, const void *row) {
    const struct far_totals *t = row;
    jsonw_put_string(w, "version", t->version);
    jsonw_put_unsigned(w, "sandboxes", t->sandboxes);
    jsonw_put_unsigned(w, "started", t->started);
    jsonw_put_unsigned(w, "operations", 0);
    jsonw_put_integer(w, "limit", 0);
    jsonw_put_bool(w, "shuttingDown", false);
    jsonw_put_unsigned(w, "poolSize", 0);
    jsonw_put_unsigned(w, "poolTarget", 0);
    jsonw_put_unsigned(w, "poolHits", 0);
    jsonw_put_unsigned(w, "poolMisses", 0);
}
