/* `cay run`: a command in a throw-away sandbox. */
#include <cay.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/env.h"
#include "cli/fresh.h"
#include "cli/habits.h"
#include "cli/host_exec.h"
#include "cli/paths.h"
#include "cli/session/terminal.h"
#include "config/config.h"
#include "engine/engines.h"
#include "guard/guard.h"

struct run_options {
    struct verb_common common;
    const char *image, *network, *engine, *workdir, *user, *name, *entrypoint;
    uint64_t memory, disk, output_max;
    double cpus;
    int64_t pids, timeout_ms, idle_output_ms;
    struct strv env, env_files, volumes, labels;
    int tier;    /* index into fresh_tiers; 0: by privilege */
    int profile; /* index into profiles */
    int pull;    /* index into fresh_pulls; 0: as configured */
    bool interactive, tty, read_only, timings, guard, rm, no_daemon;
};

static const char *const profiles[] = {"strict", "build", NULL};

static const struct opt options[] = {
    {.name = "image",
     OPT_TO_STRING(struct run_options, image),
     .arg = "IMAGE",
     .help = "image to run; 'host' is this machine's /usr, read-only"},
    {.name = "pull",
     OPT_TO_CHOICE(struct run_options, pull),
     .arg = "WHEN",
     .choices = fresh_pulls,
     .help = "when to ask the image's registry (missing)"},
    {.name = "entrypoint",
     OPT_TO_STRING(struct run_options, entrypoint),
     .arg = "PROGRAM",
     .help = "run this instead of the image's entrypoint and command"},
    {.letter = 'm',
     .name = "memory",
     OPT_TO_SIZE(struct run_options, memory),
     .arg = "SIZE",
     .help = "memory limit, files of the sandbox included (512m)"},
    {.name = "cpus",
     OPT_TO_NUMBER(struct run_options, cpus),
     .arg = "N",
     .min = 0.01,
     .max = 4096,
     .help = "processor limit (1.0)"},
    {.name = "pids",
     OPT_TO_INTEGER(struct run_options, pids),
     .arg = "N",
     .min = 1,
     .max = 4194304,
     .help = "limit of processes and threads (256)"},
    {.name = "disk",
     OPT_TO_SIZE(struct run_options, disk),
     .arg = "SIZE",
     .help = "limit of written files (half of the memory)"},
    {.name = "timeout",
     OPT_TO_DURATION(struct run_options, timeout_ms),
     .arg = "TIME",
     .help = "end the command after this time, 0 for never (300s; never with --tty)"},
    {.name = "idle-output-timeout",
     OPT_TO_DURATION(struct run_options, idle_output_ms),
     .arg = "TIME",
     .help = "end the command when it prints nothing for this long"},
    {.name = "output-max",
     OPT_TO_SIZE(struct run_options, output_max),
     .arg = "SIZE",
     .help = "end the command when it has printed this much"},
    {.name = "network",
     OPT_TO_STRING(struct run_options, network),
     .arg = "MODE",
     .help = "none: loopback only; allow=LIST: what is listed, through a proxy; bridge: "
             "everything public, with engine " ENGINE_BRIDGE " (none)"},
    {.letter = 'e',
     .name = "env",
     OPT_TO_STRINGS(struct run_options, env),
     .arg = "KEY[=VALUE]",
     .help = "set an environment variable; without a value, the caller's"},
    {.name = "env-file",
     OPT_TO_STRINGS(struct run_options, env_files),
     .arg = "FILE",
     .help = "read environment variables from a file with lines of KEY=VALUE",
     .complete = OPT_COMPLETE_FILE},
    {.letter = 'v',
     .name = "volume",
     OPT_TO_STRINGS(struct run_options, volumes),
     .arg = "HOST:BOX[:ro]",
     .help = "show a host folder or file inside"},
    {.letter = 'w',
     .name = "workdir",
     OPT_TO_STRING(struct run_options, workdir),
     .arg = "DIR",
     .help = "where the command starts, made if missing (/workspace)"},
    {.letter = 'u',
     .name = "user",
     OPT_TO_STRING(struct run_options, user),
     .arg = "USER[:GROUP]",
     .help = "who runs the command inside (root)"},
    {.name = "name",
     OPT_TO_STRING(struct run_options, name),
     .arg = "NAME",
     .help = "name and hostname of the sandbox"},
    {.letter = 'l',
     .name = "label",
     OPT_TO_STRINGS(struct run_options, labels),
     .arg = "KEY=VALUE",
     .help = "a label, repeated in the JSON result"},
    {.name = "engine",
     OPT_TO_STRING(struct run_options, engine),
     .arg = "ENGINE",
     .help = ENGINE_CHOICES_HELP},
    {.name = "tier",
     OPT_TO_CHOICE(struct run_options, tier),
     .arg = "TIER",
     .choices = fresh_tiers,
     .help = "accept no less isolation than this; see 'cay doctor'"},
    {.name = "profile",
     OPT_TO_CHOICE(struct run_options, profile),
     .arg = "PROFILE",
     .choices = profiles,
     .help = "strict: no capability; build: rights over files that package "
             "managers need"},
    {.name = "read-only",
     OPT_TO_FLAG(struct run_options, read_only),
     .help = "nothing can be written but /workspace, /tmp, /run and writable "
             "volumes"},
    {.letter = 'i',
     .name = "interactive",
     OPT_TO_FLAG(struct run_options, interactive),
     .help = "pass standard input on (always done; accepted for habit)"},
    {.letter = 't',
     .name = "tty",
     OPT_TO_FLAG(struct run_options, tty),
     .help = "give the command a terminal"},
    {.name = "rm",
     OPT_TO_FLAG(struct run_options, rm),
     .help = "nothing of a run stays anyway; accepted for habit",
     .hidden = true},
    {.name = "guard",
     OPT_TO_FLAG(struct run_options, guard),
     .help = "refuse command lines that look like an accident (rm -rf /)"},
    {.name = "no-daemon",
     OPT_TO_FLAG(struct run_options, no_daemon),
     .help = "make the sandbox in this process even if the daemon has prepared one"},
    {.name = "timings",
     OPT_TO_FLAG(struct run_options, timings),
     .help = "print how long each phase took"},
    {0},
};

