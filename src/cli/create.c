/* `cay create`: a sandbox that stays. */
#include <string.h>

#include "base/error.h"
#include "base/jsonw.h"
#include "cli/cli.h"
#include "cli/sandbox.h"

enum { MINUTE_MS = 60 * 1000, BODY_MAX = 16 * 1024 * 1024 };

struct create_options {
    struct verb_common common;
    const char *image, *name, *workdir, *user;
    uint64_t memory, disk;
    double cpus;
    int64_t pids, auto_stop_ms, auto_delete_ms; /* -1: as configured */
    struct strv env, volumes, labels;
    int tier, profile; /* 0: as the daemon likes */
    bool read_only;
};

static const char *const tiers[] = {"auto", "full", "rootless", "basic", NULL};
static const char *const profiles[] = {"strict", "build", NULL};

static const struct opt options[] = {
    {.name = "image",
     OPT_TO_STRING(struct create_options, image),
     .arg = "IMAGE",
     .help = "what it starts from; 'host' is the machine's /usr, read-only"},
    {.letter = 'n',
     .name = "name",
     OPT_TO_STRING(struct create_options, name),
     .arg = "NAME",
     .help = "name and hostname (its id)"},
    {.letter = 'm',
     .name = "memory",
     OPT_TO_SIZE(struct create_options, memory),
     .arg = "SIZE",
     .help = "memory limit (512m)"},
    {.name = "cpus",
     OPT_TO_NUMBER(struct create_options, cpus),
     .arg = "N",
     .min = 0.01,
     .max = 4096,
     .help = "processor limit (1.0)"},
    {.name = "pids",
     OPT_TO_INTEGER(struct create_options, pids),
     .arg = "N",
     .min = 1,
     .max = 4194304,
     .help = "limit of processes and threads (256)"},
    {.name = "disk",
     OPT_TO_SIZE(struct create_options, disk),
     .arg = "SIZE",
     .help = "limit of written files (5g)"},
    {.letter = 'e',
     .name = "env",
     OPT_TO_STRINGS(struct create_options, env),
     .arg = "KEY=VALUE",
     .help = "an environment variable of every command"},
    {.letter = 'l',
     .name = "label",
     OPT_TO_STRINGS(struct create_options, labels),
     .arg = "KEY=VALUE",
     .help = "a label, to find it by"},
    {.letter = 'v',
     .name = "volume",
     OPT_TO_STRINGS(struct create_options, volumes),
     .arg = "HOST:BOX[:ro]",
     .help = "show a folder or file of the daemon's host inside"},
    {.letter = 'w',
     .name = "workdir",
     OPT_TO_STRING(struct create_options, workdir),
     .arg = "DIR",
     .help = "where commands start (/workspace)"},
    {.letter = 'u',
     .name = "user",
     OPT_TO_STRING(struct create_options, user),
     .arg = "USER[:GROUP]",
     .help = "who runs commands inside (root)"},
    {.name = "read-only",
     OPT_TO_FLAG(struct create_options, read_only),
     .help = "nothing can be written but /workspace, /tmp, /run and writable volumes"},
    {.name = "profile",
     OPT_TO_CHOICE(struct create_options, profile),
     .arg = "PROFILE",
     .choices = profiles,
     .help = "strict: no capability; build: rights over files that package managers need"},
    {.name = "tier",
     OPT_TO_CHOICE(struct create_options, tier),
     .arg = "TIER",
     .choices = tiers,
     .help = "accept no less isolation than this; see 'cay doctor'"},
    {.name = "auto-stop",
     OPT_TO_DURATION(struct create_options, auto_stop_ms),
     .arg = "TIME",
     .help = "stop it when nothing was done for this long, 0 for never (15m)"},
    {.name = "auto-delete",
     OPT_TO_DURATION(struct create_options, auto_delete_ms),
     .arg = "TIME",
     .help = "remove it when it was stopped for this long (never)"},
    {0},
};

/* ---- the request ---- */

static int check_pairs(const struct strv *pairs, const char *flag, struct cay_error *err) {
    for (size_t i = 0; i < pairs->len; i++) {
        char shown[64];
        if (strchr(pairs->v[i], '=') != NULL && pairs->v[i][0] != '=')
            continue;
        error_set(err, CAY_INVALID_ARGUMENT, "%s '%s' has no '='", flag,
                  str_escape(shown, sizeof shown, pairs->v[i]));
        return error_remedy(err, "write %s KEY=VALUE", flag);
    }
    return 0;
}

