/* `cay session`: shells that stay in a sandbox, with what they know. */
#include "cli/session/session.h"

#include <cay.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/path.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/sandbox.h"
#include "cli/session/session_list.h"
#include "lib/command.h"
#include "wire/client_files.h"

enum { ANSWER_MS = 30000, CELL_MAX = 128 };

int session_open(struct session_verb *v, const char *sandbox) {
    const struct daemon_choice choice = sandbox_choice(v->common);
    int r = daemon_open(&choice, &v->daemon, &v->err);
    if (r == 0)
        r = daemon_connect(&v->daemon, sandbox, &v->connection, &v->err);
    v->call.fd = v->connection.fd;
    v->call.deadline_ms = clock_ms() + ANSWER_MS;
    return r;
}

void session_close(struct session_verb *v) {
    daemon_disconnect(&v->connection);
    daemon_close(&v->daemon);
}

static void say_waiting(void) {
    verb_note("the daemon has gone; waiting for it to come back");
}

static void say_input_cut(void) {
    verb_note("the daemon restarted; the command goes on, but its input has ended");
}

struct follow session_follow(struct session_verb *v, const char *sandbox, const char *session) {
    bool quiet = v->common->quiet;
    return (struct follow){.daemon = &v->daemon,
                           .connection = &v->connection,
                           .call = &v->call,
                           .sandbox = sandbox,
                           .session = session,
                           .waits = quiet ? NULL : say_waiting,
                           .input_cut = quiet ? NULL : say_input_cut};
}

int session_fail(const struct session_verb *v, int code) {
    if (code == 0)
        code = cay_code_exit(v->err.code);
    if (v->common->output != OUTPUT_JSON)
        return verb_fail_with(&v->err, code);
    _cleanup_(buf_free) struct buf b = BUF_INIT(64 * 1024);
    struct jsonw w = JSONW_INIT(&b);
    jsonw_begin_object(&w);
    command_put_error(&w, &v->err);
    jsonw_end_object(&w);
    return command_print(&b, code);
}

int session_begin(struct session_verb *v, const struct session_program *p,
                  struct session_beginning *ret) {
    const struct daemon_connection *c = &v->connection;
    const struct command_defaults defaults = {.user = c->user, .hostname = c->name, .env = c->env};
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.env = p->env;
    exec.tty = p->tty;
    int r = path_normalize("--workdir", p->workdir != NULL ? p->workdir : c->work_dir, ret->cwd,
                           sizeof ret->cwd, &v->err);
    if (r < 0)
        return r;
    ret->env = command_env(&defaults, &exec, ret->hostname, sizeof ret->hostname, &v->err);
    if (ret->env == NULL)
        return -(int)v->err.code;
    v->call.user = p->user != NULL ? p->user : c->user;
    v->call.cwd = ret->cwd;
    return 0;
}

void session_begun(struct session_verb *v, struct session_beginning *b) {
    v->call.cwd = NULL;
    free(b->env);
    b->env = NULL;
}

static int look_at_folder(struct session_verb *v, const char *sandbox, const char *path) {
    _cleanup_(session_close) struct session_verb other = SESSION_VERB_INIT(v->common);
    int r = session_open(&other, sandbox);
    other.call.user = v->call.user;
    if (r == 0 && wire_check_folder(&other.call, path, &other.err) < 0)
        r = error_prefix(&other.err, "--workdir");
    if (r < 0)
        v->err = other.err;
    return r;
}

int session_check_folder(struct session_verb *v, const char *sandbox, const char *name,
                         const char *workdir) {
    char path[PATH_MAX];
    if (workdir == NULL)
        return 0;
    int r = path_normalize("--workdir", workdir, path, sizeof path, &v->err);
    if (r == 0)
        r = look_at_folder(v, sandbox, path);
    if (r == 0)
        return 0;
    _cleanup_(session_close) struct session_verb other = SESSION_VERB_INIT(v->common);
    if (session_open(&other, sandbox) == 0) { /* there is one error to tell, and it is in v */
        other.call.kind = v->call.kind;
        (void)wire_session_delete(&other.call, name, &other.err);
    }
    return r;
}

/* ---- create ---- */

struct create_options {
    struct verb_common common;
    const char *shell, *user, *workdir;
    struct strv env;
};

