/* `cay session exec`, `logs` and `input`: the commands of a session, with their streams. */
#include <cay.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/session/session.h"
#include "client/oom.h"
#include "wire/client_exec.h"

/* The inside asks, waits, kills; then the host stops believing it. Also on a machine that stands
 * still meanwhile, since the session would still be busy for who is told too early. */
enum { HOST_GRACE_MS = 30 * 1000, FAILED = 125 };

/* ---- exec ---- */

struct exec_options {
    struct verb_common common;
    int64_t timeout_ms, idle_output_ms;
    bool async, input;
};

static const struct opt exec_table[] = {
    {.name = "async",
     OPT_TO_FLAG(struct exec_options, async),
     .help = "print the number of the command and do not wait for it"},
    {.name = "input",
     OPT_TO_FLAG(struct exec_options, input),
     .help = "with --async: give it an input that 'cay session input' writes to"},
    {.name = "timeout",
     OPT_TO_DURATION(struct exec_options, timeout_ms),
     .arg = "TIME",
     .help = "end the command after this time, 0 for never (300s)"},
    {.name = "idle-output-timeout",
     OPT_TO_DURATION(struct exec_options, idle_output_ms),
     .arg = "TIME",
     .help = "end the command when it prints nothing for this long"},
    {0},
};

/* The words with spaces between them, as a shell's user would have typed them. */
static int join_words(char **argv, struct buf *b, struct cay_error *err) {
    if (argv[0] != NULL && strcmp(argv[0], "--") == 0)
        argv++;
    for (char **p = argv; *p != NULL; p++) {
        if (p != argv)
            (void)buf_putc(b, ' ');
        (void)buf_puts(b, *p);
    }
    if (b->failed)
        return error_set(err, CAY_INVALID_ARGUMENT, "the command is longer than 4 MB");
    if (argv[0] != NULL)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "no command given");
    return error_remedy(err, "say what to run: cay session exec SANDBOX SESSION -- COMMAND");
}

struct execution {
    const struct exec_options *o;
    struct session_verb v;
    struct exec_streams streams;
    struct exec_outcome outcome;
    bool oom_killed;
};

static int execute(struct execution *x, const char *sandbox, const char *session, char **words) {
    struct cay_error *err = &x->v.err;
    struct wire_session_exec exec = {.async = x->o->async,
                                     .want_stdin = !x->o->async || x->o->input,
                                     .quiet_ms = x->o->idle_output_ms};
    _cleanup_(buf_free) struct buf text = BUF_INIT(WIRE_MESSAGE_MAX);
    int r = join_words(words, &text, err);
    exec.text = buf_text(&text);
    if (r == 0)
        r = command_find_timeout(&x->o->common, x->o->timeout_ms, &exec.timeout_ms, err);
    if (r == 0)
        r = session_open(&x->v, sandbox);
    if (r == 0)
        r = command_catch_signals(&x->streams.signals, err);
    if (r == 0)
        r = wire_session_exec(&x->v.call, session, &exec, err);
    if (r < 0)
        return r;
    struct follow f = session_follow(&x->v, sandbox, session);
    f.deadline_ms = exec.timeout_ms > 0 ? clock_ms() + exec.timeout_ms + HOST_GRACE_MS : 0;
    return follow_command(&f, &x->streams, &x->outcome, err);
}

bool session_ran_out_of_memory(const struct session_verb *v, const char *sandbox, int64_t began_us,
                               const struct exec_outcome *o) {
    struct cay_result judged = {.exit_code = o->exit_code,
                                .timed_out = o->reason == WIRE_REASON_TIMEOUT ||
                                             o->reason == WIRE_REASON_QUIET};
    oom_judge(&v->daemon, sandbox, began_us, &judged);
    return judged.oom_killed;
}

void session_put_files(struct jsonw *w, const struct exec_outcome *o) {
    jsonw_put_string(w, "stdout_file", o->file[0][0] != '\0' ? o->file[0] : NULL);
    jsonw_put_string(w, "stderr_file", o->file[1][0] != '\0' ? o->file[1] : NULL);
}

