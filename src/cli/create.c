/* `cay create`: a sandbox that stays. */
#include "client/create.h"
#include "config/config.h"
#include <unistd.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/env.h"
#include "cli/habits.h"
#include "cli/paths.h"
#include "cli/sandbox.h"
#include "engine/engines.h"

enum { MINUTE_MS = 60 * 1000 };

struct create_options {
    struct verb_common common;
    const char *image, *name, *network, *workdir, *user;
    uint64_t memory, disk;
    double cpus;
    int64_t pids, auto_stop_ms, auto_archive_ms, auto_delete_ms; /* -1: as configured */
    struct strv env, env_files, volumes, labels;
    int engine, tier, profile, on_failure; /* 0: as the daemon likes */
    bool read_only, wait;
};

static const char *const tiers[] = {"auto", "full", "rootless", "basic", NULL};
static const char *const engines[] = {"default", ENGINE_LIST(ENGINE_NAME) NULL};
static const char *const profiles[] = {"strict", "build", NULL};
static const char *const policies[] = {"default", "keep", "recreate", "remove", NULL};

static const struct opt options[] = {
    {.name = "image",
     OPT_TO_STRING(struct create_options, image),
     .arg = "IMAGE",
     .help = "what it starts from; 'host' is the machine's /usr, read-only"},
    {.letter = 'n',
     .name = "name",
     OPT_TO_STRING(struct create_options, name),
     .arg = "NAME",
     .help = "its name (its id, which its hostname always is)"},
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
    {.name = "network",
     OPT_TO_STRING(struct create_options, network),
     .arg = "MODE",
     .help = "none: loopback only; allow=LIST: what is listed, through a proxy; bridge: "
             "everything public, with engine " ENGINE_BRIDGE " (none)"},
    {.letter = 'e',
     .name = "env",
     OPT_TO_STRINGS(struct create_options, env),
     .arg = "KEY[=VALUE]",
     .help = "an environment variable of every command; without a value, the caller's"},
    {.name = "env-file",
     OPT_TO_STRINGS(struct create_options, env_files),
     .arg = "FILE",
     .help = "read environment variables from a file with lines of KEY=VALUE",
     .complete = OPT_COMPLETE_FILE},
    {.letter = 'l',
     .name = "label",
     OPT_TO_STRINGS(struct create_options, labels),
     .arg = "KEY=VALUE",
     .help = "a label, to find it by"},
    {.letter = 'v',
     .name = "volume",
     OPT_TO_STRINGS(struct create_options, volumes),
     .arg = "HOST:BOX[:ro]",
     .help = "show a folder or file of the daemon's host inside, or the volume of this name"},
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
    {.name = "engine",
     OPT_TO_CHOICE(struct create_options, engine),
     .arg = "ENGINE",
     .choices = engines,
     .help = ENGINE_CHOICES_HELP " (as configured)"},
    {.name = "tier",
     OPT_TO_CHOICE(struct create_options, tier),
     .arg = "TIER",
     .choices = tiers,
     .help = "accept no less isolation than this; see 'cay doctor'"},
    {.name = "auto-stop",
     OPT_TO_DURATION(struct create_options, auto_stop_ms),
     .arg = "TIME",
     .help = "stop it when nothing was done for this long, 0 for never (15m)"},
    {.name = "auto-archive",
     OPT_TO_DURATION(struct create_options, auto_archive_ms),
     .arg = "TIME",
     .help = "archive it when it was stopped for this long, 0 for never (1d)"},
    {.name = "auto-delete",
     OPT_TO_DURATION(struct create_options, auto_delete_ms),
     .arg = "TIME",
     .help = "remove it when it was stopped for this long, 0 for at once (never)"},
    {.name = "on-failure",
     OPT_TO_CHOICE(struct create_options, on_failure),
     .arg = "POLICY",
     .choices = policies,
     .help = "if it ends unasked: keep it in error, recreate it with its files, or remove it"},
    {.name = "wait",
     OPT_TO_FLAG(struct create_options, wait),
     .help = "wait until it runs; --no-wait leaves it in the state creating"},
    {0},
};

/* ---- the request ---- */

/* Less than a minute is a minute: 0 means never. */
static int64_t minutes(int64_t ms) {
    return ms < 0 ? CAY_AS_CONFIGURED : (ms + MINUTE_MS - 1) / MINUTE_MS;
}