static const struct opt create_table[] = {
    {.name = "shell",
     OPT_TO_STRING(struct create_options, shell),
     .arg = "PROGRAM",
     .help = "a POSIX shell of the sandbox (bash, or sh where there is none)"},
    {.letter = 'u',
     .name = "user",
     OPT_TO_STRING(struct create_options, user),
     .arg = "USER[:GROUP]",
     .help = "whose shell it is (the sandbox's user)"},
    {.letter = 'w',
     .name = "workdir",
     OPT_TO_STRING(struct create_options, workdir),
     .arg = "DIR",
     .help = "where it starts, made if missing (the sandbox's folder)"},
    {.letter = 'e',
     .name = "env",
     OPT_TO_STRINGS(struct create_options, env),
     .arg = "KEY=VALUE",
     .help = "set an environment variable"},
    {0},
};

static int create_session(struct session_verb *v, const struct create_options *o,
                          const char *name) {
    const struct session_program program = {
        .user = o->user, .workdir = o->workdir, .env = (const char *const *)o->env.v};
    struct session_beginning b = {0};
    int r = session_begin(v, &program, &b);
    if (r == 0)
        r = wire_session_create(&v->call, name, o->shell, b.env, &v->err);
    session_begun(v, &b);
    return r;
}

int session_report_name(const struct session_verb *v, const char *name) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    if (v->common->output == OUTPUT_JSON) {
        struct jsonw w = JSONW_INIT(&b);
        jsonw_begin_object(&w);
        jsonw_put_string(&w, "name", name);
        jsonw_end_object(&w);
    } else {
        (void)buf_puts(&b, name);
    }
    (void)buf_putc(&b, '\n');
    return verb_print(&b);
}

static int do_one(const struct verb_common *common, const char *sandbox, const char *name,
                  session_deed *deed) {
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(common);
    if (session_open(&v, sandbox) < 0 || deed(&v, name) < 0)
        return session_fail(&v, 0);
    return common->quiet ? 0 : session_report_name(&v, name);
}

int session_each(const struct verb_common *common, int argc, char **argv, session_deed *deed) {
    int code = 0;
    for (int i = 1; i < argc; i++) {
        int r = do_one(common, argv[0], argv[i], deed);
        code = code != 0 ? code : r;
    }
    return code;
}

static int run_create(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    const struct create_options *o = values;
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(&o->common);
    if (session_open(&v, argv[0]) < 0 || create_session(&v, o, argv[1]) < 0 ||
        session_check_folder(&v, argv[0], argv[1], o->workdir) < 0)
        return session_fail(&v, 0);
    return session_report_name(&v, argv[1]);
}

static const struct opt_command create = {
    .name = "create",
    .path = "cay session create",
    .synopsis = "[OPTIONS] SANDBOX SESSION",
    .summary = "start a shell that stays",
    .examples = "cay session create lab build\n"
                "cay session exec lab build -- 'cd src && export CC=clang'\n",
    .options = create_table,
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = 2,
    .values_size = sizeof(struct create_options),
    .run = run_create,
};

/* ---- ls ---- */

static int collect_name(void *arg, const char *name, struct cay_error *err) {
    return strv_push(arg, name) < 0 ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

static int run_ls(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(values);
    _cleanup_(strv_free) struct strv names = {0};
    _cleanup_(buf_free) struct buf b = BUF_INIT(1024 * 1024);
    if (session_open(&v, argv[0]) < 0 ||
        wire_session_list(&v.call, collect_name, &names, &v.err) < 0)
        return session_fail(&v, 0);
    struct jsonw w = JSONW_INIT(&b);
    bool json = v.common->output == OUTPUT_JSON;
    if (json)
        jsonw_begin_array(&w);
    for (size_t i = 0; i < names.len; i++) {
        if (json) {
            jsonw_begin_object(&w);
            jsonw_put_string(&w, "name", names.v[i]);
            jsonw_end_object(&w);
        } else {
            (void)buf_printf(&b, "%s\n", names.v[i]);
        }
    }
    if (json) {
        jsonw_end_array(&w);
        (void)buf_putc(&b, '\n');
    }
    return verb_print(&b);
}

static const struct opt_command list = {
    .name = "ls",
    .path = "cay session ls",
    .synopsis = "[OPTIONS] SANDBOX",
    .summary = "list the sessions of a sandbox",
    .candidates = CLI_CANDIDATES,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct verb_common),
    .run = run_ls,
};

