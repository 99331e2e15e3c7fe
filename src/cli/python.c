/* `cay python` and `cay run-code`: a program in a fresh sandbox, or in one that stays. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/fresh.h"
#include "cli/python_choice.h"
#include "cli/python_output.h"
#include "cli/python_tell.h"
#include "client/daemon.h"
#include "lib/code.h"
#include "lib/language.h"
#include "lib/python.h"

enum { CODE_MAX = 64 * 1024 * 1024 };

struct python_options {
    struct verb_common common;
    const char *code, *in, *image, *network, *workdir, *user, *figures;
    uint64_t memory, disk, output_max, capture;
    double cpus;
    int64_t pids, timeout_ms, idle_output_ms;
    struct strv env, volumes;
    int tier, pull; /* indices into fresh_tiers and fresh_pulls */
    bool cold;
    int language; /* index into language_names */
    int64_t compile_ms;
};

/* Those that only `cay run-code` has come first. */
enum { OPTIONS_OF_CODE = 2 };

static const struct opt options[] = {
    {.letter = 'l',
     .name = "language",
     OPT_TO_CHOICE(struct python_options, language),
     .arg = "LANGUAGE",
     .choices = language_names,
     .help = "what it is written in; auto: as the end of the file's name says (auto)"},
    {.name = "compile-timeout",
     OPT_TO_DURATION(struct python_options, compile_ms),
     .arg = "TIME",
     .help = "end the compiler after this time, in whole seconds (60s)"},
    {.letter = 'c',
     .name = "code",
     OPT_TO_STRING(struct python_options, code),
     .arg = "CODE",
     .help = "the program itself, instead of a file"},
    {.name = "in",
     OPT_TO_STRING(struct python_options, in),
     .arg = "SANDBOX",
     .help = "run it in this sandbox instead of a fresh one"},
    {.name = "cold",
     OPT_TO_FLAG(struct python_options, cold),
     .help = "start the interpreter anew instead of copying one that has been started"},
    {.name = "figures",
     OPT_TO_STRING(struct python_options, figures),
     .arg = "DIR",
     .complete = OPT_COMPLETE_FOLDER,
     .help = "save the figures that it leaves open as DIR/figure-1.png …"},
    {.name = "capture",
     OPT_TO_SIZE(struct python_options, capture),
     .arg = "SIZE",
     .help = "with -o json: output of each stream in the result; all of a longer one goes to a "
             "file (1m)"},
    {.name = "timeout",
     OPT_TO_DURATION(struct python_options, timeout_ms),
     .arg = "TIME",
     .help = "end the program after this time, 0 for never (300s)"},
    {.name = "idle-output-timeout",
     OPT_TO_DURATION(struct python_options, idle_output_ms),
     .arg = "TIME",
     .help = "end the program when it prints nothing for this long"},
    {.name = "output-max",
     OPT_TO_SIZE(struct python_options, output_max),
     .arg = "SIZE",
     .help = "end the program when it has printed this much (with -o json: 64m)"},
    {.letter = 'e',
     .name = "env",
     OPT_TO_STRINGS(struct python_options, env),
     .arg = "KEY=VALUE",
     .help = "set an environment variable"},
    {.letter = 'w',
     .name = "workdir",
     OPT_TO_STRING(struct python_options, workdir),
     .arg = "DIR",
     .help = "where it starts, made if missing (/workspace)"},
    {.letter = 'u',
     .name = "user",
     OPT_TO_STRING(struct python_options, user),
     .arg = "USER[:GROUP]",
     .help = "who runs it inside (root)"},
    {.name = "image",
     OPT_TO_STRING(struct python_options, image),
     .arg = "IMAGE",
     .help = "image of the fresh sandbox; 'host' is this machine's /usr, read-only"},
    {.name = "pull",
     OPT_TO_CHOICE(struct python_options, pull),
     .arg = "WHEN",
     .choices = fresh_pulls,
     .help = "when to ask the image's registry (missing)"},
    {.letter = 'm',
     .name = "memory",
     OPT_TO_SIZE(struct python_options, memory),
     .arg = "SIZE",
     .help = "memory limit of the fresh sandbox (512m)"},
    {.name = "cpus",
     OPT_TO_NUMBER(struct python_options, cpus),
     .arg = "N",
     .min = 0.01,
     .max = 4096,
     .help = "its processor limit (1.0)"},
    {.name = "pids",
     OPT_TO_INTEGER(struct python_options, pids),
     .arg = "N",
     .min = 1,
     .max = 4194304,
     .help = "its limit of processes and threads (256)"},
    {.name = "disk",
     OPT_TO_SIZE(struct python_options, disk),
     .arg = "SIZE",
     .help = "its limit of written files (half of the memory)"},
    {.name = "network",
     OPT_TO_STRING(struct python_options, network),
     .arg = "MODE",
     .help = "none: loopback only"},
    {.letter = 'v',
     .name = "volume",
     OPT_TO_STRINGS(struct python_options, volumes),
     .arg = "HOST:BOX[:ro]",
     .help = "show a host folder or file inside"},
    {.name = "tier",
     OPT_TO_CHOICE(struct python_options, tier),
     .arg = "TIER",
     .choices = fresh_tiers,
     .help = "accept no less isolation than this; see 'cay doctor'"},
    {0},
};

