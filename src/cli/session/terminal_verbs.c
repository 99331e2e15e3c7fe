/* `cay terminal`: programs on terminals that stay in a sandbox, to look at and to leave again. */
#include <cay.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "cli/cli.h"
#include "cli/sandbox.h"
#include "cli/session/attach.h"
#include "cli/session/detach_keys.h"
#include "cli/session/session_list.h"

enum { CELL_MAX = 128, FAILED = 125 };

/* ---- create ---- */

struct create_options {
    struct verb_common common;
    const char *user, *workdir;
    struct strv env;
    int64_t rows, cols;
};

static const struct opt create_table[] = {
    {.letter = 'u',
     .name = "user",
     OPT_TO_STRING(struct create_options, user),
     .arg = "USER[:GROUP]",
     .help = "who runs it inside (the sandbox's user)"},
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
    {.name = "rows",
     OPT_TO_INTEGER(struct create_options, rows),
     .arg = "N",
     .min = 1,
     .max = WIRE_TERMINAL_SIZE_MAX,
     .help = "height until somebody attaches (24)"},
    {.name = "cols",
     OPT_TO_INTEGER(struct create_options, cols),
     .arg = "N",
     .min = 1,
     .max = WIRE_TERMINAL_SIZE_MAX,
     .help = "width until somebody attaches (80)"},
    {0},
};

static int run_create(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    const struct create_options *o = values;
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(&o->common);
    const struct session_program program = {
        .user = o->user, .workdir = o->workdir, .env = (const char *const *)o->env.v, .tty = true};
    struct session_beginning b = {0};
    char **words = argv + 2;
    if (words[0] != NULL && strcmp(words[0], "--") == 0)
        words++;
    int r = session_open(&v, argv[0]);
    if (r == 0)
        r = session_begin(&v, &program, &b);
    const struct wire_terminal_create create = {.argv = (const char *const *)words,
                                                .env = b.env,
                                                .rows = (unsigned)o->rows,
                                                .cols = (unsigned)o->cols};
    if (r == 0)
        r = wire_terminal_create(&v.call, argv[1], &create, &v.err);
    session_begun(&v, &b);
    return r < 0 ? session_fail(&v, 0) : session_report_name(&v, argv[1]);
}

static const struct create_options create_defaults = {.rows = 24, .cols = 80};

static const struct opt_command create = {
    .name = "create",
    .path = "cay terminal create",
    .synopsis = "[OPTIONS] SANDBOX TERMINAL [[--] COMMAND [ARG...]]",
    .summary = "start a program on a terminal that stays",
    .help = "A login shell, unless a command is given. Nobody needs to look at it.",
    .examples = "cay terminal create lab main\n"
                "cay terminal create lab watch -- top\n",
    .options = create_table,
    .stop_at_operand = true,
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct create_options),
    .defaults = &create_defaults,
    .run = run_create,
};

/* ---- ls ---- */

static const char *state_of(const struct wire_terminal *t) {
    if (t->waits)
        return "waiting";
    if (!t->running)
        return t->signal != 0 ? "killed" : "ended";
    return t->viewers > 0 ? "attached" : t->busy ? "busy" : "idle";
}

static void put_json(struct jsonw *w, const struct wire_terminal *t) {
    char time[32];
    jsonw_begin_object(w);
    jsonw_put_string(w, "name", t->name);
    jsonw_put_string(w, "state", state_of(t));
    jsonw_put_bool(w, "running", t->running);
    jsonw_put_bool(w, "busy", t->busy);
    jsonw_key(w, "exit_code");
    if (t->running || t->waits)
        jsonw_null(w);
    else
        jsonw_integer(w, t->exit_code);
    jsonw_put_unsigned(w, "viewers", t->viewers);
    jsonw_put_unsigned(w, "rows", t->rows);
    jsonw_put_unsigned(w, "cols", t->cols);
    jsonw_put_unsigned(w, "kept_bytes", t->bytes);
    jsonw_put_string(w, "started_at", clock_iso8601(t->started_ms, time));
    jsonw_put_string(w, "command", t->text);
    jsonw_end_object(w);
}

static int put_cells(struct strv *cells, const struct wire_terminal *t) {
    char text[CELL_MAX];
    int r = strv_push(cells, t->name);
    if (r == 0)
        r = strv_push(cells, state_of(t));
    if (r == 0)
        r = t->running || t->waits ? strv_push(cells, "") : strv_pushf(cells, "%d", t->exit_code);
    if (r == 0)
        r = strv_pushf(cells, "%u", t->viewers);
    if (r == 0)
        r = strv_pushf(cells, "%ux%u", t->cols, t->rows);
    return r < 0 ? r
                 : strv_push(cells, t->text[0] == '\0' ? "(shell)"
                                                       : str_escape(text, sizeof text, t->text));
}

static int collect(void *arg, const struct wire_terminal *t, struct cay_error *err) {
    struct session_list *l = arg;
    if (l->json)
        put_json(&l->w, t);
    else if (put_cells(&l->cells, t) < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    return 0;
}

static int run_ls(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    static const char *const heads[] = {"NAME", "STATE", "EXIT", "VIEWERS", "SIZE", "COMMAND"};
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(values);
    struct session_list l;
    int r = session_list_begin(&l, &v, heads, ARRAY_LEN(heads));
    if (r == 0)
        r = session_open(&v, argv[0]);
    if (r == 0)
        r = wire_terminal_list(&v.call, collect, &l, &v.err);
    return session_list_end(&l, &v, r);
}

static const struct opt_command list = {
    .name = "ls",
    .path = "cay terminal ls",
    .synopsis = "[OPTIONS] SANDBOX",
    .summary = "list the terminals of a sandbox",
    .candidates = CLI_CANDIDATES,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct verb_common),
    .run = run_ls,
};

