#include "remote/far_shape.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "remote/far_read.h"

enum { GIB = 1024 * 1024 * 1024 };

static const struct json nothing = {.key = ""};

static uint64_t gib(const struct json *at, const char *key) {
    double n = far_number(at, key, 0);
    return n > 0 && n < 1e6 ? (uint64_t)(n * GIB) : 0;
}

static void put_time(struct sheet *s, const char *name, const struct json *at) {
    int64_t ms = 0;
    (void)clock_from_iso8601(far_string(at, name, ""), &ms); /* 0 if it is none */
    sheet_optional_time(s, name, ms);
}

static void put_pairs(struct sheet *s, const char *name, const struct json *at) {
    _cleanup_(strv_free) struct strv pairs = {0};
    (void)far_pairs(at, name, &pairs); /* those that fit */
    sheet_pairs(s, name, &pairs);
}

/* The snapshot, or the image of the line "FROM image" that it was built from. */
static void put_image(struct sheet *s, const struct json *at) {
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
    sheet_string(s, "image", image);
}

static void put_intervals(struct sheet *s, const struct json *at) {
    sheet_integer(s, "autoStopInterval", far_integer(at, "autoStopInterval", 0));
    sheet_integer(s, "autoArchiveInterval", far_integer(at, "autoArchiveInterval", 0));
    sheet_integer(s, "archiveSize", 0);
    sheet_integer(s, "autoDeleteInterval", far_integer(at, "autoDeleteInterval", -1));
}

static void write_sandbox(struct sheet *s, const void *row) {
    const struct json *at = row;
    sheet_string(s, "id", far_string(at, "id", ""));
    sheet_string(s, "name", far_string(at, "name", far_string(at, "id", "")));
    sheet_string(s, "state", far_string(at, "state", "unknown"));
    put_image(s, at);
    sheet_string(s, "user", far_string(at, "user", ""));
    sheet_string(s, "workDir", "");
    sheet_unsigned(s, "memory", gib(at, "memory"));
    sheet_number(s, "cpus", far_number(at, "cpu", 0));
    sheet_unsigned(s, "disk", gib(at, "disk"));
    sheet_unsigned(s, "pids", 0);
    put_pairs(s, "labels", at);
    if (!s->is_tsv)
        put_pairs(s, "env", at);
    put_time(s, "createdAt", at);
    put_time(s, "updatedAt", at);
    put_time(s, "lastActivityAt", at);
    put_intervals(s, at);
    sheet_string(s, "onFailure", "");
    sheet_string(s, "engine", "");
    sheet_string(s, "tier", "");
    sheet_string(s, "profile", "");
    sheet_optional(s, "progress", "");
    sheet_optional(s, "errorReason", far_string(at, "errorReason", ""));
    sheet_optional(s, "errorRemedy", "");
}

const struct sheet_kind far_shape_sandbox = {write_sandbox, sizeof(struct json), &nothing};

static void write_volume(struct sheet *s, const void *row) {
    const struct json *at = row;
    sheet_string(s, "id", far_string(at, "id", ""));
    sheet_string(s, "name", far_string(at, "name", ""));
    sheet_string(s, "organizationId", far_string(at, "organizationId", ""));
    sheet_string(s, "state", far_string(at, "state", "unknown"));
    put_time(s, "createdAt", at);
    put_time(s, "updatedAt", at);
    sheet_optional(s, "errorReason", far_string(at, "errorReason", ""));
}

const struct sheet_kind far_shape_volume = {write_volume, sizeof(struct json), &nothing};

static uint64_t count(const struct json *at, const char *key) {
    double n = far_number(at, key, 0);
    return n > 0 && n < 1e18 ? (uint64_t)n : 0;
}

/* What the protocol does not tell is 0. */
static void write_stats(struct sheet *s, const void *row) {
    const struct json *at = row;
    sheet_unsigned(s, "memoryBytes", count(at, "memUsed"));
    sheet_unsigned(s, "memoryLimit", count(at, "memTotal"));
    sheet_unsigned(s, "memoryPeak", 0);
    sheet_unsigned(s, "cpuMicros", 0);
    sheet_unsigned(s, "pids", 0);
    sheet_unsigned(s, "oomKills", 0);
    sheet_integer(s, "oomAgeMs", -1);
    sheet_unsigned(s, "diskBytes", count(at, "diskUsed"));
    sheet_unsigned(s, "diskLimit", count(at, "diskTotal"));
}

const struct sheet_kind far_shape_stats = {write_stats, sizeof(struct json), &nothing};

static const struct far_totals no_totals = {.version = ""};

static void write_status(struct sheet *s, const void *row) {
    const struct far_totals *t = row;
    sheet_string(s, "version", t->version);
    sheet_unsigned(s, "sandboxes", t->sandboxes);
    sheet_unsigned(s, "started", t->started);
    sheet_unsigned(s, "operations", 0);
    sheet_integer(s, "limit", 0);
    sheet_bool(s, "shuttingDown", false);
    sheet_unsigned(s, "poolSize", 0);
    sheet_unsigned(s, "poolTarget", 0);
    sheet_unsigned(s, "poolHits", 0);
    sheet_unsigned(s, "poolMisses", 0);
}

const struct sheet_kind far_shape_status = {write_status, sizeof(struct far_totals), &no_totals};
