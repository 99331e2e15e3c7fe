/* Contexts: making, listing, interrupting and ending them. */
#include "api/toolbox/interpreter.h"

#include <limits.h>
#include <signal.h>

#include "api/toolbox/python.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "lib/python/context.h"
#include "manager/python/interpreters.h"
#include "wire/client_files.h"
#include "wire/client_session.h"

int interpreter_begin(const struct call *c, struct toolbox *ret, struct cay_error *err) {
    int r = toolbox_begin(c, ret, err);
    ret->wire.kind = WIRE_SESSION_CONTEXT;
    toolbox_hurry(ret);
    return r;
}

/* ---- making ---- */

/* What keeps a context goes elsewhere when a folder cannot be made, as it must later on; who has
 * just named it hears of it. */
static int check_folder(const struct call *c, const char *name, const char *path,
                        struct cay_error *err) {
    struct cay_error ignored; /* there is one error to tell */
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT, other = TOOLBOX_INIT;
    int r = interpreter_begin(c, &t, err);
    if (r == 0)
        r = wire_check_folder(&t.wire, path, err);
    if (r != -CAY_INVALID_ARGUMENT)
        return r;
    if (interpreter_begin(c, &other, &ignored) == 0)
        (void)wire_session_delete(&other.wire, name, &ignored);
    return error_prefix(err, "cwd");
}

static bool can_be_warm(const struct call *c, const char *language) {
    return c->interpreters != NULL && str_equal(language, "python");
}

/* With a copy of the image's interpreter, if there is one that fits; else *why says why not. */
static int make(const struct call *c, const struct toolbox *t, const char *name,
                struct context_start *start, struct cay_error *why, struct cay_error *err) {
    const struct strv none = {0};
    enum context_warmth warmth = CONTEXT_COLD;
    _cleanup_(closep) int warm = can_be_warm(c, start->language)
                                     ? interpreters_find(c->interpreters, &t->record, &none, why)
                                     : -1;
    start->warm = MAX(warm, 0);
    int r = context_create(&t->wire, name, start, &warmth, err);
    if (r < 0 || warm < 0)
        return r;
    if (warmth == CONTEXT_CHANGED)
        interpreters_note_changed(c->interpreters, &t->record);
    if (warmth != CONTEXT_WARM)
        error_set(why, CAY_UNAVAILABLE, "%s", python_why_cold(warmth == CONTEXT_CHANGED));
    return 0;
}

int interpreter_create(const struct call *c, const char *name, const char *language,
                       const char *cwd, struct cay_error *ret_why, struct cay_error *err) {
    char hostname[TOOLBOX_HOSTNAME_SIZE], path[PATH_MAX];
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = interpreter_begin(c, &t, err);
    if (r == 0 && cwd != NULL)
        r = toolbox_path(&t, "cwd", cwd, path, sizeof path, err);
    if (r < 0)
        return r;
    if (cwd != NULL)
        t.wire.cwd = path;
    _cleanup_(freep) const char **env = toolbox_env(&t, NULL, false, hostname, err);
    if (env == NULL)
        return -(int)err->code;
    struct context_start start = {.language = language, .env = env};
    r = make(c, &t, name, &start, ret_why, err);
    return r < 0 || cwd == NULL ? r : check_folder(c, name, path, err);
}

/* ---- looking ---- */

static void put_context(struct jsonw *w, const struct wire_context *context) {
    char id[WIRE_NAME_MAX + 1], made[32];
    toolbox_id_of(context->name, id);
    jsonw_begin_object(w);
    jsonw_put_string(w, "id", id);
    jsonw_put_string(w, "cwd", context->cwd);
    jsonw_put_string(w, "createdAt", clock_iso8601(context->made_ms, made));
    jsonw_put_bool(w, "active", context->is_alive);
    jsonw_put_string(w, "language", context->language);
    jsonw_put_bool(w, "busy", context->is_busy);
    jsonw_end_object(w);
}

struct listing {
    struct jsonw *w;
    const char *only; /* NULL: all that have been made by somebody */
};

static int take_context(void *arg, const struct wire_context *context, struct cay_error *err) {
    (void)err;
    const struct listing *l = arg;
    bool wanted = l->only != NULL ? str_equal(context->name, l->only)
                                  : !str_equal(context->name, CONTEXT_DEFAULT);
    if (wanted)
        put_context(l->w, context);
    return 0;
}

static int put_contexts(const struct call *c, struct listing *l, struct cay_error *err) {
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = interpreter_begin(c, &t, err);
    return r < 0 ? r : wire_context_list(&t.wire, take_context, l, err);
}