/* What one run holds; everything is undone by finish(). */
struct run {
    const struct run_options *o;
    struct config *config;
    char image[CAY_IMAGE_ID_SIZE]; /* id of an image of the store */
    cay_engine *engine;
    cay_sandbox *box;
    const char **argv; /* with the image's entrypoint in front */
    struct strv env, volumes;
    struct terminal terminal;
    int signals;
    struct cay_result result;
    int64_t open_us, end_us;
    struct cay_error err;
};

/* ---- choices: flags over configuration ---- */

static const char *engine_name(const struct run *r) {
    return r->o->engine != NULL ? r->o->engine : r->config->sandbox.engine;
}

static int check_engine(struct run *r) {
    enum engine_kind kind = engine_kind_from_name(engine_name(r));
    if (kind == ENGINE_UNSAID || kind == ENGINE_KINDS) {
        error_set(&r->err, CAY_UNSUPPORTED, "there is no engine '%.40s'", engine_name(r));
        return error_remedy(&r->err, "use --engine " ENGINE_CHOICES);
    }
    return 0;
}

static int check_options(struct run *r) {
    const struct run_options *o = r->o;
    int code = check_engine(r);
    if (code < 0)
        return code;
    for (size_t i = 0; i < o->labels.len; i++)
        if (strchr(o->labels.v[i], '=') == NULL || o->labels.v[i][0] == '=') {
            error_set(&r->err, CAY_INVALID_ARGUMENT, "label '%.60s' has no '='", o->labels.v[i]);
            return error_remedy(&r->err, "write --label KEY=VALUE");
        }
    return command_check_tty(o->tty, &r->err);
}

static const char *image_name(const struct run *r) {
    return r->o->image != NULL ? r->o->image : r->config->sandbox.image;
}

static bool is_host_image(const struct run *r) {
    return fresh_is_host(image_name(r));
}

static struct cay_spec make_spec(const struct run *r) {
    const struct run_options *o = r->o;
    struct cay_spec spec;
    cay_spec_init(&spec);
    spec.name = o->name;
    spec.image = is_host_image(r) ? "host" : r->image;
    spec.network = o->network != NULL ? o->network : config_network(r->config);
    spec.memory_bytes = o->memory != 0 ? o->memory : r->config->sandbox.memory;
    /* The configured size is for sandboxes that stay; here files are kept in
     * memory. */
    spec.disk_bytes = o->disk;
    spec.cpus = o->cpus > 0 ? o->cpus : r->config->sandbox.cpus;
    spec.pids = (uint32_t)(o->pids != 0 ? o->pids : r->config->sandbox.pids);
    spec.read_only = o->read_only;
    spec.tier = fresh_tier(o->tier, r->config);
    spec.profile = profiles[o->profile];
    spec.user = o->user;
    spec.volumes = (const char *const *)r->volumes.v;
    return spec;
}