/* What one run holds; released by finish(). */
struct run {
    const struct python_options *o;
    bool any_language; /* the verb is `cay run-code` */
    const struct language *language;
    struct config *config;
    struct cay_python program;
    struct buf code;
    bool stdin_is_code;
    char image[CAY_IMAGE_ID_SIZE]; /* id of an image of the store */
    cay_engine *engine;
    cay_sandbox *box;
    struct daemon daemon;
    struct daemon_connection connection;
    struct python_output output[2];
    char why_cold[200];
    int signals;
    struct cay_program_result result;
    struct cay_error err;
};

/* Python has its own way: with exceptions, figures, and a warm interpreter. */
static bool is_python(const struct run *r) {
    return str_equal(r->language->name, "python");
}

/* ---- the program ---- */

#define NO_PROGRAM "name a file with the program, - for standard input, or -c CODE"

static int find_language(struct run *r, const char *file) {
    const char *name = r->any_language ? language_names[r->o->language] : "python";
    if (!str_equal(name, "auto")) {
        r->language = language_find(name);
        return 0;
    }
    r->language = file != NULL && r->o->code == NULL ? language_of_file(file) : NULL;
    if (r->language != NULL)
        return 0;
    error_set(&r->err, CAY_INVALID_ARGUMENT, "nothing says what the program is written in");
    return error_remedy(&r->err, "use --language, as in: --language bash");
}

static int read_code(struct run *r, int fd, const char *name) {
    int failed = fd_read_to_end(fd, &r->code);
    if (failed == -ENOBUFS) {
        error_set(&r->err, CAY_INVALID_ARGUMENT, "'%s' has more than %d MB", name,
                  CODE_MAX / 1024 / 1024);
        return error_remedy(&r->err, "keep data in files of their own");
    }
    if (failed == 0)
        return 0;
    error_sys(&r->err, -failed, "reading '%s'", name);
    return error_remedy(&r->err, NO_PROGRAM);
}

static int open_code(struct run *r, const char *name) {
    if (str_equal(name, "-")) {
        r->stdin_is_code = true;
        return read_code(r, STDIN_FILENO, "standard input");
    }
    _cleanup_(closep) int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return read_code(r, fd, name);
    char shown[128];
    error_errno(&r->err, "opening '%s'", str_escape(shown, sizeof shown, name));
    return error_remedy(&r->err, NO_PROGRAM);
}

static int find_program(struct run *r, int argc, char **argv) {
    const char *code = r->o->code;
    if (code != NULL) {
        r->program = (struct cay_python){.name = "-c",
                                         .code = code,
                                         .code_len = strlen(code),
                                         .args = (const char *const *)argv};
        return 0;
    }
    if (argc == 0) {
        error_set(&r->err, CAY_INVALID_ARGUMENT, "no program given");
        return error_remedy(&r->err, NO_PROGRAM);
    }
    int failed = open_code(r, argv[0]);
    if (failed < 0)
        return failed;
    r->program = (struct cay_python){.name = argv[0],
                                     .code = buf_text(&r->code),
                                     .code_len = r->code.len,
                                     .args = (const char *const *)argv + 1};
    return 0;
}

/* ---- choices: flags over configuration ---- */

/* The option that makes sense for a fresh sandbox only; NULL if none was given. */
static const char *only_fresh(const struct python_options *o) {
    return o->image != NULL     ? "--image"
           : o->network != NULL ? "--network"
           : o->memory != 0     ? "--memory"
           : o->disk != 0       ? "--disk"
           : o->cpus > 0        ? "--cpus"
           : o->pids != 0       ? "--pids"
           : o->volumes.len > 0 ? "--volume"
           : o->tier != 0       ? "--tier"
           : o->pull != 0       ? "--pull"
                                : NULL;
}

