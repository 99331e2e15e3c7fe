/* `cay context run`: a piece of code in an interpreter that stays. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/python/context.h"
#include "lib/python/context.h"

/* The inside asks, waits, kills; then the host stops believing it. */
enum { HOST_GRACE_MS = 30 * 1000, FAILED = 125, CODE_MAX = WIRE_TEXT_MAX, CAPTURED_MAX = 16 << 20 };

struct run_options {
    struct verb_common common;
    const char *code, *language, *figures;
    int64_t timeout_ms;
    struct strv env;
    bool attach;
};

static const struct opt options[] = {
    {.letter = 'c',
     .name = "code",
     OPT_TO_STRING(struct run_options, code),
     .arg = "CODE",
     .help = "the code itself, instead of a file"},
    {.letter = 'l',
     .name = "language",
     OPT_TO_STRING(struct run_options, language),
     .arg = "NAME",
     .help = "of the context, if there is none yet and it is made: python, javascript, bash "
             "(python)"},
    {.name = "attach",
     OPT_TO_FLAG(struct run_options, attach),
     .help = "follow the last run from its beginning, instead of starting one"},
    {.name = "figures",
     OPT_TO_STRING(struct run_options, figures),
     .arg = "DIR",
     .complete = OPT_COMPLETE_FOLDER,
     .help = "save the figures that it shows as DIR/figure-1.png, DIR/figure-1.svg …"},
    {.name = "timeout",
     OPT_TO_DURATION(struct run_options, timeout_ms),
     .arg = "TIME",
     .help = "interrupt it after this time, 0 for never (300s)"},
    {.letter = 'e',
     .name = "env",
     OPT_TO_STRINGS(struct run_options, env),
     .arg = "KEY=VALUE",
     .help = "set an environment variable, for this run only"},
    {0},
};

struct execution {
    const struct run_options *o;
    struct session_verb v;
    struct exec_streams streams;
    struct exec_outcome outcome;
    struct buf report, code;
    struct context_beginning beginning;
    bool oom_killed;
};

/* ---- the code ---- */

static int advise_source(struct cay_error *err) {
    return error_remedy(err, "name a file, - for standard input, or -c CODE");
}

static int read_file(struct execution *x, const char *name) {
    struct cay_error *err = &x->v.err;
    char shown[128];
    (void)str_escape(shown, sizeof shown, name);
    bool is_input = str_equal(name, "-");
    _cleanup_(closep) int opened = is_input ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    if (opened < 0 && !is_input) {
        error_errno(err, "opening '%s'", shown);
        return advise_source(err);
    }
    int r = fd_read_to_end(is_input ? STDIN_FILENO : opened, &x->code);
    if (r == -ENOBUFS) {
        error_set(err, CAY_INVALID_ARGUMENT, "'%s' has more than %d bytes", shown, CODE_MAX);
        return error_remedy(err, "keep data in files of their own");
    }
    return r < 0 ? error_sys(err, -r, "reading '%s'", shown) : 0;
}

static int find_code(struct execution *x, const char *file) {
    struct cay_error *err = &x->v.err;
    if (x->o->attach)
        return 0;
    if (x->o->code == NULL && file == NULL) {
        error_set(err, CAY_INVALID_ARGUMENT, "no code given");
        return advise_source(err);
    }
    if (x->o->code != NULL && file != NULL) {
        error_set(err, CAY_INVALID_ARGUMENT, "code is given twice, by -c and as a file");
        return advise_source(err);
    }
    int r = x->o->code == NULL ? read_file(x, file)
            : buf_puts(&x->code, x->o->code) < 0
                ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory for the code")
                : 0;
    if (r == 0 && x->code.len > 0 && memchr(x->code.data, '\0', x->code.len) != NULL)
        return error_set(err, CAY_INVALID_ARGUMENT, "the code has a NUL byte");
    return r;
}

/* ---- the run ---- */

static int ask(struct execution *x, const char *sandbox, const char *name, int64_t timeout_ms) {
    const struct wire_session_exec exec = {.text = buf_text(&x->code),
                                           .env = (const char *const *)x->o->env.v,
                                           .echo = x->o->common.output != OUTPUT_JSON,
                                           .timeout_ms = timeout_ms};
    session_close(&x->v);
    x->v = SESSION_VERB_INIT(&x->o->common);
    int r = context_open(&x->v, sandbox);
    if (r == 0)
        r = x->o->attach ? wire_session_logs(&x->v.call, name, 0, 0, 0, true, &x->v.err)
                         : wire_session_exec(&x->v.call, name, &exec, &x->v.err);
    if (r < 0)
        return r;
    struct follow f = session_follow(&x->v, sandbox, name);
    if (timeout_ms > 0 && !x->o->attach)
        f.deadline_ms = clock_ms() + timeout_ms + HOST_GRACE_MS;
    return follow_command(&f, &x->streams, &x->outcome, &x->v.err);
}