/* What the user says, then what the image says, then what is configured. Without a sandbox NULL is
 * where we are. */
static const char *work_dir(const struct run *r) {
    if (r->o->workdir != NULL || r->box == NULL)
        return r->o->workdir;
    const char *of_image = cay_sandbox_image(r->box)->working_dir;
    return of_image[0] != '\0' ? of_image : r->config->sandbox.work_dir;
}

static struct cay_exec make_exec(const struct run *r) {
    const struct run_options *o = r->o;
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.argv = r->argv;
    exec.env = (const char *const *)r->env.v;
    exec.work_dir = work_dir(r);
    exec.tty = o->tty;
    exec.stdin_fd = STDIN_FILENO;
    if (o->common.output != OUTPUT_JSON) {
        exec.stdout_fd = STDOUT_FILENO;
        exec.stderr_fd = STDERR_FILENO;
    }
    exec.signal_fd = r->signals;
    /* A person who types is not ended in the middle of a word. */
    int64_t usual_ms = o->tty ? 0 : r->config->sandbox.timeout_ms;
    exec.timeout_ms = o->timeout_ms >= 0 ? o->timeout_ms : usual_ms;
    exec.idle_output_timeout_ms = o->idle_output_ms;
    exec.output_max = o->output_max;
    return exec;
}

/* ---- doing it ---- */

static int check_guard(struct run *r) {
    struct guard_hit hit;
    if (!r->o->guard || guard_check_argv(r->argv, work_dir(r), &hit) == 0)
        return 0;
    log_event(LOG_LEVEL_WARN, "command refused by the guard", hit.name, "%s", hit.words);
    error_set(&r->err, CAY_FORBIDDEN, "refused by the guard (%s): %s", hit.name, hit.reason);
    return error_remedy(&r->err, "%s", hit.instead);
}

static int no_command(struct run *r) {
    error_set(&r->err, CAY_INVALID_ARGUMENT, "no command given%s",
              is_host_image(r) ? "" : ", and the image names none");
    return error_remedy(&r->err, "say what to run: cay run [OPTIONS] -- COMMAND [ARG...]");
}

static int load(struct run *r) {
    int code = config_load(r->o->common.config, (const char *const *)environ, &r->config, &r->err);
    if (code == 0)
        code = check_options(r);
    if (code == 0)
        code = env_collect(&r->o->env_files, &r->o->env, &r->env, &r->err);
    return code < 0 ? code : paths_of_volumes(&r->o->volumes, &r->volumes, &r->err);
}

static int start(struct run *r, int argc) {
    int code = 0;
    if (is_host_image(r) && argc == 0 && r->o->entrypoint == NULL)
        code = no_command(r);
    if (code == 0)
        code = fresh_ensure_image(&r->o->common, r->config, engine_name(r), image_name(r),
                                  fresh_pulls[r->o->pull], r->image, &r->err);
    if (code == 0)
        code = command_catch_signals(&r->signals, &r->err);
    if (code < 0)
        return code;
    struct cay_spec spec = make_spec(r);
    if (fresh_take_prepared(&r->o->common, r->config, engine_name(r), r->o->no_daemon, &spec, NULL,
                            &r->box))
        return 0;
    int64_t begin = clock_us();
    engine_keys_export(r->config->engine);
    code = cay_engine_open_as(engine_name(r), r->o->common.state_dir, &r->engine, &r->err);
    r->open_us = clock_us() - begin;
    if (code == 0)
        code = cay_sandbox_create(r->engine, &spec, &r->box, &r->err);
    if (code == 0)
        fresh_report_unkept(r->engine, r->o->memory != 0, r->o->cpus > 0);
    return code;
}

static size_t count_words(const char *const *v) {
    size_t n = 0;
    while (v[n] != NULL)
        n++;
    return n;
}

/* As Docker does: the entrypoint, then what was given or else the image's command; an entrypoint of
 * one's own drops both of the image's, and an empty one stands for none. */
