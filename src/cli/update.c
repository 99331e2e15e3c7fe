/* `cay update`: limits, intervals and labels of sandboxes that are there. */
#include <string.h>

#include "base/error.h"
#include "base/json/jsonw.h"
#include "cli/cli.h"
#include "cli/sandbox.h"

enum { MINUTE_MS = 60 * 1000, BODY_MAX = 1024 * 1024 };

struct update_options {
    struct verb_common common;
    uint64_t memory, disk;
    double cpus;
    int64_t pids;
    const char *network;
    const char *auto_stop, *auto_archive, *auto_delete; /* TIME, or "never" */
    struct strv labels;
    int on_failure; /* 0: as it is */
};

static const char *const policies[] = {"same", "keep", "recreate", "remove", NULL};

static const struct opt options[] = {
    {.letter = 'm',
     .name = "memory",
     OPT_TO_SIZE(struct update_options, memory),
     .arg = "SIZE",
     .help = "memory limit"},
    {.name = "cpus",
     OPT_TO_NUMBER(struct update_options, cpus),
     .arg = "N",
     .min = 0.01,
     .max = 4096,
     .help = "processor limit"},
    {.name = "pids",
     OPT_TO_INTEGER(struct update_options, pids),
     .arg = "N",
     .min = 1,
     .max = 4194304,
     .help = "limit of processes and threads"},
    {.name = "disk",
     OPT_TO_SIZE(struct update_options, disk),
     .arg = "SIZE",
     .help = "limit of written files; it can only grow"},
    {.name = "network",
     OPT_TO_STRING(struct update_options, network),
     .arg = "MODE",
     .help = "what it reaches: none, or allow=LIST; what is open now is cut"},
    {.letter = 'l',
     .name = "label",
     OPT_TO_STRINGS(struct update_options, labels),
     .arg = "KEY=VALUE|KEY-",
     .help = "set a label, or take it away"},
    {.name = "auto-stop",
     OPT_TO_STRING(struct update_options, auto_stop),
     .arg = "TIME",
     .help = "stop it when nothing was done for this long, or never"},
    {.name = "auto-archive",
     OPT_TO_STRING(struct update_options, auto_archive),
     .arg = "TIME",
     .help = "archive it when it was stopped for this long, or never"},
    {.name = "auto-delete",
     OPT_TO_STRING(struct update_options, auto_delete),
     .arg = "TIME",
     .help = "remove it when it was stopped for this long, 0 for at once, or never"},
    {.name = "on-failure",
     OPT_TO_CHOICE(struct update_options, on_failure),
     .arg = "POLICY",
     .choices = policies,
     .help = "what is done if it ends unasked"},
    {0},
};

/* ---- the request ---- */

static int put_label(struct jsonw *w, const char *text, struct cay_error *err) {
    char key[256];
    size_t len = strcspn(text, "=");
    bool removes = text[len] == '\0' && len > 1 && text[len - 1] == '-';
    if (len == 0 || len >= sizeof key || (text[len] == '\0' && !removes)) {
        char shown[64];
        error_set(err, CAY_INVALID_ARGUMENT, "--label '%s' is neither KEY=VALUE nor KEY-",
                  str_escape(shown, sizeof shown, text));
        return error_remedy(err, "write KEY=VALUE to set it, KEY- to take it away");
    }
    memcpy(key, text, len);
    key[removes ? len - 1 : len] = '\0';
    if (removes) {
        jsonw_key(w, key);
        jsonw_null(w);
    } else {
        jsonw_put_string(w, key, text + len + 1);
    }
    return 0;
}

static int put_labels(struct jsonw *w, const struct strv *labels, struct cay_error *err) {
    int r = 0;
    if (labels->len == 0)
        return 0;
    jsonw_key(w, "labels");
    jsonw_begin_object(w);
    for (size_t i = 0; r == 0 && i < labels->len; i++)
        r = put_label(w, labels->v[i], err);
    jsonw_end_object(w);
    return r;
}

/* Less than a minute is a minute. */
static int put_interval(struct jsonw *w, const char *flag, const char *key, const char *text,
                        int64_t never, struct cay_error *err) {
    int64_t ms = 0;
    if (text == NULL)
        return 0;
    if (strcmp(text, "never") == 0) {
        jsonw_put_integer(w, key, never);
        return 0;
    }
    int r = str_to_duration(flag, text, &ms, err);
    if (r == 0)
        jsonw_put_integer(w, key, ms / MINUTE_MS + (ms % MINUTE_MS != 0));
    return r;
}

static int put_intervals(struct jsonw *w, const struct update_options *o, struct cay_error *err) {
    int r = put_interval(w, "--auto-stop", "autoStopInterval", o->auto_stop, 0, err);
    if (r == 0)
        r = put_interval(w, "--auto-archive", "autoArchiveInterval", o->auto_archive, 0, err);
    return r < 0 ? r
                 : put_interval(w, "--auto-delete", "autoDeleteInterval", o->auto_delete, -1, err);
}

static void put_limits(struct jsonw *w, const struct update_options *o) {
    if (o->memory != 0)
        jsonw_put_unsigned(w, "memory", o->memory);
    if (o->disk != 0)
        jsonw_put_unsigned(w, "disk", o->disk);
    if (o->pids != 0)
        jsonw_put_integer(w, "pids", o->pids);
    if (o->cpus > 0)
        jsonw_put_number(w, "cpus", o->cpus);
    if (o->network != NULL)
        jsonw_put_string(w, "network", o->network);
    if (o->on_failure > 0)
        jsonw_put_string(w, "onFailure", policies[o->on_failure]);
}

static int make_body(const struct update_options *o, struct buf *body, struct cay_error *err) {
    struct jsonw w = JSONW_INIT(body);
    jsonw_begin_object(&w);
    put_limits(&w, o);
    int r = put_intervals(&w, o, err);
    if (r == 0)
        r = put_labels(&w, &o->labels, err);
    jsonw_end_object(&w);
    if (r < 0)
        return r;
    if (body->len <= 2) {
        error_set(err, CAY_INVALID_ARGUMENT, "nothing to change was given");
        return error_remedy(err, "say what, such as --memory 1g; see 'cay update --help'");
    }
    return jsonw_finish(&w) < 0 ? error_set(err, CAY_INVALID_ARGUMENT, "the request is too large")
                                : 0;
}

/* ---- the verb ---- */

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    const struct update_options *o = values;
    struct cay_error err = {0};
    _cleanup_(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    if (make_body(o, &body, &err) < 0)
        return verb_fail(&err);
    const struct sandbox_request req = {
        .method = "POST", .before = "/api/cay/sandbox/", .after = "/update", .body = &body};
    return sandbox_each(&o->common, &req, argc, argv);
}

static const char *const aliases[] = {"resize", NULL};

const struct opt_command cli_update = {
    .name = "update",
    .aliases = aliases,
    .path = "cay update",
    .synopsis = "[OPTIONS] SANDBOX...",
    .summary = "change limits, intervals and labels of sandboxes",
    .help = "Limits of a sandbox that runs change at once. Either all that was asked for is "
            "changed, or nothing. A disk can only grow.",
    .examples = "cay update web --memory 1g --cpus 2\n"
                "cay update web --auto-stop never --label team=a --label old-\n",
    .group = CLI_SANDBOXES,
    .options = options,
    .candidates = CLI_CANDIDATES,
    .min_operands = 1,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct update_options),
    .run = run,
};
