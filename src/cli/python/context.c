/* `cay context`: interpreters that stay in a sandbox, with what they know. */
#include "cli/python/context.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/path.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/sandbox.h"
#include "cli/session/session_list.h"
#include "client/reply.h"
#include "lib/python/context.h"

int context_open(struct session_verb *v, const char *sandbox) {
    int r = session_open(v, sandbox);
    v->call.kind = WIRE_SESSION_CONTEXT;
    return r;
}

/* ---- making ---- */

static const char *find_why_cold(const struct context_wish *wish) {
    return wish->user != NULL                          ? "--user"
           : wish->env != NULL && wish->env[0] != NULL ? "--env"
                                                       : NULL;
}

static int put_request(const char *sandbox, const char *name, const struct context_wish *wish,
                       struct buf *path, struct buf *body, struct cay_error *err) {
    char folder[PATH_MAX];
    struct jsonw w = JSONW_INIT(body);
    (void)buf_puts(path, "/api/cay/sandbox/");
    daemon_put_escaped(path, sandbox);
    (void)buf_puts(path, "/context/");
    daemon_put_escaped(path, name);
    jsonw_begin_object(&w);
    if (wish->workdir != NULL) {
        int r = path_normalize("--workdir", wish->workdir, folder, sizeof folder, err);
        if (r == 0 && !str_is_utf8(folder, strlen(folder))) /* JSON would change its name */
            r = error_set(err, CAY_INVALID_ARGUMENT, "the folder's name is no UTF-8");
        if (r < 0)
            return r;
        jsonw_put_string(&w, "cwd", folder);
    }
    jsonw_end_object(&w);
    return path->failed || body->failed ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

static int take_answer(const struct buf *answer, struct context_beginning *ret,
                       struct cay_error *err) {
    _cleanup_(reply_free) struct reply t = {0};
    int r = reply_parse(answer, &t, err);
    if (r < 0)
        return r;
    ret->is_warm = reply_is_true(&t, 0, "warm");
    const char *why = reply_string(&t, 0, "whyCold");
    if (!ret->is_warm && why[0] != '\0')
        (void)snprintf(ret->why_cold, sizeof ret->why_cold, "%s", why);
    return 0;
}

/* The daemon has the interpreters, and they cannot go through a connection to the sandbox. */
static int make_by_daemon(const struct session_verb *v, const char *sandbox, const char *name,
                          const struct context_wish *wish, struct context_beginning *ret) {
    const struct daemon_choice choice = sandbox_choice(v->common);
    struct cay_error err;
    struct daemon daemon = {0};
    _cleanup_(buf_free) struct buf path = BUF_INIT(8192), body = BUF_INIT(64 * 1024),
                                   answer = BUF_INIT(64 * 1024);
    int r = put_request(sandbox, name, wish, &path, &body, &err);
    if (r == 0)
        r = daemon_open(&choice, &daemon, &err);
    const struct daemon_request request = {.method = "PUT", .path = buf_text(&path), .body = &body};
    if (r == 0)
        r = daemon_call(&daemon, &request, &answer, &err);
    if (r == 0)
        r = take_answer(&answer, ret, &err);
    daemon_close(&daemon);
    return r;
}

static int make_over(struct session_verb *v, const char *name, const char *language,
                     const struct context_wish *wish) {
    const struct session_program program = {
        .user = wish->user, .workdir = wish->workdir, .env = wish->env};
    struct session_beginning b = {0};
    int r = session_begin(v, &program, &b);
    if (r == 0)
        r = context_create(&v->call, name,
                           &(struct context_start){.language = language, .env = b.env}, NULL,
                           &v->err);
    session_begun(v, &b);
    return r;
}

/* What the daemon refuses is tried by ourselves: one of another version knows nothing of it, and
 * who does it himself hears what is wrong in words of his options. */
int context_make(struct session_verb *v, const char *sandbox, const char *name,
                 const struct context_wish *wish, struct context_beginning *ret) {
    const char *language = context_language(wish->language, &v->err);
    if (language == NULL)
        return -(int)v->err.code;
    const char *why = find_why_cold(wish);
    *ret = (struct context_beginning){.is_python = str_equal(language, "python")};
    (void)snprintf(ret->why_cold, sizeof ret->why_cold, "%s",
                   why != NULL ? why : "the daemon has no warm interpreters");
    if (ret->is_python && why == NULL && make_by_daemon(v, sandbox, name, wish, ret) == 0)
        return 0;
    int r = context_open(v, sandbox);
    if (r == 0)
        r = make_over(v, name, language, wish);
    return r < 0 ? r : session_check_folder(v, sandbox, name, wish->workdir);
}

void context_put_beginning(struct jsonw *w, const struct context_beginning *b) {
    jsonw_key(w, "interpreter");
    if (!b->is_python) {
        jsonw_null(w);
        return;
    }
    jsonw_begin_object(w);
    jsonw_put_bool(w, "warm", b->is_warm);
    jsonw_put_string(w, "why_cold", b->is_warm ? NULL : b->why_cold);
    jsonw_end_object(w);
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

static int report_made(const struct session_verb *v, const char *name,
                       const struct context_beginning *b) {
    if (v->common->output != OUTPUT_JSON)
        return session_report_name(v, name);
    _cleanup_(buf_free) struct buf text = BUF_INIT(4096);
    struct jsonw w = JSONW_INIT(&text);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "name", name);
    context_put_beginning(&w, b);
    jsonw_end_object(&w);
    (void)buf_putc(&text, '\n');
    return verb_print(&text);
}

static int run_create(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    const struct create_options *o = values;
    const struct context_wish wish = {.language = o->language,
                                      .user = o->user,
                                      .workdir = o->workdir,
                                      .env = (const char *const *)o->env.v};
    _cleanup_(session_close) struct session_verb v = SESSION_VERB_INIT(&o->common);
    struct context_beginning beginning;
    if (context_make(&v, argv[0], argv[1], &wish, &beginning) < 0)
        return session_fail(&v, 0);
    return report_made(&v, argv[1], &beginning);
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
    .is_destructive = true,
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