static int make_command(struct run *r, int argc, char **argv) {
    static const char *const none[] = {NULL};
    const struct cay_image_config *image = cay_sandbox_image(r->box);
    bool is_own = r->o->entrypoint != NULL;
    const char *const own[] = {is_own && r->o->entrypoint[0] != '\0' ? r->o->entrypoint : NULL,
                               NULL};
    const char *const *first = is_own ? own : image->entrypoint;
    const char *const *rest = argc > 0 ? (const char *const *)argv : is_own ? none : image->cmd;
    size_t begin = count_words(first), more = count_words(rest);
    r->argv = calloc(begin + more + 1, sizeof *r->argv);
    if (r->argv == NULL)
        return error_set(&r->err, CAY_RESOURCE_EXHAUSTED, "no memory");
    memcpy(r->argv, first, begin * sizeof *first);
    memcpy(r->argv + begin, rest, more * sizeof *rest);
    return begin + more == 0 ? no_command(r) : 0;
}

static int execute(struct run *r, int argc, char **argv) {
    int failed = make_command(r, argc, argv);
    if (failed == 0)
        failed = check_guard(r);
    if (failed < 0)
        return failed;
    struct cay_exec exec = make_exec(r);
    if (r->o->tty)
        (void)terminal_raw(&r->terminal, STDIN_FILENO); /* isatty was checked */
    int code = cay_sandbox_exec(r->box, &exec, &r->result, &r->err);
    terminal_restore(&r->terminal);
    return code;
}

/* ---- without a sandbox ---- */

/* The option that was given and cannot be kept without walls; NULL if there is none. */
static const char *needs_sandbox(const struct run_options *o) {
    const struct {
        const char *name;
        bool given;
    } all[] = {
        {"--image", o->image != NULL && strcmp(o->image, "host") != 0},
        {"--entrypoint", o->entrypoint != NULL},
        {"--memory", o->memory != 0},
        {"--cpus", o->cpus > 0},
        {"--pids", o->pids != 0},
        {"--disk", o->disk != 0},
        {"--network", o->network != NULL},
        {"--volume", o->volumes.len > 0},
        {"--user", o->user != NULL},
        {"--name", o->name != NULL},
        {"--read-only", o->read_only},
        {"--tier", o->tier != 0},
        {"--profile", o->profile != 0},
        {"--engine", o->engine != NULL && strcmp(o->engine, "native") != 0},
        {"--tty", o->tty},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].given)
            return all[i].name;
    return NULL;
}

static int run_on_host(struct run *r, int argc, char **argv) {
    static const char *const none[] = {NULL};
    const char *option = needs_sandbox(r->o);
    if (option != NULL) {
        error_set(&r->err, CAY_UNSUPPORTED, "%s needs a sandbox, and sandbox.use_sandbox is false",
                  option);
        return error_remedy(&r->err, "leave it away, or switch the sandbox on");
    }
    r->argv = calloc((size_t)argc + 1, sizeof *r->argv);
    if (r->argv == NULL)
        return error_set(&r->err, CAY_RESOURCE_EXHAUSTED, "no memory");
    memcpy(r->argv, argc > 0 ? (const char *const *)argv : none, (size_t)argc * sizeof *argv);
    struct cay_exec exec = make_exec(r);
    int code = argc == 0 ? no_command(r) : check_guard(r);
    if (code == 0)
        code = command_catch_signals(&r->signals, &r->err);
    if (code < 0)
        return code;
    exec.signal_fd = r->signals;
    verb_note("warning: not in a sandbox (sandbox.use_sandbox is false): this command has all of "
              "your rights on this host");
    return host_exec(&exec, &r->result, &r->err);
}

static void finish(struct run *r) {
    int64_t begin = clock_us();
    cay_sandbox_destroy(r->box);
    cay_engine_close(r->engine);
    r->end_us = clock_us() - begin;
}

/* ---- telling ---- */

static void put_phases(struct jsonw *w, const struct run *r) {
    const struct cay_phases *p = &r->result.phases;
    jsonw_key(w, "phases");
    jsonw_begin_object(w);
    command_put_ms(w, "open_ms", r->open_us);
    command_put_ms(w, "prepare_ms", p->prepare_us);
    command_put_ms(w, "root_ms", p->root_us);
    command_put_ms(w, "start_ms", p->start_us);
    command_put_ms(w, "exec_ms", p->exec_us);
    command_put_ms(w, "run_ms", p->run_us);
    command_put_ms(w, "end_ms", r->end_us);
    jsonw_end_object(w);
}

static bool has_later_label(const struct strv *labels, size_t at) {
    size_t len = strcspn(labels->v[at], "=") + 1;
    for (size_t i = at + 1; i < labels->len; i++)
        if (strncmp(labels->v[i], labels->v[at], len) == 0)
            return true;
    return false;
}