static int print_json(struct execution *x, int failed) {
    _cleanup_(buf_free) struct buf b = BUF_INIT((size_t)256 << 20);
    const struct exec_outcome *o = &x->outcome;
    const struct cay_result result = {
        .out = x->streams.captured[0].data,
        .out_len = x->streams.captured[0].len,
        .err = x->streams.captured[1].data,
        .err_len = x->streams.captured[1].len,
        .timed_out = o->reason == WIRE_REASON_TIMEOUT || o->reason == WIRE_REASON_QUIET,
        .output_truncated = o->truncated,
        .oom_killed = x->oom_killed,
        .duration_us = o->elapsed_us,
    };
    struct jsonw w = JSONW_INIT(&b);
    jsonw_begin_object(&w);
    jsonw_put_unsigned(&w, "number", o->number);
    jsonw_put_bool(&w, "restarted", o->restarted);
    if (!x->o->async) {
        command_put_result(&w, &result, o->exit_code);
        session_put_files(&w, o);
    }
    if (failed < 0)
        command_put_error(&w, &x->v.err);
    jsonw_end_object(&w);
    return command_print(&b, failed < 0 ? FAILED : o->exit_code);
}

static int report(struct execution *x, int failed) {
    const struct exec_outcome *o = &x->outcome;
    if (x->o->common.output == OUTPUT_JSON)
        return print_json(x, failed);
    if (failed < 0)
        return verb_fail_with(&x->v.err, FAILED);
    if (o->restarted && !x->o->common.quiet)
        verb_note("the shell of the session had ended; this ran in a new one");
    if (!x->o->common.quiet && o->reason == WIRE_REASON_TIMEOUT)
        verb_note("ended: it ran longer than --timeout");
    if (!x->o->common.quiet && o->reason == WIRE_REASON_QUIET)
        verb_note("ended: it printed nothing for --idle-output-timeout");
    if (!x->o->common.quiet && x->oom_killed)
        verb_note("a process was killed: the sandbox is out of memory");
    if (!x->o->async)
        return o->exit_code;
    _cleanup_(buf_free) struct buf b = BUF_INIT(64);
    (void)buf_printf(&b, "%llu\n", (unsigned long long)o->number);
    return verb_print(&b);
}

static int run_exec(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    enum { CAPTURED_MAX = 16 * 1024 * 1024 };
    struct exec_options *o = values;
    bool json = o->common.output == OUTPUT_JSON;
    struct execution x = {
        .o = o,
        .v = SESSION_VERB_INIT(&o->common),
        .streams = {.in = o->async ? -1 : STDIN_FILENO,
                    .out = {json ? -1 : STDOUT_FILENO, json ? -1 : STDERR_FILENO},
                    .captured = {BUF_INIT(CAPTURED_MAX), BUF_INIT(CAPTURED_MAX)},
                    .signals = -1},
        .outcome = {.exit_code = FAILED},
    };
    int64_t began = clock_us();
    int failed = execute(&x, argv[0], argv[1], argv + 2);
    x.oom_killed = !o->async && session_ran_out_of_memory(&x.v, argv[0], began, &x.outcome);
    int code = report(&x, failed);
    session_close(&x.v);
    fd_close(&x.streams.signals);
    buf_free(&x.streams.captured[0]);
    buf_free(&x.streams.captured[1]);
    return code;
}

static const struct exec_options exec_defaults = {.timeout_ms = -1};

const struct opt_command session_exec = {
    .name = "exec",
    .path = "cay session exec",
    .synopsis = "[OPTIONS] SANDBOX SESSION [--] COMMAND...",
    .summary = "run a command in the shell of a session",
    .help = "The words are joined by spaces and read by the shell itself, so folder, variables, "
            "functions and aliases stay for the next command. Output and exit code are the "
            "command's; 124 when a time limit struck, 125 when cay itself failed. A session runs "
            "one command at a time and refuses another meanwhile.\n\n"
            "A command that ends the shell ('exit', 'exec', a failure under 'set -e') has that "
            "exit code; the next one gets a new shell in the last folder, and says so. Without "
            "the caller a command goes on: see 'cay session status' and 'logs'. If the daemon "
            "restarts meanwhile, its output is followed again, and its input ends.",
    .examples = "cay session exec lab build -- 'cd /src; export CC=clang'\n"
                "cay session exec lab build -- make -j4\n"
                "cay session exec --async lab build -- make test\n",
    .options = exec_table,
    .stop_at_operand = true,
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct exec_options),
    .defaults = &exec_defaults,
    .run = run_exec,
};