static int check_options(struct run *r) {
    const char *option = only_fresh(r->o);
    if (r->o->in != NULL && option != NULL) {
        error_set(&r->err, CAY_INVALID_ARGUMENT, "%s is for a fresh sandbox, not with --in",
                  option);
        return error_remedy(&r->err, "leave one of them away; 'cay create' makes a sandbox with "
                                     "limits of its own");
    }
    if (r->o->in != NULL || r->config->sandbox.use_sandbox)
        return 0;
    error_set(&r->err, CAY_UNSUPPORTED,
              "'cay %s' needs a sandbox, and sandbox.use_sandbox is "
              "false",
              r->any_language ? "run-code" : "python");
    return error_remedy(&r->err, "switch the sandbox on, or use: cay run -- COMMAND");
}

/* What only Python has is refused for others, rather than passed over. */
static int check_language(struct run *r) {
    const char *option = r->o->cold ? "--cold" : r->o->figures != NULL ? "--figures" : NULL;
    if (option == NULL || is_python(r))
        return 0;
    error_set(&r->err, CAY_INVALID_ARGUMENT, "%s is for Python, not for %s", option,
              r->language->name);
    return error_remedy(&r->err, "leave it away");
}

static const char *image_name(const struct run *r) {
    return r->o->image != NULL ? r->o->image : r->config->sandbox.image;
}

static struct cay_spec make_spec(const struct run *r) {
    const struct python_options *o = r->o;
    struct cay_spec spec;
    cay_spec_init(&spec);
    spec.image = fresh_is_host(image_name(r)) ? "host" : r->image;
    if (o->network != NULL)
        spec.network = o->network;
    else if (r->config->sandbox.network_enabled)
        spec.network = "bridge";
    spec.memory_bytes = o->memory != 0 ? o->memory : r->config->sandbox.memory;
    spec.disk_bytes = o->disk;
    spec.cpus = o->cpus > 0 ? o->cpus : r->config->sandbox.cpus;
    spec.pids = (uint32_t)(o->pids != 0 ? o->pids : r->config->sandbox.pids);
    spec.tier = fresh_tier(o->tier, r->config);
    spec.user = o->user;
    spec.volumes = (const char *const *)o->volumes.v;
    return spec;
}

static bool is_json(const struct run *r) {
    return r->o->common.output == OUTPUT_JSON;
}

static struct cay_exec make_exec(const struct run *r) {
    const struct python_options *o = r->o;
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.env = (const char *const *)o->env.v;
    exec.work_dir = o->workdir;
    exec.user = r->o->in != NULL ? o->user : NULL;
    exec.stdin_fd = r->stdin_is_code ? -1 : STDIN_FILENO;
    exec.stdout_fd = is_json(r) ? r->output[0].fd : STDOUT_FILENO;
    exec.stderr_fd = is_json(r) ? r->output[1].fd : STDERR_FILENO;
    exec.signal_fd = r->signals;
    exec.timeout_ms = o->timeout_ms >= 0 ? o->timeout_ms : r->config->sandbox.timeout_ms;
    exec.idle_output_timeout_ms = o->idle_output_ms;
    exec.output_max = o->output_max > 0 ? o->output_max : is_json(r) ? (uint64_t)64 << 20 : 0;
    return exec;
}

/* ---- doing it ---- */

static int prepare(struct run *r, int argc, char **argv) {
    int failed =
        config_load(r->o->common.config, (const char *const *)environ, &r->config, &r->err);
    if (failed == 0)
        failed = check_options(r);
    if (failed == 0)
        failed = find_program(r, argc, argv);
    if (failed == 0)
        failed = find_language(r, argc > 0 ? argv[0] : NULL);
    if (failed == 0)
        failed = check_language(r);
    if (failed == 0 && is_json(r))
        failed = python_output_open(&r->output[0], "stdout", &r->err);
    if (failed == 0 && is_json(r))
        failed = python_output_open(&r->output[1], "stderr", &r->err);
    return failed;
}

/* Why a copy of an interpreter that has been started would not do; NULL if it does. */
static const char *why_cold(const struct run *r) {
    const struct python_options *o = r->o;
    return !r->config->python.warm              ? "python.warm is false"
           : o->cold                            ? "--cold"
           : o->user != NULL                    ? "--user"
           : python_env_matters(&o->env)        ? "--env changes how the interpreter starts"
           : python_volumes_matter(&o->volumes) ? "--volume covers files of the interpreter"
                                                : NULL;
}