static int list(struct call *c, struct cay_error *err) {
    struct jsonw w = JSONW_INIT(&c->answer.body);
    struct listing l = {.w = &w};
    jsonw_begin_object(&w);
    jsonw_key(&w, "contexts");
    jsonw_begin_array(&w);
    int r = put_contexts(c, &l, err);
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    return r;
}

/* As the body says it, under this name; *ret_why as above. */
static int create_asked(struct call *c, const char *name, bool *ret_warmable,
                        struct cay_error *ret_why, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    const char *cwd = NULL, *language = NULL;
    int r = c->body.len == 0
                ? 0
                : json_parse("request body", buf_text(&c->body), c->body.len, &doc, err);
    if (r == 0 && doc != NULL) {
        struct json root = json_root(doc, "");
        r = json_get_string(&root, "cwd", JSON_OPTIONAL, &cwd, err);
        if (r == 0)
            r = json_get_string(&root, "language", JSON_OPTIONAL, &language, err);
    }
    if (r == 0 && (language = context_language(language, err)) == NULL)
        r = -(int)err->code;
    if (r == 0)
        r = interpreter_create(c, name, language, cwd != NULL && cwd[0] != '\0' ? cwd : NULL,
                               ret_why, err);
    if (r < 0)
        return r;
    *ret_warmable = can_be_warm(c, language);
    if (*ret_warmable)
        python_say(c, ret_why->message[0] == '\0' ? NULL : ret_why->message);
    return 0;
}

static int create(struct call *c, struct cay_error *err) {
    char name[ID_SIZE];
    struct cay_error why = {0};
    bool warmable = false;
    int r = id_new(name, err);
    if (r == 0)
        r = create_asked(c, name, &warmable, &why, err);
    if (r < 0)
        return r;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    struct listing l = {.w = &w, .only = name};
    return put_contexts(c, &l, err);
}

/* ---- making one that has a name, for `cay context` ---- */

struct made {
    const char *name, *why_cold; /* "": it is warm, or no Python */
    bool is_warm;
};

static void write_made(struct jsonw *w, const void *row) {
    const struct made *m = row;
    jsonw_put_string(w, "name", m->name);
    jsonw_put_bool(w, "warm", m->is_warm);
    jsonw_put_optional(w, "whyCold", m->why_cold);
}

static int create_named(struct call *c, struct cay_error *err) {
    struct cay_error why = {0};
    bool warmable = false;
    int r = create_asked(c, c->args.v[1], &warmable, &why, err);
    if (r < 0)
        return r;
    const struct made made = {.name = c->args.v[1],
                              .why_cold = why.message,
                              .is_warm = warmable && why.message[0] == '\0'};
    call_answer(c, write_made, &made);
    return 0;
}

/* ---- changing ---- */

static void put_message(struct call *c, const char *text) {
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "message", text);
    jsonw_end_object(&w);
}

static int delete (struct call *c, struct cay_error *err) {
    char name[WIRE_NAME_MAX + 1];
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_name_of(c->args.v[1], name, err);
    if (r == 0 && str_equal(name, CONTEXT_DEFAULT)) {
        error_set(err, CAY_INVALID_ARGUMENT, "the default context cannot be deleted");
        return error_remedy(err, "make contexts of your own for what is to be deleted");
    }
    if (r == 0)
        r = interpreter_begin(c, &t, err);
    if (r == 0)
        r = wire_session_delete(&t.wire, name, err);
    if (r == 0)
        put_message(c, "the context is deleted");
    return r;
}

static int interrupt(struct call *c, struct cay_error *err) {
    char name[WIRE_NAME_MAX + 1];
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_name_of(c->args.v[1], name, err);
    if (r == 0)
        r = interpreter_begin(c, &t, err);
    if (r == 0)
        r = wire_session_signal(&t.wire, name, SIGINT, err);
    if (r == 0)
        put_message(c, "the context is interrupted");
    return r;
}

static int execute(struct call *c, struct cay_error *err) {
    c->answer.talk = interpreter_talk;
    c->answer.message_max = CALL_CODE_MAX;
    return toolbox_accept(c, err);
}

static const struct route routes[] = {
    {"PUT", "/api/cay/sandbox/{who}/context/{name}", create_named, NEED_SANDBOXES},
    {"POST", "/toolbox/{who}/process/interpreter/context", create, NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/process/interpreter/context", list, NEED_SANDBOXES},
    {"DELETE", "/toolbox/{who}/process/interpreter/context/{context}", delete, NEED_SANDBOXES},
    {"POST", "/toolbox/{who}/process/interpreter/context/{context}/interrupt", interrupt,
     NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/process/interpreter/execute", execute, NEED_USE},
};
const struct route_table toolbox_interpreter_routes = {routes, ARRAY_LEN(routes)};