/* True if a later pair has the same key: that one counts. */
static bool is_overridden(const struct strv *pairs, size_t at) {
    size_t len = strcspn(pairs->v[at], "=") + 1;
    for (size_t i = at + 1; i < pairs->len; i++)
        if (strncmp(pairs->v[i], pairs->v[at], len) == 0)
            return true;
    return false;
}

static void put_pairs(struct jsonw *w, const char *key, const struct strv *pairs) {
    if (pairs->len == 0)
        return;
    jsonw_key(w, key);
    jsonw_begin_object(w);
    for (size_t i = 0; i < pairs->len; i++) {
        char *equals = strchr(pairs->v[i], '=');
        if (is_overridden(pairs, i))
            continue;
        *equals = '\0';
        jsonw_put_string(w, pairs->v[i], equals + 1);
        *equals = '=';
    }
    jsonw_end_object(w);
}

static void put_text(struct jsonw *w, const char *key, const char *text) {
    if (text != NULL)
        jsonw_put_string(w, key, text);
}

static void put_count(struct jsonw *w, const char *key, uint64_t n) {
    if (n != 0)
        jsonw_put_unsigned(w, key, n);
}

/* Less than a minute is a minute: 0 means never. */
static void put_minutes(struct jsonw *w, const char *key, int64_t ms) {
    if (ms >= 0)
        jsonw_put_integer(w, key, (ms + MINUTE_MS - 1) / MINUTE_MS);
}

static void put_limits(struct jsonw *w, const struct create_options *o) {
    put_count(w, "memory", o->memory);
    put_count(w, "disk", o->disk);
    put_count(w, "pids", (uint64_t)o->pids);
    if (o->cpus > 0)
        jsonw_put_number(w, "cpus", o->cpus);
    put_minutes(w, "autoStopInterval", o->auto_stop_ms);
    put_minutes(w, "autoDeleteInterval", o->auto_delete_ms);
}

static void put_volumes(struct jsonw *w, const struct strv *volumes) {
    if (volumes->len == 0)
        return;
    jsonw_key(w, "volumes");
    jsonw_begin_array(w);
    for (size_t i = 0; i < volumes->len; i++)
        jsonw_string(w, volumes->v[i]);
    jsonw_end_array(w);
}

static int make_body(const struct create_options *o, struct buf *b, struct cay_error *err) {
    int r = check_pairs(&o->env, "--env", err);
    if (r == 0)
        r = check_pairs(&o->labels, "--label", err);
    if (r < 0)
        return r;
    struct jsonw w = JSONW_INIT(b);
    jsonw_begin_object(&w);
    put_text(&w, "name", o->name);
    put_text(&w, "image", o->image);
    put_text(&w, "user", o->user);
    put_text(&w, "workDir", o->workdir);
    put_text(&w, "tier", o->tier > 0 ? tiers[o->tier] : NULL);
    put_text(&w, "profile", o->profile > 0 ? profiles[o->profile] : NULL);
    if (o->read_only)
        jsonw_put_bool(&w, "readOnly", true);
    put_limits(&w, o);
    put_pairs(&w, "env", &o->env);
    put_pairs(&w, "labels", &o->labels);
    put_volumes(&w, &o->volumes);
    jsonw_end_object(&w);
    return jsonw_finish(&w) < 0 ? error_set(err, CAY_INVALID_ARGUMENT, "the request is too large")
                                : 0;
}

/* ---- the verb ---- */

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc, (void)argv;
    const struct create_options *o = values;
    _cleanup_(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(&o->common);
    const struct sandbox_request req = {
        .method = "POST", .before = "/api/sandbox", .body = &body, .progress = true};
    if (make_body(o, &body, &v.err) < 0 || sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    return sandbox_ask(&v, &req) < 0 ? sandbox_fail(&v) : sandbox_tell(&v);
}

static const struct create_options defaults = {.auto_stop_ms = -1, .auto_delete_ms = -1};

const struct opt_command cli_create = {
    .name = "create",
    .path = "cay create",
    .synopsis = "[OPTIONS]",
    .summary = "make a sandbox that stays, and start it",
    .help = "Prints its name; with --quiet its id. It lives on until 'cay rm', whatever happens to "
            "this program or to the daemon. An image that is not here is pulled.",
    .examples = "cay create --name web --image python:3.12-slim --memory 1g\n"
                "cay exec web -- python3 --version\n"
                "cay create -v \"$PWD\":/workspace --auto-stop 1h\n",
    .group = CLI_SANDBOXES,
    .options = options,
    .values_size = sizeof(struct create_options),
    .defaults = &defaults,
    .run = run,
};