static void find_warm(struct run *r, const struct cay_spec *spec) {
    struct cay_error err;
    const char *why = why_cold(r);
    const char *const *preload = (const char *const *)r->config->python.preload.v;
    if (why == NULL && cay_python_warm(r->engine, spec, preload, &r->program.warm, &err) < 0)
        why = err.message;
    if (why != NULL)
        (void)snprintf(r->why_cold, sizeof r->why_cold, "%.199s", why);
}

static struct cay_program make_code(const struct run *r) {
    return (struct cay_program){.language = r->language->name,
                                .name = r->program.name,
                                .code = r->program.code,
                                .code_len = r->program.code_len,
                                .args = r->program.args,
                                .compile_timeout_ms = r->o->compile_ms};
}

static int run_fresh(struct run *r) {
    int failed = fresh_ensure_image(&r->o->common, r->config, image_name(r),
                                    fresh_pulls[r->o->pull], r->image, &r->err);
    if (failed == 0)
        failed = command_catch_signals(&r->signals, &r->err);
    if (failed < 0)
        return failed;
    struct cay_spec spec = make_spec(r);
    failed = cay_engine_open(r->o->common.state_dir, &r->engine, &r->err);
    if (failed < 0)
        return failed;
    if (is_python(r))
        find_warm(r, &spec);
    failed = cay_sandbox_create(r->engine, &spec, &r->box, &r->err);
    if (failed < 0)
        return failed;
    struct cay_exec exec = make_exec(r);
    const char *of_image = cay_sandbox_image(r->box)->working_dir;
    if (exec.work_dir == NULL && of_image[0] == '\0')
        exec.work_dir = r->config->sandbox.work_dir;
    if (is_python(r))
        return cay_sandbox_python(r->box, &r->program, &exec, &r->result.program, &r->err);
    const struct cay_program code = make_code(r);
    return cay_sandbox_program(r->box, &code, &exec, &r->result, &r->err);
}

static int run_inside(struct run *r) {
    const struct verb_common *common = &r->o->common;
    const struct daemon_choice choice = {
        .host = common->host, .config = common->config, .state_dir = common->state_dir};
    (void)snprintf(r->why_cold, sizeof r->why_cold, "--in");
    int failed = daemon_open(&choice, &r->daemon, &r->err);
    if (failed == 0)
        failed = daemon_connect(&r->daemon, r->o->in, &r->connection, &r->err);
    if (failed == 0)
        failed = command_catch_signals(&r->signals, &r->err);
    if (failed < 0)
        return failed;
    const struct command_defaults defaults = {
        .user = r->connection.user,
        .hostname = r->connection.name,
        .work_dir = r->connection.work_dir,
        .env = r->connection.env,
    };
    struct cay_exec exec = make_exec(r);
    if (is_python(r))
        return python_exec(&r->connection.fd, &r->program, &exec, &defaults, &r->result.program,
                           &r->err);
    const struct cay_program code = make_code(r);
    return code_exec(&r->connection.fd, &code, &exec, &defaults, &r->result, &r->err);
}

/* ---- telling ---- */

static int take_outputs(struct run *r) {
    struct cay_result *run = &r->result.program.run;
    if (r->output[0].fd < 0 || r->output[1].fd < 0)
        return 0;
    int failed =
        python_output_take(&r->output[0], (size_t)r->o->capture, &run->out, &run->out_len, &r->err);
    return failed < 0 ? failed
                      : python_output_take(&r->output[1], (size_t)r->o->capture, &run->err,
                                           &run->err_len, &r->err);
}

static const char *file_of(const struct python_output *o) {
    return o->path[0] != '\0' ? o->path : NULL;
}

/* `cay python` does not tell what everybody knows. */
static const char *language_told(const struct run *r) {
    return r->any_language && r->language != NULL ? r->language->name : NULL;
}

/* Says why, and what else there is to know, beside what the program printed. */
static void explain(const struct run *r) {
    const struct cay_python_result *result = &r->result.program;
    if (r->o->common.quiet)
        return;
    if (r->result.compiling && result->run.timed_out)
        verb_note("the compiler was ended: it ran longer than --compile-timeout or --timeout");
    else if (r->result.compiling)
        verb_note("it did not compile; nothing was run");
    else
        command_explain(&result->run);
    if (r->o->figures == NULL && result->figure_count > 0)
        verb_note("it left %zu figures; --figures DIR saves them", result->figure_count);
}