/* ---- logs and input ---- */

struct stream_options {
    struct verb_common common;
    bool follow, keep_open;
    int stream;
    int64_t offset;
};

static const char *const stream_names[] = {"both", "stdout", "stderr", NULL};

static const struct opt logs_table[] = {
    {.letter = 'f',
     .name = "follow",
     OPT_TO_FLAG(struct stream_options, follow),
     .help = "go on until the command ends"},
    {.name = "stream",
     OPT_TO_CHOICE(struct stream_options, stream),
     .arg = "NAME",
     .choices = stream_names,
     .help = "which output: both, stdout, stderr (both)"},
    {.name = "offset",
     OPT_TO_INTEGER(struct stream_options, offset),
     .arg = "BYTES",
     .min = 0,
     .max = 1e15,
     .help = "leave out so many bytes of each stream"},
    {0},
};

static const struct opt input_table[] = {
    {.letter = 'k',
     .name = "keep-open",
     OPT_TO_FLAG(struct stream_options, keep_open),
     .help = "the command's input does not end with this one"},
    {0},
};

static int take_number(const char *text, uint64_t *ret, struct cay_error *err) {
    *ret = 0;
    if (text == NULL || (str_to_u64(text, UINT64_MAX, ret) == 0 && *ret > 0))
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "'%.32s' is not the number of a command", text);
    return error_remedy(err, "see 'cay session status'");
}

static int ask(const struct stream_options *o, struct session_verb *v, char **argv, bool input) {
    uint64_t number;
    int r = take_number(argv[2], &number, &v->err);
    if (r == 0)
        r = session_open(v, argv[0]);
    if (r < 0)
        return r;
    return input ? wire_session_input(&v->call, argv[1], number, !o->keep_open, &v->err)
                 : wire_session_logs(&v->call, argv[1], number, o->stream, (uint64_t)o->offset,
                                     o->follow, &v->err);
}

static int run_streams(const struct stream_options *o, char **argv, bool input) {
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(&o->common);
    struct exec_streams streams = {
        .in = input ? STDIN_FILENO : -1, .out = {STDOUT_FILENO, STDERR_FILENO}, .signals = -1};
    struct exec_outcome outcome;
    int r = ask(o, &v, argv, input);
    struct follow f = session_follow(&v, argv[0], argv[1]);
    f.stream = o->stream;
    f.offset = (uint64_t)o->offset;
    if (r == 0)
        r = o->follow ? follow_command(&f, &streams, &outcome, &v.err)
                      : exec_carry(v.call.fd, &streams, 0, &outcome, &v.err);
    return r < 0 ? session_fail(&v, 0) : 0;
}

static int run_logs(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    return run_streams(values, argv, false);
}

static int run_input(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    return run_streams(values, argv, true);
}

const struct opt_command session_logs = {
    .name = "logs",
    .path = "cay session logs",
    .synopsis = "[OPTIONS] SANDBOX SESSION [NUMBER]",
    .summary = "print what a command of a session has printed",
    .help = "Of the last command, unless its number is given. Standard output and standard error "
            "go to ours.",
    .options = logs_table,
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = 3,
    .values_size = sizeof(struct stream_options),
    .run = run_logs,
};

const struct opt_command session_input = {
    .name = "input",
    .path = "cay session input",
    .synopsis = "[OPTIONS] SANDBOX SESSION [NUMBER]",
    .summary = "write standard input to a command of a session",
    .help = "The command must have been started with --async --input.",
    .examples = "echo yes | cay session input lab build\n",
    .options = input_table,
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = 3,
    .values_size = sizeof(struct stream_options),
    .run = run_input,
};
