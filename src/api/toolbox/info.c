/* What a sandbox says about itself, and its environment. */
#include <cay.h>
#include <limits.h>
#include <poll.h>
#include <string.h>

#include "api/toolbox/command.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"

enum { CPU_PERIOD_US = 100 * 1000, WINDOW_MS = 100 };

/* ---- folders ---- */

static void answer_dir(struct call *c, const char *dir) {
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "dir", dir);
    jsonw_end_object(&w);
}

static int work_dir(struct call *c, struct cay_error *err) {
    struct sandbox_record r = {0};
    int code = manager_get(c->manager, c->who, &r, err);
    if (code == 0)
        answer_dir(c, r.work_dir[0] != '\0' ? r.work_dir : "/");
    sandbox_record_free(&r);
    return code;
}

/* Only the inside knows it: it is in its own list of users. */
static int home_dir(struct call *c, struct cay_error *err) {
    static const char *const argv[] = {"/bin/sh", "-c", "printf %s \"$HOME\"", NULL};
    const struct toolbox_command command = {.argv = argv, .cwd = "/", .timeout_ms = 10 * 1000};
    _cleanup_(toolbox_output_free) struct toolbox_output out = TOOLBOX_OUTPUT_INIT;
    struct exec_outcome outcome;
    out.all.max = PATH_MAX;
    int r = toolbox_run(c, &command, &out, &outcome, err);
    if (r < 0)
        return r;
    const char *dir = buf_text(&out.all);
    answer_dir(c, outcome.exit_code == 0 && dir[0] == '/' ? dir : "/");
    return 0;
}

/* ---- version ---- */

static int version(struct call *c, struct cay_error *err) {
    (void)err;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "version", cay_version());
    jsonw_end_object(&w);
    return 0;
}

/* ---- figures ---- */

struct figures {
    struct engine_stats stats;
    double cpu_percent; /* of what it may use */
    uint32_t quota_us;
};

/* What was used in a short while is what is being used. */
static int measure(struct call *c, struct figures *ret, struct cay_error *err) {
    struct engine_stats before = {0};
    struct sandbox_record record = {0};
    int r = manager_get(c->manager, c->who, &record, err);
    ret->quota_us = record.cpu_quota_us;
    sandbox_record_free(&record);
    if (r == 0)
        r = manager_stats(c->manager, c->who, &before, err);
    if (r < 0)
        return r;
    int64_t began = clock_us();
    (void)poll(NULL, 0, WINDOW_MS);
    r = manager_stats(c->manager, c->who, &ret->stats, err);
    int64_t passed = clock_us() - began;
    if (r < 0 || ret->quota_us == 0 || passed <= 0 || ret->stats.cpu_us < before.cpu_us)
        return r;
    double used = (double)(ret->stats.cpu_us - before.cpu_us) / (double)passed;
    ret->cpu_percent = 100.0 * used * CPU_PERIOD_US / (double)ret->quota_us;
    return 0;
}

static void put_figures(struct jsonw *w, const struct figures *f) {
    const struct engine_stats *s = &f->stats;
    char now[32];
    int64_t wall_ms = clock_wall_ms();
    uint64_t used = MIN(s->disk_bytes, s->disk_limit);
    jsonw_begin_object(w);
    jsonw_put_integer(w, "cpuCount", (f->quota_us + CPU_PERIOD_US - 1) / CPU_PERIOD_US);
    jsonw_put_number(w, "cpuUsedPct", f->cpu_percent);
    jsonw_put_unsigned(w, "memTotal", s->memory_limit);
    jsonw_put_unsigned(w, "memUsed", s->memory_bytes);
    jsonw_put_unsigned(w, "memCache", 0);
    jsonw_put_unsigned(w, "diskTotal", s->disk_limit);
    jsonw_put_unsigned(w, "diskUsed", s->disk_bytes);
    jsonw_put_unsigned(w, "diskFree", s->disk_limit - used);
    jsonw_put_string(w, "timestamp", clock_iso8601(wall_ms, now));
    jsonw_put_integer(w, "timestampUnix", wall_ms / 1000);
    jsonw_end_object(w);
}

static int metrics(struct call *c, struct cay_error *err) {
    struct figures f = {0};
    int r = measure(c, &f, err);
    if (r < 0)
        return r;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    put_figures(&w, &f);
    return 0;
}

/* ---- environment ---- */

static int read_unset(const struct json *root, struct strv *ret, struct cay_error *err) {
    struct json list, one;
    int r = json_get_array(root, "unset", JSON_OPTIONAL, &list, err);
    for (size_t i = 0; r == 0 && list.value != NULL && json_item(&list, i, &one); i++) {
        const char *name = "";
        r = json_as_string(&one, &name, err);
        if (r == 0 && strv_push(ret, name) < 0)
            r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    return r;
}

/* Variables whose value begins so go too, unless they are set anew. */
static int add_by_value(const struct call *c, const char *prefix, struct strv *unset,
                        struct cay_error *err) {
    struct sandbox_record record = {0};
    int r = prefix == NULL || prefix[0] == '\0' ? 0 : manager_get(c->manager, c->who, &record, err);
    for (size_t i = 0; r == 0 && i < record.env.len; i++) {
        const char *entry = record.env.v[i], *value = strchr(entry, '=');
        if (value != NULL && str_starts(value + 1, prefix) &&
            strv_pushf(unset, "%.*s", (int)(value - entry), entry) < 0)
            r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    sandbox_record_free(&record);
    return r;
}

static int change_env(struct call *c, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    _cleanup_(strv_free) struct strv set = {0};
    _cleanup_(strv_free) struct strv unset = {0};
    const char *prefix = NULL;
    int r = json_parse("request body", buf_text(&c->body), c->body.len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = toolbox_read_env(&root, "set", &set, err);
    if (r == 0)
        r = read_unset(&root, &unset, err);
    if (r == 0)
        r = json_get_string(&root, "unsetValuePrefix", JSON_OPTIONAL, &prefix, err);
    if (r == 0)
        r = add_by_value(c, prefix, &unset, err);
    if (r == 0)
        r = manager_change_env(c->manager, c->who, &set, &unset, err);
    if (r < 0)
        return r;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "message", "the environment is changed for what begins from now on");
    jsonw_end_object(&w);
    return 0;
}

static const struct route routes[] = {
    {"GET", "/toolbox/{who}/user-home-dir", home_dir, NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/work-dir", work_dir, NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/project-dir", work_dir, NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/version", version, NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/system/metrics", metrics, NEED_SANDBOXES},
    {"POST", "/toolbox/{who}/env", change_env, NEED_SANDBOXES},
};
const struct route_table toolbox_info_routes = {routes, ARRAY_LEN(routes)};
