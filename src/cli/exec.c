/* `cay exec` and `cay shell`: a command in a sandbox that stays. */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/env.h"
#include "cli/habits.h"
#include "cli/sandbox.h"
#include "cli/session/attach.h"
#include "cli/session/detach_keys.h"
#include "cli/session/terminal.h"
#include "client/oom.h"
#include "lib/command.h"

struct exec_options {
    struct verb_common common;
    const char *workdir, *user;
    const char *name, *detach_keys; /* of a shell that stays */
    int64_t timeout_ms, idle_output_ms;
    uint64_t output_max;
    struct strv env, env_files;
    bool interactive, tty;
};

static const struct opt options[] = {
    {.letter = 'i',
     .name = "interactive",
     OPT_TO_FLAG(struct exec_options, interactive),
     .help = "pass standard input on (always done; accepted for habit)"},
    {.letter = 't',
     .name = "tty",
     OPT_TO_FLAG(struct exec_options, tty),
     .help = "give the command a terminal"},
    {.letter = 'u',
     .name = "user",
     OPT_TO_STRING(struct exec_options, user),
     .arg = "USER[:GROUP]",
     .help = "who runs the command inside (the sandbox's user)"},
    {.letter = 'w',
     .name = "workdir",
     OPT_TO_STRING(struct exec_options, workdir),
     .arg = "DIR",
     .help = "where the command starts, made if missing (the sandbox's folder)"},
    {.letter = 'e',
     .name = "env",
     OPT_TO_STRINGS(struct exec_options, env),
     .arg = "KEY[=VALUE]",
     .help = "set an environment variable; without a value, the caller's"},
    {.name = "env-file",
     OPT_TO_STRINGS(struct exec_options, env_files),
     .arg = "FILE",
     .help = "read environment variables from a file with lines of KEY=VALUE",
     .complete = OPT_COMPLETE_FILE},
    {.name = "timeout",
     OPT_TO_DURATION(struct exec_options, timeout_ms),
     .arg = "TIME",
     .help = "end the command after this time, 0 for never (300s; never with --tty)"},
    {.name = "idle-output-timeout",
     OPT_TO_DURATION(struct exec_options, idle_output_ms),
     .arg = "TIME",
     .help = "end the command when it prints nothing for this long"},
    {.name = "output-max",
     OPT_TO_SIZE(struct exec_options, output_max),
     .arg = "SIZE",
     .help = "end the command when it has printed this much"},
    {0},
};

/* What one command holds. */
struct execution {
    const struct exec_options *o;
    const char *const *argv;
    struct strv env;
    struct daemon daemon;
    struct daemon_connection connection;
    struct terminal terminal;
    int64_t timeout_ms;
    int signals;
    struct cay_result result;
    struct cay_error err;
};

/* ---- doing it ---- */

static struct cay_exec make_exec(const struct execution *x) {
    const struct exec_options *o = x->o;
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.argv = x->argv;
    exec.env = (const char *const *)x->env.v;
    exec.work_dir = o->workdir;
    exec.user = o->user;
    exec.tty = o->tty;
    exec.stdin_fd = STDIN_FILENO;
    if (o->common.output != OUTPUT_JSON) {
        exec.stdout_fd = STDOUT_FILENO;
        exec.stderr_fd = STDERR_FILENO;
    }
    exec.signal_fd = x->signals;
    exec.timeout_ms = x->timeout_ms;
    exec.idle_output_timeout_ms = o->idle_output_ms;
    exec.output_max = o->output_max;
    return exec;
}

static int check_options(struct execution *x) {
    if (x->o->user != NULL && x->o->user[0] == '\0') {
        error_set(&x->err, CAY_INVALID_ARGUMENT, "--user is empty");
        return error_remedy(&x->err, "name a user, or leave it away");
    }
    int r = command_check_tty(x->o->tty, &x->err);
    if (r == 0)
        r = env_collect(&x->o->env_files, &x->o->env, &x->env, &x->err);
    if (r < 0)
        return r;
    if (x->o->tty && x->o->timeout_ms < 0)
        return 0; /* a person who types is not ended in the middle of a word */
    return command_find_timeout(&x->o->common, x->o->timeout_ms, &x->timeout_ms, &x->err);
}

/* Signals are the command's as soon as there is a connection: before, they end us. */
static int connect_to(struct execution *x, const char *who) {
    const struct daemon_choice choice = sandbox_choice(&x->o->common);
    int r = check_options(x);
    if (r == 0)
        r = daemon_open(&choice, &x->daemon, &x->err);
    if (r == 0)
        r = daemon_connect(&x->daemon, who, &x->connection, &x->err);
    return r < 0 ? r : command_catch_signals(&x->signals, &x->err);
}

static int execute(struct execution *x, const char *who) {
    int r = connect_to(x, who);
    if (r < 0)
        return r;
    const struct command_defaults defaults = {
        .user = x->connection.user,
        .hostname = x->connection.name,
        .work_dir = x->connection.work_dir,
        .env = x->connection.env,
    };
    struct cay_exec exec = make_exec(x);
    if (x->o->tty)
        (void)terminal_raw(&x->terminal, STDIN_FILENO); /* isatty was checked */
    int64_t began = clock_us();
    r = command_exec(&x->connection.fd, &exec, &defaults, &x->result, &x->err);
    terminal_restore(&x->terminal);
    if (r == 0)
        oom_judge(&x->daemon, who, began, &x->result);
    return r;
}

/* ---- telling ---- */

static int print_json(struct execution *x, int failed) {
    _cleanup_(buf_free) struct buf b = BUF_INIT((size_t)256 << 20);
    struct jsonw w = JSONW_INIT(&b);
    jsonw_begin_object(&w);
    command_put_result(&w, &x->result, x->result.exit_code);
    if (failed < 0)
        command_put_error(&w, &x->err);
    jsonw_end_object(&w);
    return command_print(&b, x->result.exit_code);
}

