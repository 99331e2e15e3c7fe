/* Terminals: made, listed, resized and ended by requests. What goes on in them is
 * toolbox/pty_talk.c.
 */
#include "api/toolbox/pty.h"

#include <limits.h>
#include <nettle/base64.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "wire/client_terminal.h"

enum { ROWS = 24, COLS = 80, ENVS_MAX = 64 * 1024 };

/* ---- what requests say ---- */

struct pty_wish {
    char id[WIRE_NAME_MAX + 1], name[WIRE_NAME_MAX + 1], cwd[PATH_MAX];
    struct strv env;
    int64_t cols, rows;
    bool is_lazy;
};

static void wish_free(struct pty_wish *w) {
    strv_free(&w->env);
}

/* One without an id gets one. */
static int take_id(struct pty_wish *w, const char *id, struct cay_error *err) {
    char made[ID_SIZE];
    int r = 0;
    if (id == NULL || id[0] == '\0')
        r = id_new(made, err);
    if (r == 0)
        r = toolbox_name_of(id == NULL || id[0] == '\0' ? made : id, w->name, err);
    if (r == 0)
        toolbox_id_of(w->name, w->id);
    return r;
}

static int take_cwd(struct pty_wish *w, const char *cwd, struct cay_error *err) {
    if (cwd == NULL || str_copy(w->cwd, sizeof w->cwd, cwd) == 0)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "cwd is too long");
    return error_remedy(err, "use a shorter path");
}

static int read_size(const struct json *root, enum json_need need, struct pty_wish *w,
                     struct cay_error *err) {
    int64_t least = need == JSON_REQUIRED;
    int r = json_get_integer(root, "cols", need, least, WIRE_TERMINAL_SIZE_MAX, &w->cols, err);
    return r < 0
               ? r
               : json_get_integer(root, "rows", need, least, WIRE_TERMINAL_SIZE_MAX, &w->rows, err);
}