static int report(struct run *r, int failed) {
    struct cay_result *run = &r->result.program.run;
    if (failed == 0 && r->o->figures != NULL)
        failed = python_save_figures(&r->result.program, r->o->figures, &r->err);
    struct cay_error first = r->err;
    if (is_json(r) && take_outputs(r) < 0 && failed == 0)
        failed = -(int)r->err.code;
    else
        r->err = first;
    if (failed < 0 && run->exit_code == 0)
        run->exit_code = 125;
    if (is_json(r)) {
        const struct python_told told = {.result = &r->result,
                                         .language = language_told(r),
                                         .err = failed < 0 ? &r->err : NULL,
                                         .why_cold = r->why_cold,
                                         .out_file = file_of(&r->output[0]),
                                         .err_file = file_of(&r->output[1])};
        return python_tell_json(&told);
    }
    if (failed < 0)
        return verb_fail_with(&r->err, run->exit_code);
    explain(r);
    return run->exit_code;
}

static void finish(struct run *r) {
    cay_program_result_free(&r->result);
    for (int i = 0; i < 2; i++)
        if (r->output[i].fd >= 0) /* nothing was taken of it */
            python_output_close(&r->output[i]);
    buf_free(&r->code);
    if (r->program.warm > 0)
        (void)close(r->program.warm);
    config_free(r->config);
    fd_close(&r->signals);
}

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    struct run r = {.o = values,
                    .any_language = cmd == &cli_run_code,
                    .code = BUF_INIT(CODE_MAX),
                    .connection = DAEMON_CONNECTION_INIT,
                    .output = {PYTHON_OUTPUT_NONE, PYTHON_OUTPUT_NONE},
                    .signals = -1,
                    .result = {.program = {.run = {.exit_code = 125, .tier = "none"}}}};
    int failed = prepare(&r, argc, argv);
    if (failed == 0)
        failed = r.o->in != NULL ? run_inside(&r) : run_fresh(&r);
    cay_sandbox_destroy(r.box);
    cay_engine_close(r.engine);
    daemon_disconnect(&r.connection);
    int code = report(&r, failed);
    finish(&r);
    return code;
}

static const struct python_options defaults = {.timeout_ms = -1, .capture = 1 << 20};

const struct opt_command cli_python = {
    .name = "python",
    .path = "cay python",
    .synopsis = "[OPTIONS] FILE|-|-c CODE [ARG...]",
    .summary = "run Python code in a fresh sandbox, or in one that stays",
    .help = "The program runs as 'python3 -u' would run it, isolated and limited as with "
            "'cay run'. With -o json the result tells the exception with the lines of code, the "
            "files that were made or changed in the work folder, and figures, beside output and "
            "exit code.\n\n"
            "The exit code is the program's; 124 when a time or output limit struck, 125 when cay "
            "itself failed, 127 when the image has no python3, 128+n when signal n ended it.",
    .examples = "cay python -c 'print(6*7)'\n"
                "cay python -v \"$PWD\":/workspace analyse.py data.csv\n"
                "cay python -o json --timeout 10s - < program.py\n"
                "cay python --in lab --figures out plot.py\n",
    .options = options + OPTIONS_OF_CODE,
    .stop_at_operand = true,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct python_options),
    .defaults = &defaults,
    .run = run,
};

const struct opt_command cli_run_code = {
    .name = "run-code",
    .path = "cay run-code",
    .synopsis = "[OPTIONS] FILE|-|-c CODE [ARG...]",
    .summary = "run code of any language in a fresh sandbox, or in one that stays",
    .help = "Bash, C, C++, Go, Java, JavaScript, Perl, Python, Ruby or TypeScript, by what the "
            "image has; what is compiled is compiled first. Isolated and limited as with "
            "'cay run'. With -o json the result is that of 'cay python', and tells the "
            "language, the tool, and whether it ended in the compiler or in the program.\n\n"
            "The exit code is the program's, or the compiler's if it does not compile; 124 when a "
            "time or output limit struck, 125 when cay itself failed, 127 when the image has "
            "nothing that runs the language, 128+n when signal n ended it.",
    .examples = "cay run-code hello.c\n"
                "cay run-code --language bash -c 'echo $((6*7))'\n"
                "cay run-code -l node -o json - < program.js\n"
                "cay run-code --image golang main.go\n",
    .options = options,
    .stop_at_operand = true,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct python_options),
    .defaults = &defaults,
    .run = run,
};
