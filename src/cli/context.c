/* `cay context`: interpreters that stay in a sandbox, with what they know. */
#include "cli/context.h"

#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/jsonw.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/session_list.h"
#include "lib/context.h"

int context_open(struct session_verb *v, const char *sandbox) {
    int r = session_open(v, sandbox);
    v->call.kind = WIRE_SESSION_CONTEXT;
    return r;
}

int context_make(struct session_verb *v, const char *name, const struct context_wish *wish) {
    const struct session_program program = {
        .user = wish->user, .workdir = wish->workdir, .env = wish->env};
    struct session_beginning b = {0};
    const char *language = context_language(wish->language, &v->err);
    int r = language == NULL ? -(int)v->err.code : session_begin(v, &program, &b);
    if (r == 0)
        r = context_create(&v->call, name,
                           &(struct context_start){.language = language, .env = b.env}, NULL,
                           &v->err);
    session_begun(v, &b);
    return r;
}

/* ---- create ---- */

struct create_options {
    struct verb_common common;
    const char *language, *user, *workdir;
    struct strv env;
};

static const struct opt create_table[] = {
    {.letter = 'l',
     .name = "language",
     OPT_TO_STRING(struct create_options, language),
     .arg = "NAME",
     .help = "python, javascript or bash (python)"},
    {.letter = 'u',
     .name = "user",
     OPT_TO_STRING(struct create_options, user),
     .arg = "USER[:GROUP]",
     .help = "whose interpreter it is (the sandbox's user)"},
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

static int run_create(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    const struct create_options *o = values;
    const struct context_wish wish = {.language = o->language,
                                      .user = o->user,
                                      .workdir = o->workdir,
                                      .env = (const char *const *)o->env.v};
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(&o->common);
    if (context_open(&v, argv[0]) < 0 || context_make(&v, argv[1], &wish) < 0 ||
        session_check_folder(&v, argv[0], argv[1], o->workdir) < 0)
        return session_fail(&v, 0);
    return session_tell_name(&v, argv[1]);
}

static const struct opt_command create = {
    .name = "create",
    .path = "cay context create",
    .synopsis = "[OPTIONS] SANDBOX CONTEXT",
    .summary = "start an interpreter that stays",
    .examples = "cay context create lab notes\n"
                "cay context create --language javascript --workdir /srv lab js\n",
    .options = create_table,
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = 2,
    .values_size = sizeof(struct create_options),
    .run = run_create,
};

/* ---- ls ---- */

static void put_json(struct jsonw *w, const struct wire_context *c) {
    char made[32];
    jsonw_begin_object(w);
    jsonw_put_string(w, "name", c->name);
    jsonw_put_string(w, "language", c->language);
    jsonw_put_string(w, "cwd", c->cwd);
    jsonw_put_string(w, "created_at", clock_iso8601(c->made_ms, made));
    jsonw_put_bool(w, "alive", c->is_alive);
    jsonw_put_bool(w, "busy", c->is_busy);
    jsonw_end_object(w);
}

static int put_cells(struct strv *cells, const struct wire_context *c) {
    char text[256];
    const char *state = c->is_busy ? "busy" : c->is_alive ? "ready" : "ended";
    int r = strv_push(cells, c->name);
    if (r == 0)
        r = strv_push(cells, str_escape(text, sizeof text, c->language));
    if (r == 0)
        r = strv_push(cells, state);
    return r < 0 ? r : strv_push(cells, str_escape(text, sizeof text, c->cwd));
}

static int collect(void *arg, const struct wire_context *c, struct cay_error *err) {
    struct session_list *l = arg;
    if (l->json)
        put_json(&l->w, c);
    else if (put_cells(&l->cells, c) < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    return 0;
}

static int run_ls(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    static const char *const heads[] = {"NAME", "LANGUAGE", "STATE", "FOLDER"};
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(values);
    struct session_list l;
    int r = session_list_begin(&l, &v, heads, ARRAY_LEN(heads));
    if (r == 0)
        r = context_open(&v, argv[0]);
    if (r == 0)
        r = wire_context_list(&v.call, collect, &l, &v.err);
    return session_list_end(&l, &v, r);
}

static const struct opt_command list = {
    .name = "ls",
    .path = "cay context ls",
    .synopsis = "[OPTIONS] SANDBOX",
    .summary = "list the contexts of a sandbox",
    .help = "The one called 'default' is that of clients of the API who name none.",
    .candidates = CLI_CANDIDATES,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct verb_common),
    .run = run_ls,
};

/* ---- interrupt and rm ---- */

static int interrupt_one(struct session_verb *v, const char *name) {
    v->call.kind = WIRE_SESSION_CONTEXT;
    return wire_session_signal(&v->call, name, SIGINT, &v->err);
}

static int run_interrupt(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    return session_each(values, argc, argv, interrupt_one);
}

static const struct opt_command interrupt = {
    .name = "interrupt",
    .path = "cay context interrupt",
    .synopsis = "[OPTIONS] SANDBOX CONTEXT",
    .summary = "break off what a context runs, and keep what it knows",
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = 2,
    .values_size = sizeof(struct verb_common),
    .run = run_interrupt,
};

static int delete (struct session_verb *v, const char *name) {
    v->call.kind = WIRE_SESSION_CONTEXT;
    return wire_session_delete(&v->call, name, &v->err);
}

static int run_rm(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    return session_each(values, argc, argv, delete);
}

static const struct opt_command rm = {
    .name = "rm",
    .path = "cay context rm",
    .synopsis = "[OPTIONS] SANDBOX CONTEXT...",
    .summary = "end contexts with everything they started",
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct verb_common),
    .run = run_rm,
};

/* ---- the group ---- */

static const struct opt_command *const commands[] = {&create,    &list, &context_run,
                                                     &interrupt, &rm,   NULL};

static int failure_code(const struct opt_command *cmd, const struct cay_error *err) {
    return cmd == &context_run ? 125 : cay_code_exit(err->code);
}

static const struct verb_program program = {
    .path = "cay context",
    .about = "Interpreters that stay in a sandbox: what one piece of code defines, the next one "
             "finds.",
    .commands = commands,
    .failure_code = failure_code,
};

/* argv are the words after "context". */
static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)values;
    return verb_main(&program, argc + 1, argv - 1);
}

const struct opt_command cli_context = {
    .name = "context",
    .path = "cay context",
    .synopsis = "COMMAND [ARG...]",
    .summary = "keep interpreters in a sandbox between pieces of code",
    .group = CLI_SANDBOXES,
    .subcommands = commands,
    .run = run,
};