static int read_body(const struct call *c, struct pty_wish *w, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    const char *id = NULL, *cwd = NULL;
    int r = json_parse("request body", buf_text(&c->body), c->body.len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = json_get_string(&root, "id", JSON_OPTIONAL, &id, err);
    if (r == 0)
        r = take_id(w, id, err);
    if (r == 0)
        r = json_get_string(&root, "cwd", JSON_OPTIONAL, &cwd, err);
    if (r == 0)
        r = take_cwd(w, cwd, err);
    if (r == 0)
        r = json_get_bool(&root, "lazyStart", JSON_OPTIONAL, &w->is_lazy, err);
    if (r == 0)
        r = toolbox_read_env(&root, "envs", &w->env, err);
    return r < 0 ? r : read_size(&root, JSON_OPTIONAL, w, err);
}

static int query_size(const struct call *c, const char *key, int64_t *ret, struct cay_error *err) {
    const char *text = target_query(&c->target, key);
    if (text == NULL || str_to_i64(text, 0, WIRE_TERMINAL_SIZE_MAX, ret) == 0)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%.20s' is no size of a terminal", key, text);
    return error_remedy(err, "use 1 to %d", WIRE_TERMINAL_SIZE_MAX);
}

static int refuse_envs(struct cay_error *err) {
    error_set(err, CAY_INVALID_ARGUMENT, "X-Daytona-Pty-Envs is no JSON object in base64url");
    return error_remedy(err, "encode {\"NAME\": \"VALUE\"} so");
}

/* The environment is offered as a subprotocol: the only thing that every client of a WebSocket can
 * choose. */
static int read_offered_envs(const struct call *c, struct pty_wish *w, struct cay_error *err) {
    _cleanup_(freep) char *text = malloc(ENVS_MAX);
    _cleanup_(freep) uint8_t *raw = malloc(ENVS_MAX);
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct base64_decode_ctx ctx;
    size_t len = ENVS_MAX;
    if (text == NULL || raw == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (!toolbox_offered(c, "X-Daytona-Pty-Envs~", text, ENVS_MAX))
        return 0;
    base64url_decode_init(&ctx); /* the end is not asked for: clients leave the padding out */
    if (base64_decode_update(&ctx, &len, raw, strlen(text), text) != 1)
        return refuse_envs(err);
    _cleanup_(buf_free) struct buf all = BUF_INIT(ENVS_MAX + 16);
    (void)buf_puts(&all, "{\"envs\":");
    (void)buf_append(&all, raw, len);
    (void)buf_puts(&all, "}");
    if (all.failed || json_parse("envs", buf_text(&all), all.len, &doc, err) < 0)
        return refuse_envs(err);
    struct json root = json_root(doc, "");
    return toolbox_read_env(&root, "envs", &w->env, err);
}

static int read_query(const struct call *c, struct pty_wish *w, struct cay_error *err) {
    int r = take_id(w, target_query(&c->target, "id"), err);
    if (r == 0)
        r = take_cwd(w, target_query(&c->target, "cwd"), err);
    if (r == 0)
        r = query_size(c, "cols", &w->cols, err);
    if (r == 0)
        r = query_size(c, "rows", &w->rows, err);
    return r < 0 ? r : read_offered_envs(c, w, err);
}

/* ---- looking ---- */

struct found {
    const char *name; /* which one; NULL: all of them */
    struct jsonw *w;  /* where they are written, or NULL */
    const char *cwd;  /* of one that does not say it; while they are heard */
    bool is_there, has_ended;
    struct strv *ended; /* takes the names of those whose program has ended, or NULL */
};

static void put_terminal(struct jsonw *w, const struct wire_terminal *t, const char *cwd) {
    char id[WIRE_NAME_MAX + 1], started[32];
    toolbox_id_of(t->name, id);
    jsonw_begin_object(w);
    jsonw_put_string(w, "id", id);
    jsonw_put_string(w, "cwd", t->cwd[0] != '\0' ? t->cwd : cwd);
    jsonw_key(w, "envs"); /* may be secret, and are not told again */
    jsonw_begin_object(w);
    jsonw_end_object(w);
    jsonw_put_unsigned(w, "cols", t->cols);
    jsonw_put_unsigned(w, "rows", t->rows);
    jsonw_put_string(w, "createdAt", clock_iso8601(t->started_ms, started));
    jsonw_put_bool(w, "active", t->running);
    jsonw_put_bool(w, "lazyStart", t->lazy);
    jsonw_end_object(w);
}

static int take_terminal(void *arg, const struct wire_terminal *t, struct cay_error *err) {
    struct found *f = arg;
    if (f->name != NULL && (f->is_there || !str_equal(f->name, t->name)))
        return 0;
    f->is_there = true;
    f->has_ended = !t->running && !t->waits;
    if (f->ended != NULL && f->has_ended && strv_push(f->ended, t->name) < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (f->w != NULL)
        put_terminal(f->w, t, f->cwd);
    return 0;
}

static int look(const struct call *c, struct found *f, struct cay_error *err) {
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_begin(c, &t, err);
    toolbox_hurry(&t);
    f->cwd = t.record.work_dir;
    if (r == 0)
        r = wire_terminal_list(&t.wire, take_terminal, f, err);
    f->cwd = NULL;
    return r;
}

static int find(const struct call *c, struct found *f, struct cay_error *err) {
    int r = look(c, f, err);
    if (r < 0 || f->is_there)
        return r;
    error_set(err, CAY_NOT_FOUND, "there is no terminal '%.64s'", c->args.v[1]);
    return error_remedy(err, "GET /process/pty lists them");
}

static int list(struct call *c, struct cay_error *err) {
    struct jsonw w = JSONW_INIT(&c->answer.body);
    struct found f = {.w = &w};
    jsonw_begin_object(&w);
    jsonw_key(&w, "sessions");
    jsonw_begin_array(&w);
    int r = look(c, &f, err);
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    return r;
}

static int get(struct call *c, struct cay_error *err) {
    char name[WIRE_NAME_MAX + 1];
    struct jsonw w = JSONW_INIT(&c->answer.body);
    struct found f = {.name = name, .w = &w};
    int r = toolbox_name_of(c->args.v[1], name, err);
    return r < 0 ? r : find(c, &f, err);
}

/* ---- making ---- */

static int make(const struct call *c, const struct pty_wish *w, struct cay_error *err) {
    char hostname[TOOLBOX_HOSTNAME_SIZE], cwd[PATH_MAX];
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_begin(c, &t, err);
    if (r == 0)
        r = toolbox_path(&t, "cwd", w->cwd, cwd, sizeof cwd, err);
    if (r < 0)
        return r;
    _cleanup_(freep) const char **env =
        toolbox_env(&t, (const char *const *)w->env.v, true, hostname, err);
    if (env == NULL)
        return -(int)err->code;
    const struct wire_terminal_create create = {
        .env = env,
        .rows = w->rows > 0 ? (unsigned)w->rows : ROWS,
        .cols = w->cols > 0 ? (unsigned)w->cols : COLS,
        .lazy = w->is_lazy,
    };
    t.wire.cwd = cwd;
    toolbox_hurry(&t);
    return wire_terminal_create(&t.wire, w->name, &create, err);
}

static int end(const struct call *c, const char *name, struct cay_error *err) {
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_begin(c, &t, err);
    toolbox_hurry(&t);
    return r < 0 ? r : wire_terminal_delete(&t.wire, name, err);
}

/* Removes terminals whose program has ended: the one with this name, or all (NULL). False if there
 * is none. */
static bool remove_ended(const struct call *c, const char *name) {
    _cleanup_(strv_free) struct strv ended = {0};
    struct found f = {.name = name, .ended = &ended};
    bool removed = false;
    if (look(c, &f, NULL) < 0)
        return false;
    for (size_t i = 0; i < ended.len; i++)
        removed |= end(c, ended.v[i], NULL) == 0;
    return removed;
}

/* One whose program has ended gives its id free, and its place when there is no other. */
static int make_anew(const struct call *c, const struct pty_wish *w, struct cay_error *err) {
    int r = make(c, w, err);
    if ((r == -CAY_CONFLICT && remove_ended(c, w->name)) ||
        (r == -CAY_LIMIT_REACHED && remove_ended(c, NULL)))
        r = make(c, w, err);
    return r;
}

static int create(struct call *c, struct cay_error *err) {
    _cleanup_(wish_free) struct pty_wish wish = {0};
    int r = read_body(c, &wish, err);
    if (r == 0)
        r = make_anew(c, &wish, err);
    if (r < 0)
        return r;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "sessionId", wish.id);
    jsonw_end_object(&w);
    c->answer.status = 201;
    return 0;
}

/* ---- changing ---- */

static int delete (struct call *c, struct cay_error *err) {
    char name[WIRE_NAME_MAX + 1];
    int r = toolbox_name_of(c->args.v[1], name, err);
    if (r == 0)
        r = end(c, name, err);
    if (r < 0)
        return r;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "message", "the terminal is deleted");
    jsonw_end_object(&w);
    return 0;
}

static int set_size(const struct call *c, const char *name, const struct pty_wish *w,
                    struct cay_error *err) {
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_begin(c, &t, err);
    toolbox_hurry(&t);
    return r < 0 ? r
                 : wire_terminal_resize(&t.wire, name, (unsigned)w->rows, (unsigned)w->cols, err);
}

static int refuse_ended(struct call *c, struct cay_error *err) {
    error_set(err, CAY_CONFLICT, "the terminal's program has ended");
    (void)error_remedy(err, "make another terminal");
    return toolbox_fault(c, "SESSION_ENDED", 410, err);
}

static int resize(struct call *c, struct cay_error *err) {
    char name[WIRE_NAME_MAX + 1];
    struct pty_wish wish = {0};
    struct found before = {.name = name};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = json_parse("request body", buf_text(&c->body), c->body.len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = read_size(&root, JSON_REQUIRED, &wish, err);
    if (r == 0)
        r = toolbox_name_of(c->args.v[1], name, err);
    if (r == 0)
        r = find(c, &before, err);
    if (r == 0 && before.has_ended)
        r = refuse_ended(c, err);
    if (r == 0)
        r = set_size(c, name, &wish, err);
    return r < 0 ? r : get(c, err);
}

/* ---- looking at one ---- */

/* Its size is what it is, whoever looks: clients tell it by a request of its own. */
static int attach(struct call *c, const char *name, struct cay_error *err) {
    static const struct wire_terminal_attach as_it_is = {0};
    char rest[16];
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_begin(c, &t, err);
    toolbox_hurry(&t);
    if (r == 0)
        r = wire_terminal_attach(&t.wire, name, &as_it_is, err);
    if (r < 0)
        return r;
    toolbox_hand_over(&t, c);
    c->answer.talk = toolbox_offered(c, "X-Daytona-Pty-Exit-Control", rest, sizeof rest)
                         ? toolbox_pty_talk_and_report
                         : toolbox_pty_talk;
    return 0;
}

static int connect(struct call *c, struct cay_error *err) {
    char name[WIRE_NAME_MAX + 1];
    int r = toolbox_accept(c, err);
    if (r == 0)
        r = toolbox_name_of(c->args.v[1], name, err);
    return r < 0 ? r : attach(c, name, err);
}

static int create_connect(struct call *c, struct cay_error *err) {
    _cleanup_(wish_free) struct pty_wish wish = {0};
    int r = toolbox_accept(c, err);
    if (r == 0)
        r = read_query(c, &wish, err);
    if (r == 0)
        r = make_anew(c, &wish, err);
    return r < 0 ? r : attach(c, wish.name, err);
}

static const struct route routes[] = {
    {"POST", "/toolbox/{who}/process/pty", create, NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/process/pty", list, NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/process/pty/create-connect", create_connect, NEED_USE},
    {"GET", "/toolbox/{who}/process/pty/{pty}", get, NEED_SANDBOXES},
    {"DELETE", "/toolbox/{who}/process/pty/{pty}", delete, NEED_SANDBOXES},
    {"POST", "/toolbox/{who}/process/pty/{pty}/resize", resize, NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/process/pty/{pty}/connect", connect, NEED_USE},
};
const struct route_table toolbox_pty_routes = {routes, ARRAY_LEN(routes)};