static int make_body(const struct create_options *o, struct buf *b, struct cay_error *err) {
    struct cay_create c;
    _cleanup_(strv_free) struct strv env = {0}, volumes = {0};
    int r = env_collect(&o->env_files, &o->env, &env, err);
    if (r == 0)
        r = paths_of_volumes(&o->volumes, &volumes, err);
    if (r < 0)
        return r;
    cay_create_init(&c);
    c.spec.name = o->name;
    c.spec.image = o->image;
    c.spec.user = o->user;
    c.spec.network = o->network;
    c.engine = o->engine > 0 ? engines[o->engine] : NULL;
    c.spec.tier = o->tier > 0 ? tiers[o->tier] : NULL;
    c.spec.profile = o->profile > 0 ? profiles[o->profile] : NULL;
    c.spec.read_only = o->read_only;
    c.spec.memory_bytes = o->memory;
    c.spec.disk_bytes = o->disk;
    c.spec.pids = (uint32_t)o->pids;
    c.spec.cpus = o->cpus;
    c.spec.volumes = (const char *const *)volumes.v;
    c.work_dir = o->workdir;
    c.env = (const char *const *)env.v;
    c.labels = (const char *const *)o->labels.v;
    c.auto_stop_minutes = minutes(o->auto_stop_ms);
    c.auto_archive_minutes = minutes(o->auto_archive_ms);
    c.auto_delete_minutes = minutes(o->auto_delete_ms);
    c.on_failure = o->on_failure > 0 ? policies[o->on_failure] : NULL;
    return create_body(&c, b, err);
}

/* ---- the verb ---- */

/* Who has switched sandboxes off must not believe that this one is none. */
static int check_wanted(const char *path, struct cay_error *err) {
    _cleanup_(config_freep) struct config *config = NULL;
    int r = config_load(path, (const char *const *)environ, &config, err);
    if (r < 0 || config->sandbox.use_sandbox)
        return r;
    error_set(err, CAY_CONFLICT, "sandboxes are switched off: sandbox.use_sandbox is false");
    return error_remedy(err, "set it to true; see 'cay config sandbox.use_sandbox'");
}

/* `cay create NAME` is `cay create --name NAME`. */
static int take_name(struct create_options *o, int argc, char **argv, struct cay_error *err) {
    if (argc == 0)
        return 0;
    if (o->name != NULL) {
        error_set(err, CAY_INVALID_ARGUMENT, "two names: '%.80s' and '%.80s'", o->name, argv[0]);
        return error_remedy(err, "give one, with --name or without");
    }
    if (habits_is_image(argv[0])) {
        error_set(err, CAY_INVALID_ARGUMENT, "'%.80s' looks like an image, not like a name",
                  argv[0]);
        return error_remedy(err, "use --image %.80s, or --name %.80s", argv[0], argv[0]);
    }
    o->name = argv[0];
    return 0;
}

/* Of limits that were asked for and that the tier, which was chosen by hand, does not keep. */
static void report_unkept(const struct create_options *o, const struct sandbox_verb *v) {
    _cleanup_(reply_free) struct reply t = {0};
    if ((o->memory == 0 && o->cpus <= 0) || o->common.output == OUTPUT_JSON ||
        reply_parse(&v->answer, &t, NULL) < 0)
        return;
    const char *what = reply_text(&t, 0, "limitsNotKept");
    if (what[0] != '\0')
        verb_note("this sandbox has no limit of %s", what);
}

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    struct create_options *o = values;
    _cleanup_(buf_free) struct buf body = BUF_INIT(CREATE_BODY_MAX);
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(&o->common);
    const struct sandbox_request req = {.method = "POST",
                                        .before = "/api/cay/sandbox",
                                        .after = o->wait ? NULL : "?wait=false",
                                        .body = &body,
                                        .progress = o->wait};
    if (take_name(o, argc, argv, &v.err) < 0 || check_wanted(o->common.config, &v.err) < 0 ||
        make_body(o, &body, &v.err) < 0 || sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    if (sandbox_ask(&v, &req) < 0)
        return sandbox_fail(&v);
    report_unkept(o, &v);
    return sandbox_report(&v);
}

static const struct create_options defaults = {
    .auto_stop_ms = -1, .auto_archive_ms = -1, .auto_delete_ms = -1, .wait = true};

const struct opt_command cli_create = {
    .name = "create",
    .path = "cay create",
    .synopsis = "[OPTIONS] [NAME]",
    .summary = "make a sandbox that stays, and start it",
    .help = "Prints its name; with --quiet its id. It lives on until 'cay rm', whatever happens to "
            "this program or to the daemon. An image that is not here is pulled.",
    .examples = "cay create --name web --image python:3.12-slim --memory 1g\n"
                "cay exec web -- python3 --version\n"
                "cay create -v \"$PWD\":/workspace --auto-stop 1h\n",
    .group = CLI_SANDBOXES,
    .options = options,
    .habits = habits_options,
    .max_operands = 1,
    .values_size = sizeof(struct create_options),
    .defaults = &defaults,
    .run = run,
};
