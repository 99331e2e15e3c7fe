/* Sessions: shells that stay, and their commands. */
#include "api/toolbox/session.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "wire/client_session.h"

enum { INPUT_MS = 30 * 1000, TURNS_MAX = 100 };

/* ---- what requests say ---- */

enum toolbox_form toolbox_form_of(const struct call *c) {
    const char *split = call_header(c, "X-Daytona-Split-Output");
    if (str_equal(split != NULL ? split : "", "true"))
        return TOOLBOX_SPLIT;
    if (!toolbox_has_sdk(c) || toolbox_sdk_is_before(c, 27))
        return TOOLBOX_PLAIN;
    return toolbox_sdk_is_before(c, 167) ? TOOLBOX_MARKED : TOOLBOX_SPLIT;
}

int toolbox_session_name(const struct call *c, char name[static WIRE_NAME_MAX + 1],
                         struct cay_error *err) {
    return toolbox_name_of(c->args.v[1], name, err);
}

int toolbox_session_number(struct call *c, uint64_t *ret, struct cay_error *err) {
    if (str_to_u64(c->args.v[2], UINT64_MAX, ret) == 0 && *ret > 0)
        return 0;
    error_set(err, CAY_NOT_FOUND, "the session has no such command");
    (void)error_remedy(err, "use the cmdId that its execution answered");
    return toolbox_fault(c, "PROCESS_NOT_FOUND", 0, err);
}

void toolbox_put_output(struct jsonw *w, const struct toolbox_output *out, enum toolbox_form form) {
    jsonw_key(w, "output");
    jsonw_bytes(w, buf_text(&out->all), out->all.len);
    if (form == TOOLBOX_MARKED)
        return; /* such a client takes it apart by itself */
    jsonw_key(w, "stdout");
    jsonw_bytes(w, buf_text(&out->part[0]), out->part[0].len);
    jsonw_key(w, "stderr");
    jsonw_bytes(w, buf_text(&out->part[1]), out->part[1].len);
}

/* ---- making and ending ---- */

static int make_session(struct call *c, const char *name, struct cay_error *err) {
    char hostname[TOOLBOX_HOSTNAME_SIZE];
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_begin(c, &t, err);
    if (r < 0)
        return r;
    _cleanup_(freep) const char **env = toolbox_env(&t, NULL, false, hostname, err);
    if (env == NULL)
        return -(int)err->code;
    if (toolbox_sdk_is_before(c, 103))
        t.wire.cwd = NULL; /* the user's home, as it was then */
    toolbox_hurry(&t);
    return wire_session_create(&t.wire, name, NULL, env, err);
}

