#include "cli/limits.h"

#include <string.h>

#include "base/error.h"
#include "cli/sandbox.h"

#define USAGE_PATH "/api/cay/usage"

static void put_counts(struct jsonw *w, const struct limit_options *o) {
    const struct {
        const char *name;
        int64_t count;
    } counts[] = {{"maxSandboxes", o->max_sandboxes},
                  {"maxVolumes", o->max_volumes},
                  {"maxPids", o->pids},
                  {"maxCommands", o->max_commands},
                  {"maxPythonRuns", o->max_python_runs},
                  {"maxPulls", o->max_pulls},
                  {"maxBuilds", o->max_builds},
                  {"maxConnections", o->max_connections},
                  {"maxProxyConnections", o->max_proxy_connections},
                  {"maxEventViewers", o->max_event_viewers},
                  {"maxWaiting", o->max_waiting}};
    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        if (counts[i].count > 0)
            jsonw_put_integer(w, counts[i].name, counts[i].count);
}

void limits_put(struct jsonw *w, const struct limit_options *o) {
    put_counts(w, o);
    if (o->memory > 0)
        jsonw_put_unsigned(w, "maxMemory", o->memory);
    if (o->disk > 0)
        jsonw_put_unsigned(w, "maxDisk", o->disk);
    if (o->cpus > 0)
        jsonw_put_number(w, "maxCpus", o->cpus);
}

/* ---- usage ---- */

enum { USAGE_COLUMNS = 4 };

struct usage_texts {
    char used[32], limit[32], left[32];
};

/* Bytes for people; what is not bounded is empty. */
static const char *amount(struct reply *t, size_t row, const char *name, char out[static 32]) {
    const char *text = reply_text(t, row, name);
    bool is_size = strcmp(reply_text(t, row, "unit"), "bytes") == 0;
    return is_size && text[0] != '\0' ? str_bytes(reply_unsigned(t, row, name), out) : text;
}

static int print_usage(struct reply *t) {
    static const char *const titles[USAGE_COLUMNS] = {"WHAT", "USED", "LIMIT", "LEFT"};
    struct cay_error err;
    _cleanup_(freep) const char **cell = calloc((t->rows + 1) * USAGE_COLUMNS, sizeof *cell);
    _cleanup_(freep) struct usage_texts *own = calloc(t->rows + 1, sizeof *own);
    if (cell == NULL || own == NULL) {
        error_set(&err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return verb_fail(&err);
    }
    memcpy(cell, titles, sizeof titles);
    for (size_t i = 0; i < t->rows; i++) {
        const char **at = cell + (i + 1) * USAGE_COLUMNS;
        at[0] = reply_text(t, i, "name");
        at[1] = amount(t, i, "used", own[i].used);
        at[2] = amount(t, i, "limit", own[i].limit);
        at[3] = amount(t, i, "left", own[i].left);
    }
    _cleanup_(buf_free) struct buf b = BUF_INIT(DAEMON_ANSWER_MAX);
    sandbox_put_columns(&b, cell, t->rows + 1, USAGE_COLUMNS);
    return verb_print(&b);
}

int limits_print_usage(const struct verb_common *common, const char *query, const char *who) {
    char path[64] = USAGE_PATH;
    (void)snprintf(path, sizeof path, USAGE_PATH "%s", who != NULL ? query : "");
    const struct sandbox_request req = {.method = "GET", .before = path, .who = who};
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(common);
    _cleanup_(reply_free) struct reply t = {0};
    if (sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    if (common->output == OUTPUT_JSON)
        return sandbox_ask(&v, &req) < 0 ? sandbox_fail(&v) : verb_print(&v.answer);
    return sandbox_query_list(&v, &req, &t) < 0 ? sandbox_fail(&v) : print_usage(&t);
}