/* ---- status ---- */

static const char *word_of(const struct wire_session_command *c) {
    if (c->running)
        return "running";
    return c->reason == WIRE_REASON_TIMEOUT  ? "timeout"
           : c->reason == WIRE_REASON_QUIET  ? "silent"
           : c->reason == WIRE_REASON_SIGNAL ? "killed"
                                             : "ended";
}

static void put_json(struct jsonw *w, const struct wire_session_command *c) {
    char time[32];
    jsonw_begin_object(w);
    jsonw_put_unsigned(w, "number", c->number);
    jsonw_put_string(w, "state", word_of(c));
    jsonw_key(w, "exit_code");
    if (c->running)
        jsonw_null(w);
    else
        jsonw_integer(w, c->exit_code);
    jsonw_put_string(w, "started_at", clock_iso8601(c->started_ms, time));
    command_put_ms(w, "duration_ms", c->elapsed_us);
    jsonw_put_unsigned(w, "output_bytes", c->bytes);
    jsonw_put_bool(w, "output_truncated", c->truncated);
    jsonw_put_bool(w, "restarted", c->restarted);
    jsonw_put_string(w, "command", c->text);
    jsonw_end_object(w);
}

static int put_cells(struct strv *cells, const struct wire_session_command *c) {
    char text[CELL_MAX], size[32];
    int r = strv_pushf(cells, "%llu", (unsigned long long)c->number);
    if (r == 0)
        r = strv_push(cells, word_of(c));
    if (r == 0)
        r = c->running ? strv_push(cells, "") : strv_pushf(cells, "%d", c->exit_code);
    if (r == 0)
        r = strv_push(cells, str_bytes(c->bytes, size));
    return r < 0 ? r : strv_push(cells, str_escape(text, sizeof text, c->text));
}

static int collect_command(void *arg, const struct wire_session_command *c, struct cay_error *err) {
    struct session_list *l = arg;
    if (l->json)
        put_json(&l->w, c);
    else if (put_cells(&l->cells, c) < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    return 0;
}

static int run_status(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    static const char *const heads[] = {"NUMBER", "STATE", "EXIT", "OUTPUT", "COMMAND"};
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(values);
    struct session_list l;
    int r = session_list_begin(&l, &v, heads, ARRAY_LEN(heads));
    if (r == 0)
        r = session_open(&v, argv[0]);
    if (r == 0)
        r = wire_session_status(&v.call, argv[1], collect_command, &l, &v.err);
    return session_list_end(&l, &v, r);
}

static const struct opt_command status = {
    .name = "status",
    .path = "cay session status",
    .synopsis = "[OPTIONS] SANDBOX SESSION",
    .summary = "list the commands of a session, with their exit codes",
    .help = "The last 256 commands are kept, with up to 8 MiB of each stream.",
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = 2,
    .values_size = sizeof(struct verb_common),
    .run = run_status,
};

/* ---- rm ---- */

static int delete (struct session_verb *v, const char *name) {
    return wire_session_delete(&v->call, name, &v->err);
}

static int run_rm(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    return session_each(values, argc, argv, delete);
}

static const struct opt_command rm = {
    .name = "rm",
    .is_destructive = true,
    .path = "cay session rm",
    .synopsis = "[OPTIONS] SANDBOX SESSION...",
    .summary = "end sessions with everything they started",
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct verb_common),
    .run = run_rm,
};

/* ---- the group ---- */

static const struct opt_command *const commands[] = {
    &create, &list, &session_exec, &status, &session_logs, &session_input, &rm, NULL};

static int failure_code(const struct opt_command *cmd, const struct cay_error *err) {
    return cmd == &session_exec ? 125 : cay_code_exit(err->code);
}

static const struct verb_program program = {
    .path = "cay session",
    .about = "Shells that stay in a sandbox: what a command sets, the next one finds.",
    .commands = commands,
    .failure_code = failure_code,
};

/* argv are the words after "session". */
static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)values;
    return verb_main(&program, argc + 1, argv - 1);
}

const struct opt_command cli_session = {
    .name = "session",
    .path = "cay session",
    .synopsis = "COMMAND [ARG...]",
    .summary = "keep shells in a sandbox between commands",
    .group = CLI_SANDBOXES,
    .subcommands = commands,
    .run = run,
};
