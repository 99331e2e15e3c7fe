/* `cay python` and `cay run-code`: a program in a fresh sandbox, or in one that stays. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/fresh.h"
#include "cli/python/python_options.h"
#include "cli/python/python_output.h"
#include "cli/python/python_print.h"
#include "client/daemon.h"
#include "client/oom.h"
#include "client/python.h"
#include "lib/engine.h"
#include "lib/prepared.h"
#include "lib/python/choice.h"
#include "lib/python/code.h"
#include "lib/python/freeze.h"
#include "lib/python/language.h"
#include "lib/python/options.h"
#include "lib/python/python.h"

enum { CODE_MAX = 64 * 1024 * 1024 };

/* What one run holds; released by finish(). */
struct run {
    const struct python_options *o;
    bool any_language; /* the verb is `cay run-code` */
    const struct language *language;
    struct config *config;
    struct cay_python program;
    struct python_copy copy; /* of the interpreter, on its way */
    struct strv volumes;     /* those of the options, and the wheels */
    struct buf code;
    bool stdin_is_code;
    char image[CAY_IMAGE_ID_SIZE]; /* id of an image of the store */
    cay_engine *engine;
    cay_sandbox *box;
    struct daemon daemon;
    struct client_python inside;
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
    return o->image != NULL        ? "--image"
           : o->find_links != NULL ? "--find-links"
           : o->network != NULL    ? "--network"
           : o->memory != 0        ? "--memory"
           : o->disk != 0          ? "--disk"
           : o->cpus > 0           ? "--cpus"
           : o->pids != 0          ? "--pids"
           : o->volumes.len > 0    ? "--volume"
           : o->tier != 0          ? "--tier"
           : o->pull != 0          ? "--pull"
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
    const struct python_options *o = r->o;
    const char *option = o->cold                 ? "--cold"
                         : o->figures != NULL    ? "--figures"
                         : o->svg                ? "--svg"
                         : o->packages.len > 0   ? "--package"
                         : o->find_links != NULL ? "--find-links"
                         : o->type != 0          ? "--code-type"
                                                 : NULL;
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
    spec.network = o->network != NULL ? o->network : config_network(r->config);
    spec.memory_bytes = o->memory != 0 ? o->memory : r->config->sandbox.memory;
    spec.disk_bytes = o->disk;
    spec.cpus = o->cpus > 0 ? o->cpus : r->config->sandbox.cpus;
    spec.pids = (uint32_t)(o->pids != 0 ? o->pids : r->config->sandbox.pids);
    spec.tier = fresh_tier(o->tier, r->config);
    spec.user = o->user;
    spec.volumes = (const char *const *)r->volumes.v;
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

static int add_wheels(struct run *r, const char *folder) {
    char path[PATH_MAX];
    if (realpath(folder, path) == NULL) {
        error_errno(&r->err, "opening the folder of wheels '%.200s'", folder);
        return error_remedy(&r->err, "name a folder of this machine in --find-links or "
                                     "python.find_links");
    }
    if (strv_pushf(&r->volumes, "%s:" PYTHON_WHEELS ":ro", path) < 0)
        return error_set(&r->err, CAY_RESOURCE_EXHAUSTED, "no memory");
    r->program.find_links = PYTHON_WHEELS;
    return 0;
}

/* What the program asks for beside its code. A sandbox that stays sees what it was made with. */
static int take_extras(struct run *r) {
    const char *folder = r->o->find_links != NULL ? r->o->find_links : r->config->python.find_links;
    for (size_t i = 0; i < r->o->volumes.len; i++)
        if (strv_push(&r->volumes, r->o->volumes.v[i]) < 0)
            return error_set(&r->err, CAY_RESOURCE_EXHAUSTED, "no memory");
    r->program.type = (enum cay_python_type)r->o->type;
    r->program.svg = r->o->svg;
    r->program.packages = (const char *const *)r->o->packages.v;
    r->program.index_url = r->config->python.index_url;
    bool wants = r->o->packages.len > 0 && r->o->in == NULL && folder[0] != '\0';
    return wants ? add_wheels(r, folder) : 0;
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
    if (failed == 0)
        failed = take_extras(r);
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
           : o->packages.len > 0                ? "--package"
           : o->user != NULL                    ? "--user"
           : python_env_matters(&o->env)        ? "--env changes how the interpreter starts"
           : python_volumes_matter(&o->volumes) ? "--volume covers files of the interpreter"
                                                : NULL;
}

static void note_cold(struct run *r, const char *why) {
    (void)snprintf(r->why_cold, sizeof r->why_cold, "%.199s", why);
}

static void find_warm(struct run *r, const struct cay_spec *spec) {
    struct cay_error err;
    const char *why = why_cold(r);
    const char *const *preload = (const char *const *)r->config->python.preload.v;
    if (why == NULL && r->copy.pid == 0 &&
        cay_python_warm(r->engine, spec, preload, &r->program.warm, &err) < 0)
        why = err.message;
    if (why != NULL)
        note_cold(r, why);
}

static struct cay_program make_code(const struct run *r) {
    return (struct cay_program){.language = r->language->name,
                                .name = r->program.name,
                                .code = r->program.code,
                                .code_len = r->program.code_len,
                                .args = r->program.args,
                                .compile_timeout_ms = r->o->compile_ms};
}

static int run_in_box(struct run *r) {
    struct cay_exec exec = make_exec(r);
    const char *of_image = cay_sandbox_image(r->box)->working_dir;
    if (exec.work_dir == NULL && of_image[0] == '\0')
        exec.work_dir = r->config->sandbox.work_dir;
    if (is_python(r))
        return cay_sandbox_python(r->box, &r->program, &exec, &r->result.program, &r->err);
    const struct cay_program code = make_code(r);
    return cay_sandbox_program(r->box, &code, &exec, &r->result, &r->err);
}

/* ---- in a sandbox that the daemon has prepared ---- */

static bool take_prepared(struct run *r, const struct cay_spec *spec) {
    const struct python_options *o = r->o;
    const char *why = is_python(r) ? why_cold(r) : NULL;
    const struct prepared_wish wish = {
        .may_wait = o->env.len == 0,
        .preload = (const char *const *)r->config->python.preload.v,
        .work_dir = o->workdir != NULL ? o->workdir : r->config->sandbox.work_dir,
    };
    bool wants_warm = is_python(r) && why == NULL;
    if (!fresh_take_prepared(&o->common, r->config, "native", o->no_daemon, spec,
                             wants_warm ? &wish : NULL, &r->box))
        return false;
    const struct prepared *p = sandbox_prepared(r->box);
    if (why != NULL)
        note_cold(r, why);
    r->program.waits = p->waits;
    r->program.warm = p->frozen > 0 ? fcntl(p->frozen, F_DUPFD_CLOEXEC, 3) : 0;
    return true;
}

/* Nothing was run: the interpreter does not fit any more, or the daemon ended before it began. */
static bool was_asleep(const struct run *r, int failed) {
    return failed == -CAY_UNAVAILABLE && r->program.waits && r->result.program.version == NULL;
}

static void forget_prepared(struct run *r) {
    cay_program_result_free(&r->result);
    cay_sandbox_destroy(r->box);
    r->box = NULL;
    r->program.waits = false;
    r->err = (struct cay_error){0};
}

/* ---- in one that is made here ---- */

/* An interpreter that was frozen before is copied meanwhile, by another process. */
static int run_made(struct run *r, const struct cay_spec *spec) {
    struct cay_error err;
    if (is_python(r) && why_cold(r) == NULL)
        (void)python_copy_begin(r->o->common.state_dir, spec,
                                (const char *const *)r->config->python.preload.v, &r->copy);
    int failed = cay_engine_open(r->o->common.state_dir, &r->engine, &r->err);
    if (failed < 0)
        return failed;
    if (is_python(r))
        find_warm(r, spec);
    failed = cay_sandbox_create(r->engine, spec, &r->box, &r->err);
    if (failed < 0)
        return failed;
    fresh_report_unkept(r->engine, r->o->memory != 0, r->o->cpus > 0);
    if (r->copy.pid != 0 && python_copy_end(&r->copy, &r->program.warm, &err) < 0)
        note_cold(r, err.message);
    return run_in_box(r);
}

static int run_fresh(struct run *r) {
    int failed = fresh_ensure_image(&r->o->common, r->config, "native", image_name(r),
                                    fresh_pulls[r->o->pull], r->image, &r->err);
    if (failed == 0)
        failed = command_catch_signals(&r->signals, &r->err);
    if (failed < 0)
        return failed;
    struct cay_spec spec = make_spec(r);
    if (!take_prepared(r, &spec))
        return run_made(r, &spec);
    failed = run_in_box(r);
    if (!was_asleep(r, failed))
        return failed;
    forget_prepared(r);
    return run_made(r, &spec);
}

/* Why the daemon is not asked to wake one in a sandbox that stays; NULL if it is. */
static const char *why_cold_inside(const struct run *r) {
    const struct python_options *o = r->o;
    return !r->config->python.warm ? "python.warm is false"
           : o->cold               ? "--cold"
           : o->packages.len > 0   ? "--package"
           : o->user != NULL       ? "--user"
           : o->workdir != NULL    ? "--workdir"
           : o->env.len > 0        ? "--env"
                                   : NULL;
}

static int run_code_inside(struct run *r, const struct cay_exec *exec) {
    const struct command_defaults defaults = client_defaults(&r->inside.connection);
    const struct cay_program code = make_code(r);
    int64_t began = clock_us();
    int failed = code_exec(&r->inside.connection.fd, &code, exec, &defaults, &r->result, &r->err);
    if (failed == 0)
        oom_judge(&r->daemon, r->o->in, began, &r->result.program.run);
    return failed;
}

static int run_inside(struct run *r) {
    const struct verb_common *common = &r->o->common;
    const struct daemon_choice choice = {
        .host = common->host, .config = common->config, .state_dir = common->state_dir};
    int failed = daemon_open(&choice, &r->daemon, &r->err);
    r->inside.daemon = &r->daemon;
    r->inside.who = r->o->in;
    r->inside.not_warm = why_cold_inside(r);
    if (failed == 0)
        failed = is_python(r)
                     ? client_python_connect(&r->inside, &r->err)
                     : daemon_connect(&r->daemon, r->o->in, &r->inside.connection, &r->err);
    if (failed == 0)
        failed = command_catch_signals(&r->signals, &r->err);
    if (failed < 0)
        return failed;
    const struct cay_exec exec = make_exec(r);
    failed = is_python(r)
                 ? client_python_run(&r->inside, &r->program, &exec, &r->result.program, &r->err)
                 : run_code_inside(r, &exec);
    if (is_python(r))
        note_cold(r, r->inside.why_cold);
    return failed;
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
    else if (r->result.compiling && result->run.oom_killed)
        verb_note("the compiler was killed: out of memory (--memory)");
    else if (r->result.compiling)
        verb_note("it did not compile; nothing was run");
    else
        command_explain(&result->run);
    for (size_t i = 0; i < result->report.problem_count; i++)
        verb_note("%s", result->report.problems[i]);
    char remedy[PYTHON_REMEDY_SIZE];
    if (r->o->type != CAY_PYTHON_OTHERS && python_remedy(result, remedy))
        verb_note("%s", remedy); /* else its errors are what python3 says, and no more */
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
    if (run->exit_code == 0 && r->result.program.report.problem_count > 0)
        run->exit_code = 1; /* a program that breaks its rules has failed */
    if (is_json(r)) {
        const struct python_reported told = {.result = &r->result,
                                             .language = language_told(r),
                                             .type = python_types[r->o->type],
                                             .err = failed < 0 ? &r->err : NULL,
                                             .why_cold = r->why_cold,
                                             .out_file = file_of(&r->output[0]),
                                             .err_file = file_of(&r->output[1])};
        return python_report_json(&told);
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
    strv_free(&r->volumes);
    python_copy_drop(&r->copy);
    if (r->program.warm > 0)
        (void)close(r->program.warm);
    config_free(r->config);
    fd_close(&r->signals);
}

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    struct run r = {.o = values,
                    .any_language = cmd == &cli_run_code,
                    .code = BUF_INIT(CODE_MAX),
                    .inside = {.connection = DAEMON_CONNECTION_INIT},
                    .copy = PYTHON_COPY_NONE,
                    .output = {PYTHON_OUTPUT_NONE, PYTHON_OUTPUT_NONE},
                    .signals = -1,
                    .result = {.program = {.run = {.exit_code = 125, .tier = "none"}}}};
    int failed = prepare(&r, argc, argv);
    if (failed == 0)
        failed = r.o->in != NULL ? run_inside(&r) : run_fresh(&r);
    cay_sandbox_destroy(r.box);
    cay_engine_close(r.engine);
    daemon_disconnect(&r.inside.connection);
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
                "cay python --in lab --figures out plot.py\n"
                "cay python -p requests==2.31.0 --find-links wheels fetch.py\n",
    .options = python_options + PYTHON_OPTIONS_OF_CODE,
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
    .options = python_options,
    .stop_at_operand = true,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct python_options),
    .defaults = &defaults,
    .run = run,
};