static int create(struct call *c, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    const char *id = NULL;
    char name[WIRE_NAME_MAX + 1];
    int r = json_parse("request body", buf_text(&c->body), c->body.len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = json_get_string(&root, "sessionId", JSON_REQUIRED, &id, err);
    if (r == 0)
        r = toolbox_name_of(id, name, err);
    if (r == 0)
        r = make_session(c, name, err);
    if (r == 0)
        c->answer.status = 201;
    return r;
}

static int delete (struct call *c, struct cay_error *err) {
    char name[WIRE_NAME_MAX + 1];
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_session_name(c, name, err);
    if (r == 0)
        r = toolbox_begin(c, &t, err);
    toolbox_hurry(&t);
    if (r == 0)
        r = wire_session_delete(&t.wire, name, err);
    if (r == 0)
        c->answer.status = 204;
    return r;
}

/* ---- looking ---- */

static void put_command(struct jsonw *w, const struct wire_session_command *cmd) {
    char id[32];
    (void)snprintf(id, sizeof id, "%llu", (unsigned long long)cmd->number);
    jsonw_begin_object(w);
    jsonw_put_string(w, "id", id);
    jsonw_put_string(w, "command", cmd->text);
    if (!cmd->running)
        jsonw_put_integer(w, "exitCode", cmd->exit_code);
    jsonw_end_object(w);
}

static int take_command(void *arg, const struct wire_session_command *cmd, struct cay_error *err) {
    (void)err;
    put_command(arg, cmd);
    return 0;
}

/* One question about a session, over a connection of its own. */
static int ask_status(const struct call *c, const char *name, wire_command_fn *each, void *arg,
                      struct cay_error *err) {
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_begin(c, &t, err);
    toolbox_hurry(&t);
    return r < 0 ? r : wire_session_status(&t.wire, name, each, arg, err);
}

static int put_session(const struct call *c, const char *name, struct jsonw *w,
                       struct cay_error *err) {
    char id[WIRE_NAME_MAX + 1];
    toolbox_id_of(name, id);
    jsonw_begin_object(w);
    jsonw_put_string(w, "sessionId", id);
    jsonw_key(w, "commands");
    jsonw_begin_array(w);
    int r = ask_status(c, name, take_command, w, err);
    jsonw_end_array(w);
    jsonw_end_object(w);
    return r;
}

static int get(struct call *c, struct cay_error *err) {
    char name[WIRE_NAME_MAX + 1];
    struct jsonw w = JSONW_INIT(&c->answer.body);
    int r = toolbox_session_name(c, name, err);
    return r < 0 ? r : put_session(c, name, &w, err);
}

static int take_name(void *arg, const char *name, struct cay_error *err) {
    return strv_push(arg, name) < 0 ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

static int list_names(const struct call *c, struct strv *ret, struct cay_error *err) {
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_begin(c, &t, err);
    toolbox_hurry(&t);
    return r < 0 ? r : wire_session_list(&t.wire, take_name, ret, err);
}

/* One that ends meanwhile is left out. */
static int list(struct call *c, struct cay_error *err) {
    _cleanup_(strv_free) struct strv names = {0};
    bool is_first = true;
    int r = list_names(c, &names, err);
    (void)buf_putc(&c->answer.body, '[');
    for (size_t i = 0; r == 0 && i < names.len; i++) {
        _cleanup_(buf_free) struct buf one = BUF_INIT(CALL_ANSWER_MAX);
        struct jsonw w = JSONW_INIT(&one);
        r = put_session(c, names.v[i], &w, err);
        if (r == 0) {
            (void)buf_puts(&c->answer.body, is_first ? "" : ",");
            (void)buf_append(&c->answer.body, one.data, one.len);
            is_first = false;
        } else if (r == -CAY_NOT_FOUND) {
            r = 0;
        }
    }
    (void)buf_putc(&c->answer.body, ']');
    return r;
}

/* ---- one command ---- */

struct search {
    uint64_t number;
    struct buf *out; /* where it is written, or NULL */
    bool found, running;
};

static int compare(void *arg, const struct wire_session_command *cmd, struct cay_error *err) {
    (void)err;
    struct search *s = arg;
    if (cmd->number != s->number)
        return 0;
    s->found = true;
    s->running = cmd->running;
    if (s->out != NULL && s->out->len == 0) {
        struct jsonw w = JSONW_INIT(s->out);
        put_command(&w, cmd);
    }
    return 0;
}

static int find_command(struct call *c, const char *name, struct search *s, struct cay_error *err) {
    int r = toolbox_session_number(c, &s->number, err);
    if (r == 0)
        r = ask_status(c, name, compare, s, err);
    if (r < 0 || s->found)
        return r;
    error_set(err, CAY_NOT_FOUND, "the session has no command %.20s", c->args.v[2]);
    (void)error_remedy(err, "look at its commands: old ones are not kept for ever");
    return toolbox_fault(c, "PROCESS_NOT_FOUND", 0, err);
}

static int get_command(struct call *c, struct cay_error *err) {
    char name[WIRE_NAME_MAX + 1];
    struct search s = {.out = &c->answer.body};
    int r = toolbox_session_name(c, name, err);
    return r < 0 ? r : find_command(c, name, &s, err);
}

/* ---- executing ---- */

struct execution {
    const char *name;
    struct wire_session_exec exec;
    struct toolbox_output out;
    struct exec_outcome outcome;
};

static int try_execute(const struct call *c, struct execution *x, struct cay_error *err) {
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_begin(c, &t, err);
    toolbox_hurry(&t);
    if (r == 0)
        r = wire_session_exec(&t.wire, x->name, &x->exec, err);
    if (r < 0)
        return r;
    r = toolbox_carry(c, &t, NULL, 0, &x->out, &x->outcome, err);
    toolbox_count(c, r, &x->outcome);
    return r;
}

/* Sees the session's last command to its end, without keeping what it prints. */
static int wait_for_turn(const struct call *c, const char *name, struct cay_error *err) {
    struct toolbox_output out = {.all = BUF_INIT(0)};
    struct exec_outcome outcome;
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_begin(c, &t, err);
    toolbox_hurry(&t);
    if (r == 0)
        r = wire_session_logs(&t.wire, name, 0, 0, 0, true, err);
    return r < 0 ? r : toolbox_carry(c, &t, NULL, 0, &out, &outcome, err);
}

/* A shell that is busy reads the next line when it is done; so does who waits for its end. Others
 * are told that it is busy. */
static int run_in_turn(const struct call *c, struct execution *x, struct cay_error *err) {
    int r = try_execute(c, x, err);
    for (int i = 0; r == -CAY_CONFLICT && !x->outcome.started && !x->exec.async && i < TURNS_MAX;
         i++) {
        r = wait_for_turn(c, x->name, err);
        if (r == 0)
            r = try_execute(c, x, err);
    }
    return r;
}

static void answer_execution(struct call *c, const struct execution *x, enum toolbox_form form) {
    char id[32];
    struct jsonw w = JSONW_INIT(&c->answer.body);
    (void)snprintf(id, sizeof id, "%llu", (unsigned long long)x->outcome.number);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "cmdId", id);
    if (!x->exec.async) {
        toolbox_put_output(&w, &x->out, form);
        jsonw_put_integer(&w, "exitCode", x->outcome.exit_code);
    }
    jsonw_end_object(&w);
    c->answer.status = x->exec.async ? 202 : 200;
}

static int read_execution(const struct json *root, struct wire_session_exec *ret,
                          struct cay_error *err) {
    bool old = false, silent = false;
    int r = json_get_string(root, "command", JSON_REQUIRED, &ret->text, err);
    if (r == 0)
        r = json_get_bool(root, "runAsync", JSON_OPTIONAL, &ret->async, err);
    if (r == 0)
        r = json_get_bool(root, "async", JSON_OPTIONAL, &old, err);
    if (r == 0)
        r = json_get_bool(root, "suppressInputEcho", JSON_OPTIONAL, &silent, err);
    if (r == 0 && ret->text[strspn(ret->text, " \t\r\n")] == '\0') {
        error_set(err, CAY_INVALID_ARGUMENT, "command: it is empty");
        r = error_remedy(err, "say what to run");
    }
    ret->async |= old;
    ret->want_stdin = ret->async; /* one that is waited for could never get any */
    ret->echo = !silent;
    return r;
}

static int execute(struct call *c, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    char name[WIRE_NAME_MAX + 1];
    enum toolbox_form form = toolbox_form_of(c);
    struct execution x = {.name = name, .out = TOOLBOX_OUTPUT_INIT};
    x.out.wants_marks = form == TOOLBOX_MARKED;
    x.out.wants_parts = form != TOOLBOX_MARKED;
    int r = json_parse("request body", buf_text(&c->body), c->body.len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = read_execution(&root, &x.exec, err);
    if (r == 0)
        r = toolbox_session_name(c, name, err);
    if (r == 0)
        r = run_in_turn(c, &x, err);
    if (r == 0)
        answer_execution(c, &x, form);
    toolbox_output_free(&x.out);
    return r;
}

/* ---- input ---- */

static int refuse_ended(struct call *c, struct cay_error *err) {
    error_set(err, CAY_CONFLICT, "the command has ended");
    (void)error_remedy(err, "send input to a command that runs, started with runAsync");
    return toolbox_fault(c, "COMMAND_ALREADY_COMPLETED", 410, err);
}

static int send_input(const struct call *c, const char *name, uint64_t number,
                      const struct buf *data, struct cay_error *err) {
    struct toolbox_output out = {.all = BUF_INIT(0)};
    struct exec_outcome outcome;
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_begin(c, &t, err);
    toolbox_hurry(&t);
    if (r == 0)
        r = wire_session_input(&t.wire, name, number, false, err);
    if (r == 0)
        r = toolbox_carry(c, &t, data, clock_deadline(INPUT_MS), &out, &outcome, err);
    if (r == 0 && outcome.reason == WIRE_REASON_TIMEOUT) {
        error_set(err, CAY_TIMEOUT, "the command does not read its input");
        r = error_remedy(err, "send less, or wait until it reads");
    }
    return r;
}

static int read_input(const struct call *c, struct buf *ret, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    const char *data = NULL;
    int r = json_parse("request body", buf_text(&c->body), c->body.len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = json_get_string(&root, "data", JSON_REQUIRED, &data, err);
    if (r < 0)
        return r;
    (void)buf_puts(ret, data);
    if (!str_ends(data, "\n"))
        (void)buf_putc(ret, '\n');
    return ret->failed ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

/* For who has an error to tell already, which stays the one that is told. */
static bool has_ended(struct call *c, const char *name) {
    struct cay_error ignored = {0};
    struct search s = {0};
    if (find_command(c, name, &s, &ignored) == 0)
        return !s.running;
    (void)toolbox_fault(c, NULL, 0, &ignored);
    return false;
}

static int input(struct call *c, struct cay_error *err) {
    char name[WIRE_NAME_MAX + 1];
    struct search s = {0};
    _cleanup_(buf_free) struct buf data = BUF_INIT(CALL_BODY_MAX + 1);
    int r = read_input(c, &data, err);
    if (r == 0)
        r = toolbox_session_name(c, name, err);
    if (r == 0)
        r = find_command(c, name, &s, err);
    if (r == 0 && !s.running)
        return refuse_ended(c, err);
    if (r == 0)
        r = send_input(c, name, s.number, &data, err);
    if (r == -CAY_CONFLICT && has_ended(c, name))
        return refuse_ended(c, err); /* it ended in this moment */
    if (r == 0)
        c->answer.status = 204;
    return r;
}

/* ---- the entrypoint ---- */

/* A sandbox's first process is cay's own; what an image would start is not run by itself. */
static int entrypoint(struct call *c, struct cay_error *err) {
    (void)err;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "sessionId", "entrypoint");
    jsonw_key(&w, "commands");
    jsonw_begin_array(&w);
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    return 0;
}

static const struct route routes[] = {
    {"POST", "/toolbox/{who}/process/session", create, NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/process/session", list, NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/process/session/entrypoint", entrypoint, NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/process/session/entrypoint/logs", toolbox_no_logs_handle,
     NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/process/session/{session}", get, NEED_SANDBOXES},
    {"DELETE", "/toolbox/{who}/process/session/{session}", delete, NEED_SANDBOXES},
    {"POST", "/toolbox/{who}/process/session/{session}/exec", execute, NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/process/session/{session}/command/{command}", get_command,
     NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/process/session/{session}/command/{command}/logs", toolbox_logs_handle,
     NEED_SANDBOXES},
    {"POST", "/toolbox/{who}/process/session/{session}/command/{command}/input", input,
     NEED_SANDBOXES},
};
const struct route_table toolbox_session_routes = {routes, ARRAY_LEN(routes)};