/* Somebody else may make it in this moment. */
static int make(struct execution *x, const char *sandbox, const char *name, struct cay_error *err) {
    const struct context_wish wish = {.language = x->o->language};
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(&x->o->common);
    int r = context_make(&v, sandbox, name, &wish, &x->beginning);
    *err = v.err;
    if (r < 0)
        x->beginning = (struct context_beginning){0};
    return r == -CAY_CONFLICT ? 0 : r;
}

/* A sandbox that is not there is not found either, by the daemon, and then again. */
static int execute(struct execution *x, char **argv) {
    int64_t timeout_ms = 0;
    int r = find_code(x, argv[2]);
    if (r == 0 && x->o->language != NULL && context_language(x->o->language, &x->v.err) == NULL)
        r = -(int)x->v.err.code;
    if (r == 0)
        r = command_find_timeout(&x->o->common, x->o->timeout_ms, &timeout_ms, &x->v.err);
    if (r == 0)
        r = command_catch_signals(&x->streams.signals, &x->v.err);
    if (r < 0)
        return r;
    r = ask(x, argv[0], argv[1], timeout_ms);
    if (r != -CAY_NOT_FOUND || x->outcome.started || x->o->attach)
        return r;
    r = make(x, argv[0], argv[1], &x->v.err);
    return r < 0 ? r : ask(x, argv[0], argv[1], timeout_ms);
}

/* ---- telling ---- */

static void explain(const struct execution *x) {
    const struct exec_outcome *o = &x->outcome;
    if (x->o->common.quiet)
        return;
    if (o->restarted)
        verb_note("the interpreter had ended; this ran in a new one, without what it knew");
    if (o->reason == WIRE_REASON_TIMEOUT)
        verb_note("interrupted: it ran longer than --timeout");
    if (o->fatal)
        verb_note("the interpreter %s; what it knew is lost",
                  x->oom_killed ? "was killed, since the sandbox is out of memory" : "ended");
}

static int tell(struct execution *x, int failed) {
    const struct context_reported told = {.outcome = &x->outcome,
                                          .streams = &x->streams,
                                          .report = &x->report,
                                          .figures = x->o->figures,
                                          .beginning = &x->beginning,
                                          .oom_killed = x->oom_killed};
    if (failed == 0)
        failed = context_report(&x->v, &told, &x->v.err);
    if (x->o->common.output == OUTPUT_JSON)
        return context_report_json(&x->v, &told, failed < 0);
    if (failed < 0)
        return verb_fail_with(&x->v.err, FAILED);
    explain(x);
    return x->outcome.exit_code;
}

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    const struct run_options *o = values;
    bool json = o->common.output == OUTPUT_JSON;
    struct execution x = {
        .o = o,
        .v = SESSION_VERB_INIT(&o->common),
        .streams = {.in = -1,
                    .out = {json ? -1 : STDOUT_FILENO, json ? -1 : STDERR_FILENO},
                    .captured = {BUF_INIT(CAPTURED_MAX), BUF_INIT(CAPTURED_MAX)},
                    .signals = -1},
        .outcome = {.exit_code = FAILED},
        .report = BUF_INIT(CONTEXT_REPORT_MAX),
        .code = BUF_INIT(CODE_MAX),
    };
    x.streams.report = &x.report;
    int64_t began = clock_us();
    int failed = execute(&x, argv);
    x.oom_killed = x.outcome.fatal && session_ran_out_of_memory(&x.v, argv[0], began, &x.outcome);
    int code = tell(&x, failed);
    session_close(&x.v);
    fd_close(&x.streams.signals);
    buf_free(&x.streams.captured[0]);
    buf_free(&x.streams.captured[1]);
    buf_free(&x.report);
    buf_free(&x.code);
    return code;
}

static const struct run_options defaults = {.timeout_ms = -1};

const struct opt_command context_run = {
    .name = "run",
    .path = "cay context run",
    .synopsis = "[OPTIONS] SANDBOX CONTEXT FILE|-|-c CODE",
    .summary = "run code in a context, which is made if there is none",
    .help = "Variables, imports, functions and the folder stay for the next code. The value of the "
            "last expression is printed, and so is what display() is called with; with -o json "
            "these are results, with their other forms: tables as HTML and JSON, figures as PNG "
            "and SVG with the data of the chart.\n\n"
            "Ctrl-C interrupts the code and leaves the context as it is. Without the caller the "
            "code goes on; --attach finds it again. The exit code is 0, or 1 after an exception, "
            "124 when --timeout struck, 130 after an interrupt, 125 when cay itself failed.",
    .examples = "cay context run lab notes -c 'import pandas as pd; df = pd.read_csv(\"a.csv\")'\n"
                "cay context run lab notes -c 'df.describe()'\n"
                "cay context run --figures out lab notes plot.py\n",
    .options = options,
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = 3,
    .values_size = sizeof(struct run_options),
    .defaults = &defaults,
    .run = run,
};