static void put_labels(struct jsonw *w, const struct strv *labels) {
    jsonw_key(w, "labels");
    jsonw_begin_object(w);
    for (size_t i = 0; i < labels->len; i++) {
        if (has_later_label(labels, i))
            continue;
        char *equals = strchr(labels->v[i], '=');
        *equals = '\0';
        jsonw_put_string(w, labels->v[i], equals + 1);
        *equals = '=';
    }
    jsonw_end_object(w);
}

static int print_json(struct run *r, int failed, int exit_code) {
    _cleanup_(buf_free) struct buf b = BUF_INIT((size_t)256 << 20);
    struct jsonw w = JSONW_INIT(&b);
    jsonw_begin_object(&w);
    command_put_result(&w, &r->result, exit_code);
    put_phases(&w, r);
    jsonw_put_string(&w, "tier", r->result.tier);
    if (r->o->labels.len > 0)
        put_labels(&w, &r->o->labels);
    if (failed < 0)
        command_put_error(&w, &r->err);
    jsonw_end_object(&w);
    return command_print(&b, exit_code);
}

static void print_timings(const struct run *r) {
    const struct cay_phases *p = &r->result.phases;
    const struct {
        const char *name;
        int64_t us;
    } rows[] = {{"open the engine", r->open_us},   {"namespaces, limits", p->prepare_us},
                {"file tree", p->root_us},         {"first process", p->start_us},
                {"start the command", p->exec_us}, {"the command", p->run_us},
                {"remove everything", r->end_us}};
    int64_t total = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        (void)fprintf(stderr, "  %-20s %8.2f ms\n", rows[i].name, (double)rows[i].us / 1000);
        total += rows[i].us;
    }
    (void)fprintf(stderr, "  %-20s %8.2f ms\n", "total", (double)total / 1000);
}

/* `cay run ubuntu echo hi` is what users of Docker type. */
static void suggest_image(struct run *r) {
    if (r->o->image == NULL && r->argv != NULL && habits_is_image(r->argv[0]))
        (void)error_remedy(&r->err, "images are named with --image: cay run --image %s -- ...",
                           r->argv[0]);
}

static int report(struct run *r, int failed) {
    int code = r->result.exit_code;
    if (failed < 0 && code == 127)
        suggest_image(r);
    if (r->o->common.output == OUTPUT_JSON)
        return print_json(r, failed, code);
    if (failed < 0)
        return verb_fail_with(&r->err, code);
    if (!r->o->common.quiet)
        command_explain(&r->result);
    if (r->o->timings)
        print_timings(r);
    return code;
}

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    struct run r = {.o = values,
                    .terminal = TERMINAL_NONE,
                    .signals = -1,
                    .result = {.exit_code = 125, .tier = "none"}};
    int failed = load(&r);
    if (failed == 0 && !r.config->sandbox.use_sandbox) {
        failed = run_on_host(&r, argc, argv);
    } else if (failed == 0) {
        failed = start(&r, argc);
        if (failed == 0)
            failed = execute(&r, argc, argv);
    }
    finish(&r);
    int code = report(&r, failed);
    cay_result_free(&r.result);
    free(r.argv);
    strv_free(&r.env);
    strv_free(&r.volumes);
    config_free(r.config);
    fd_close(&r.signals);
    return code;
}

static const struct run_options defaults = {.timeout_ms = -1};

const struct opt_command cli_run = {
    .name = "run",
    .path = "cay run",
    .synopsis = "[OPTIONS] [--] [COMMAND [ARG...]]",
    .summary = "run a command in a fresh sandbox and throw it away",
    .help = "The command runs isolated from this machine: its own processes, "
            "files, users and "
            "network (none), with limits on memory, processors, processes, "
            "disk and time. Nothing "
            "of it stays.\n\n"
            "An image that is not here is pulled. Its environment, user, "
            "working folder, entrypoint "
            "and command are the defaults.\n\n"
            "The exit code is the command's; 124 when a time or output limit "
            "struck, 125 when cay "
            "itself failed, 126 when the command cannot be executed, 127 when "
            "it is not found, "
            "128+n when signal n ended it.",
    .examples = "cay run -- python3 -c 'print(6*7)'\n"
                "cay run --image python:3.12-slim -- python3 --version\n"
                "cay run -t bash\n"
                "cay run -v \"$PWD\":/workspace --memory 1g -- make test\n"
                "tar c src | cay run -o json -- tar t\n",
    .options = options,
    .habits = habits_options,
    .stop_at_operand = true,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct run_options),
    .defaults = &defaults,
    .run = run,
};