/* `cay exec lab 'echo hi'` is a line for a shell. */
static void suggest_shell(struct execution *x) {
    const char *word = x->argv[0];
    if (x->argv[1] == NULL && strpbrk(word, " \t;|&$") != NULL)
        (void)error_remedy(&x->err, "a line for a shell needs one: sh -c '%.200s'", word);
}

static int report(struct execution *x, int failed) {
    if (failed < 0 && x->result.exit_code == 127)
        suggest_shell(x);
    if (x->o->common.output == OUTPUT_JSON)
        return print_json(x, failed);
    if (failed < 0)
        return verb_fail_with(&x->err, x->result.exit_code);
    if (!x->o->common.quiet)
        command_explain(&x->result);
    return x->result.exit_code;
}

static int run_in(const struct exec_options *o, const char *who, const char *const *argv) {
    struct execution x = {.o = o,
                          .argv = argv,
                          .connection = DAEMON_CONNECTION_INIT,
                          .terminal = TERMINAL_NONE,
                          .signals = -1,
                          .result = {.exit_code = 125}};
    int failed = execute(&x, who);
    int code = report(&x, failed);
    daemon_disconnect(&x.connection);
    daemon_close(&x.daemon);
    cay_result_free(&x.result);
    strv_free(&x.env);
    fd_close(&x.signals);
    return code;
}

static int run_exec(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    struct cay_error err;
    char **command = argv + 1;
    if (argc > 1 && strcmp(command[0], "--") == 0)
        command++;
    if (command[0] != NULL)
        return run_in(values, argv[0], (const char *const *)command);
    error_set(&err, CAY_INVALID_ARGUMENT, "no command given");
    (void)error_remedy(&err, "say what to run: cay exec SANDBOX -- COMMAND [ARG...]");
    return verb_fail_with(&err, 125);
}

static int run_named_shell(const struct exec_options *o, const char *who) {
    struct cay_error err;
    const struct session_program program = {
        .user = o->user, .workdir = o->workdir, .env = (const char *const *)o->env.v, .tty = true};
    if (isatty(STDIN_FILENO))
        return attach_shell(&o->common, who, o->name, &program, o->detach_keys);
    error_set(&err, CAY_INVALID_ARGUMENT, "--name needs a terminal on standard input");
    (void)error_remedy(&err, "use 'cay terminal create' and 'cay terminal attach'");
    return verb_fail_with(&err, 125);
}

static int run_shell(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    static const char *const shell[] = {"sh", "-c", COMMAND_SHELL, NULL};
    struct exec_options *o = values;
    o->tty = isatty(STDIN_FILENO);
    if (o->name != NULL)
        return run_named_shell(o, argv[0]);
    return run_in(o, argv[0], shell);
}

/* ---- descriptors ---- */

static const struct exec_options exec_defaults = {.timeout_ms = -1};

const struct opt_command cli_exec = {
    .name = "exec",
    .path = "cay exec",
    .synopsis = "[OPTIONS] SANDBOX [--] COMMAND [ARG...]",
    .summary = "run a command in a sandbox",
    .help = "Input, output and exit code are the command's, as with 'cay run': 124 when a time or "
            "output limit struck, 125 when cay itself failed, 126 when the command cannot be "
            "executed, 127 when it is not found, 128+n when signal n ended it.",
    .examples = "cay exec web -- python3 -c 'print(6*7)'\n"
                "cay exec -t web top\n"
                "cay exec -u nobody -w /tmp web -- id\n"
                "tar c src | cay exec web -- tar x\n",
    .group = CLI_SANDBOXES,
    .options = options,
    .habits = habits_options,
    .stop_at_operand = true,
    .candidates = CLI_CANDIDATES,
    .min_operands = 1,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct exec_options),
    .defaults = &exec_defaults,
    .run = run_exec,
};

static const struct opt shell_table[] = {
    {.letter = 'n',
     .name = "name",
     OPT_TO_STRING(struct exec_options, name),
     .arg = "TERMINAL",
     .help = "on a terminal that stays, made if missing: see 'cay terminal'"},
    {.name = "detach-keys",
     OPT_TO_STRING(struct exec_options, detach_keys),
     .arg = "KEYS",
     .help = "with --name: what leaves it (" DETACH_KEYS_DEFAULT ")"},
    {.letter = 'u',
     .name = "user",
     OPT_TO_STRING(struct exec_options, user),
     .arg = "USER[:GROUP]",
     .help = "whose shell it is (the sandbox's user)"},
    {.letter = 'w',
     .name = "workdir",
     OPT_TO_STRING(struct exec_options, workdir),
     .arg = "DIR",
     .help = "where it starts (the sandbox's folder)"},
    {.letter = 'e',
     .name = "env",
     OPT_TO_STRINGS(struct exec_options, env),
     .arg = "KEY=VALUE",
     .help = "set an environment variable"},
    {0},
};

const struct opt_command cli_shell = {
    .name = "shell",
    .path = "cay shell",
    .synopsis = "[OPTIONS] SANDBOX",
    .summary = "open a shell in a sandbox",
    .help = "A login shell, bash where there is one, on a terminal of its own. It has no time "
            "limit, and ends with the caller.\n\n"
            "With --name it stays: " DETACH_KEYS_DEFAULT " leaves it, and the same command comes "
            "back to it, with what was printed before. Its exit code is the shell's, 0 after "
            "leaving.",
    .examples = "cay shell web\n"
                "cay shell --name main web\n",
    .group = CLI_SANDBOXES,
    .options = shell_table,
    .candidates = CLI_CANDIDATES,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct exec_options),
    .run = run_shell,
};