/* ---- attach ---- */

struct view_options {
    struct verb_common common;
    const char *detach_keys;
    bool read_only;
};

static const struct opt attach_table[] = {
    {.name = "detach-keys",
     OPT_TO_STRING(struct view_options, detach_keys),
     .arg = "KEYS",
     .help = "what leaves the terminal (" DETACH_KEYS_DEFAULT ")"},
    {.letter = 'r',
     .name = "read-only",
     OPT_TO_FLAG(struct view_options, read_only),
     .help = "look only: type nothing, and leave the size to others"},
    {0},
};

static int run_attach(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    const struct view_options *o = values;
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(&o->common);
    const struct attach_options options = {.detach_keys = o->detach_keys,
                                           .read_only = o->read_only};
    int code = FAILED;
    int r = session_open(&v, argv[0]);
    if (r == 0)
        r = attach_run(&v, argv[0], argv[1], &options, &code);
    return r < 0 ? session_fail(&v, FAILED) : code;
}

static const struct opt_command attach = {
    .name = "attach",
    .path = "cay terminal attach",
    .synopsis = "[OPTIONS] SANDBOX TERMINAL",
    .summary = "look at a terminal, and type there",
    .help = "Shows what was printed before, at least the last 256 KiB, and goes on from there. "
            "Several may look at once; the size is that of who used it last. Leave it "
            "with " DETACH_KEYS_DEFAULT ": the program goes on.\n\n"
            "The exit code is the program's when it ends, 0 after leaving, 125 when cay itself "
            "failed.",
    .options = attach_table,
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = 2,
    .values_size = sizeof(struct view_options),
    .run = run_attach,
};

/* ---- resize ---- */

static int take_size(const char *text, unsigned *cols, unsigned *rows, struct cay_error *err) {
    char word[16];
    int64_t c = 0, r = 0;
    const char *x = strchr(text, 'x');
    bool good = x != NULL && (size_t)(x - text) < sizeof word;
    if (good) {
        memcpy(word, text, (size_t)(x - text));
        word[x - text] = '\0';
        good = str_to_i64(word, 1, WIRE_TERMINAL_SIZE_MAX, &c) == 0 &&
               str_to_i64(x + 1, 1, WIRE_TERMINAL_SIZE_MAX, &r) == 0;
    }
    *cols = (unsigned)c;
    *rows = (unsigned)r;
    if (good)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "'%.32s' is no size of a terminal", text);
    return error_remedy(err, "write COLUMNSxROWS, as in 80x24, up to %d each",
                        WIRE_TERMINAL_SIZE_MAX);
}

static int run_resize(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    unsigned cols, rows;
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(values);
    if (take_size(argv[2], &cols, &rows, &v.err) < 0 || session_open(&v, argv[0]) < 0 ||
        wire_terminal_resize(&v.call, argv[1], rows, cols, &v.err) < 0)
        return session_fail(&v, 0);
    return v.common->quiet ? 0 : session_report_name(&v, argv[1]);
}

static const struct opt_command resize = {
    .name = "resize",
    .path = "cay terminal resize",
    .synopsis = "[OPTIONS] SANDBOX TERMINAL COLUMNSxROWS",
    .summary = "give a terminal another size",
    .help = "It stays so until a viewer with another size uses the terminal.",
    .candidates = CLI_CANDIDATES,
    .min_operands = 3,
    .max_operands = 3,
    .values_size = sizeof(struct verb_common),
    .run = run_resize,
};

/* ---- kill and rm ---- */

static int kill_one(struct session_verb *v, const char *name) {
    return wire_terminal_kill(&v->call, name, SIGKILL, &v->err);
}

static int run_kill(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    return session_each(values, argc, argv, kill_one);
}

static const struct opt_command kill_verb = {
    .name = "kill",
    .is_destructive = true,
    .path = "cay terminal kill",
    .synopsis = "[OPTIONS] SANDBOX TERMINAL...",
    .summary = "end everything that was started on terminals",
    .help = "The terminal stays, with its output and its exit code, until it is removed.",
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct verb_common),
    .run = run_kill,
};

static int delete (struct session_verb *v, const char *name) {
    return wire_terminal_delete(&v->call, name, &v->err);
}

static int run_rm(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    return session_each(values, argc, argv, delete);
}

static const struct opt_command rm = {
    .name = "rm",
    .is_destructive = true,
    .path = "cay terminal rm",
    .synopsis = "[OPTIONS] SANDBOX TERMINAL...",
    .summary = "remove terminals with everything that was started there",
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct verb_common),
    .run = run_rm,
};

/* ---- the group ---- */

static const struct opt_command *const commands[] = {&create, &list,      &attach, &resize,
                                                     &rm,     &kill_verb, NULL};

static int failure_code(const struct opt_command *cmd, const struct cay_error *err) {
    return cmd == &attach ? FAILED : cay_code_exit(err->code);
}

static const struct verb_program program = {
    .path = "cay terminal",
    .about = "Terminals that stay in a sandbox: leave them, and come back to them.",
    .commands = commands,
    .failure_code = failure_code,
};

/* argv are the words after "terminal". */
static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)values;
    return verb_main(&program, argc + 1, argv - 1);
}

const struct opt_command cli_terminal = {
    .name = "terminal",
    .path = "cay terminal",
    .synopsis = "COMMAND [ARG...]",
    .summary = "keep terminals in a sandbox, and come back to them",
    .group = CLI_SANDBOXES,
    .subcommands = commands,
    .run = run,
};
