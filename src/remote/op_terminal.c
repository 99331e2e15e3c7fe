/* Terminals: a Daytona keeps them too, and shows them by WebSocket. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "client/daemon.h"
#include "lib/command.h"
#include "remote/gate.h"
#include "remote/op.h"
#include "remote/socket.h"
#include "wire/client_terminal.h"

enum { SMALL_MAX = 64 * 1024, BODY_MAX = 4 * 1024 * 1024, SEND_MS = 60000 };

/* The end of the program is told as a message. */
#define PROTOCOLS "X-Daytona-Pty-Exit-Control"

static void put_path(struct buf *path, const char *name, const char *after) {
    (void)buf_puts(path, "/process/pty/");
    daemon_put_escaped(path, name);
    (void)buf_puts(path, after);
}

/* ---- making ---- */

static void put_env(const struct op *o, struct jsonw *w) {
    _cleanup_(buf_free) struct buf key = BUF_INIT(SMALL_MAX);
    jsonw_key(w, "envs");
    jsonw_begin_object(w);
    for (const char *p = NULL; (p = wire_next_string(&o->message, WIRE_TAG_ENV, p)) != NULL;) {
        size_t len = strcspn(p, "=");
        if (!op_is_own_env(o, p) || p[len] == '\0')
            continue;
        buf_clear(&key);
        (void)buf_append(&key, p, len);
        jsonw_put_string(w, buf_text(&key), p + len + 1);
    }
    jsonw_end_object(w);
}

static int make(struct op *o, const char *name, struct cay_error *err) {
    _cleanup_(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct jsonw w = JSONW_INIT(&body);
    uint64_t rows = op_number(o, WIRE_TAG_ROWS), cols = op_number(o, WIRE_TAG_COLS);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "id", name);
    if (op_text(o, WIRE_TAG_CWD)[0] != '\0')
        jsonw_put_string(&w, "cwd", op_text(o, WIRE_TAG_CWD));
    put_env(o, &w);
    jsonw_put_unsigned(&w, "rows", rows > 0 ? rows : 24);
    jsonw_put_unsigned(&w, "cols", cols > 0 ? cols : 80);
    jsonw_end_object(&w);
    if (jsonw_finish(&w) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the environment is too long");
    return toolbox_json(&o->toolbox, "POST", "/process/pty", &body, NULL, err);
}

static int connect_to(struct op *o, const char *name, struct socket *ret, struct cay_error *err) {
    _cleanup_(buf_free) struct buf path = BUF_INIT(SMALL_MAX);
    put_path(&path, name, "/connect");
    return socket_open(&o->toolbox, buf_text(&path), PROTOCOLS, ret, err);
}

static bool is_shell(const struct op *o) {
    const char *word[3] = {NULL};
    size_t n = 0;
    for (const char *p = NULL; (p = wire_next_string(&o->message, WIRE_TAG_ARG, p)) != NULL; n++)
        if (n < ARRAY_LEN(word))
            word[n] = p;
    return n == 0 || (n == 3 && str_equal(word[2], COMMAND_SHELL));
}

/* There is always a login shell; another program is typed into it, and takes its place. */
static int type_command(struct op *o, struct ws *ws, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(BODY_MAX);
    if (is_shell(o))
        return 0;
    (void)buf_puts(&b, " exec");
    for (const char *p = NULL; (p = wire_next_string(&o->message, WIRE_TAG_ARG, p)) != NULL;) {
        (void)buf_putc(&b, ' ');
        toolbox_put_quoted(&b, p);
    }
    (void)buf_putc(&b, '\r');
    int r = b.failed ? -ENOBUFS : ws_send(ws, WS_BINARY, b.data, b.len, clock_deadline(SEND_MS));
    return r < 0 ? error_sys(err, -r, "typing the command") : 0;
}

int op_terminal_create(struct op *o, struct cay_error *err) {
    const char *name = op_text(o, WIRE_TAG_NAME);
    struct socket s = SOCKET_INIT;
    int r = make(o, name, err);
    if (r == 0 && !is_shell(o)) {
        r = connect_to(o, name, &s, err);
        if (r == 0)
            r = type_command(o, s.ws, err);
        socket_close(&s);
    }
    return r < 0 ? r : op_done(o, err);
}

/* ---- what there is ---- */

static uint64_t size_of(const struct json *at, const char *key) {
    int64_t n = far_integer(at, key, 0);
    return n > 0 && n <= WIRE_TERMINAL_SIZE_MAX ? (uint64_t)n : 0;
}

static void put_terminal(struct buf *b, const struct json *at) {
    int64_t ms = 0;
    (void)clock_from_iso8601(far_string(at, "createdAt", ""), &ms);
    wire_put_string(b, WIRE_TAG_NAME, far_string(at, "id", ""));
    wire_put_string(b, WIRE_TAG_TEXT, "");
    wire_put_string(b, WIRE_TAG_CWD, far_string(at, "cwd", ""));
    wire_put_number(b, WIRE_TAG_RUNNING, far_bool(at, "active"));
    wire_put_number(b, WIRE_TAG_ROWS, size_of(at, "rows"));
    wire_put_number(b, WIRE_TAG_COLS, size_of(at, "cols"));
    wire_put_number(b, WIRE_TAG_MTIME_MS, (uint64_t)ms);
}

int op_terminal_list(struct op *o, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    _cleanup_(buf_free) struct buf b = BUF_INIT(SMALL_MAX);
    struct json list = {0}, one;
    uint64_t count = 0;
    int r = toolbox_json(&o->toolbox, "GET", "/process/pty", NULL, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    (void)json_get_array(&root, "sessions", JSON_OPTIONAL, &list, NULL);
    for (size_t i = 0;
         r == 0 && list.value != NULL && count < WIRE_TERMINALS_MAX && json_item(&list, i, &one);
         i++) {
        if (!wire_call_is_name(far_string(&one, "id", "")))
            continue;
        buf_clear(&b);
        put_terminal(&b, &one);
        r = op_send(o, WIRE_ENTRY, &b, err);
        count++;
    }
    buf_clear(&b);
    wire_put_number(&b, WIRE_TAG_COUNT, count);
    return r < 0 ? r : op_send(o, WIRE_DONE, &b, err);
}

/* ---- changing them ---- */

static int resize(struct op *o, const char *name, uint64_t rows, uint64_t cols,
                  struct cay_error *err) {
    _cleanup_(buf_free) struct buf path = BUF_INIT(SMALL_MAX);
    _cleanup_(buf_free) struct buf body = BUF_INIT(256);
    struct jsonw w = JSONW_INIT(&body);
    put_path(&path, name, "/resize");
    jsonw_begin_object(&w);
    jsonw_put_unsigned(&w, "cols", cols);
    jsonw_put_unsigned(&w, "rows", rows);
    jsonw_end_object(&w);
    return toolbox_json(&o->toolbox, "POST", buf_text(&path), &body, NULL, err);
}

static int end_terminal(struct op *o, const char *name, struct cay_error *err) {
    _cleanup_(buf_free) struct buf path = BUF_INIT(SMALL_MAX);
    put_path(&path, name, "");
    return toolbox_json(&o->toolbox, "DELETE", buf_text(&path), NULL, NULL, err);
}

int op_terminal_resize(struct op *o, struct cay_error *err) {
    int r = resize(o, op_text(o, WIRE_TAG_NAME), op_number(o, WIRE_TAG_ROWS),
                   op_number(o, WIRE_TAG_COLS), err);
    return r < 0 ? r : op_done(o, err);
}

int op_terminal_kill(struct op *o, struct cay_error *err) {
    (void)o;
    return gate_unsupported(err, "keeps nothing of a terminal that was ended",
                            "remove it: cay terminal rm");
}

int op_terminal_delete(struct op *o, struct cay_error *err) {
    int r = end_terminal(o, op_text(o, WIRE_TAG_NAME), err);
    return r < 0 ? r : op_done(o, err);
}

/* ---- looking ---- */

struct view {
    struct op *op;
    const char *name;
    struct ws *ws;
    bool may_type;
    bool ended;   /* the program has */
    bool hung_up; /* cay has */
    int exit_code;
    int64_t began_us;
};

/* {"type":"control","status":"exited","exitCode":3} */
static int take_control(struct view *v, const struct ws_message *m, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    if (json_parse("message", m->data, m->len, &doc, NULL) < 0)
        return 0;
    struct json root = json_root(doc, "");
    const char *status = far_string(&root, "status", "");
    if (str_equal(status, "exited")) {
        int64_t code = far_integer(&root, "exitCode", 0);
        v->exit_code = code >= 0 && code <= 255 ? (int)code : 255;
        v->ended = true;
    }
    if (!str_equal(status, "error"))
        return 0;
    error_set(err, CAY_UNAVAILABLE, "the terminal: %.200s", far_string(&root, "error", ""));
    error_sanitize(err);
    return -(int)err->code;
}

static int take_message(struct view *v, const struct ws_message *m, struct cay_error *err) {
    if (m->kind == WS_TEXT)
        return take_control(v, m, err);
    v->hung_up |= m->len > 0 && wire_send_data(v->op->fd, WIRE_STDOUT, m->data, m->len) < 0;
    return 0;
}

static int type(struct view *v, const struct wire_frame *f, struct cay_error *err) {
    _cleanup_(buf_free) struct buf credit = BUF_INIT(64);
    int r = !v->may_type || f->len == 0
                ? 0
                : ws_send(v->ws, WS_BINARY, f->data, f->len, clock_deadline(SEND_MS));
    if (r < 0 && r != -EPIPE) /* that it has ended is heard from it */
        return error_sys(err, -r, "typing");
    wire_put_number(&credit, WIRE_TAG_COUNT, f->len);
    return op_send(v->op, WIRE_CREDIT, &credit, err);
}

static int take_frame(struct view *v, const struct wire_frame *f, struct cay_error *err) {
    struct wire_message m;
    struct cay_error ignored;
    if (f->type == WIRE_INPUT)
        return type(v, f, err);
    if (f->type != WIRE_WINDOW || wire_parse(f->data, f->len, &m) < 0)
        return 0;
    /* a size that is not taken is no reason to end */
    (void)resize(v->op, v->name, m.number[WIRE_TAG_ROWS], m.number[WIRE_TAG_COLS], &ignored);
    return 0;
}

static int take_frames(struct view *v, struct cay_error *err) {
    struct wire_frame f;
    int r = 0;
    while (r == 0 && wire_reader_next(&v->op->reader, &f) > 0)
        r = take_frame(v, &f, err);
    return r;
}

static int look(struct view *v, struct cay_error *err) {
    struct ws_message m;
    int r = take_frames(v, err);
    while (r == 0 && !v->hung_up) {
        int event = ws_wait(v->ws, v->op->fd, 0, &m);
        if (event == WS_MESSAGE) {
            r = take_message(v, &m, err);
        } else if (event != WS_OTHER) {
            v->ended |= event == WS_CLOSED;
            break;
        } else {
            v->hung_up = wire_reader_fill(&v->op->reader, v->op->fd) <= 0;
            r = take_frames(v, err);
        }
    }
    return r;
}

static int report_end(struct view *v, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(256);
    wire_put_number(&b, WIRE_TAG_EXIT, (uint64_t)v->exit_code);
    if (op_number(v->op, WIRE_TAG_OP) == WIRE_OP_EXEC)
        wire_put_number(&b, WIRE_TAG_ELAPSED_US, (uint64_t)(clock_us() - v->began_us));
    else
        wire_put_number(&b, WIRE_TAG_RUNNING, 0);
    return op_send(v->op, WIRE_DONE, &b, err);
}

static int view(struct view *v, struct cay_error *err) {
    struct socket s;
    int r = connect_to(v->op, v->name, &s, err);
    if (r < 0)
        return r;
    v->ws = s.ws;
    v->began_us = clock_us();
    r = op_send(v->op, WIRE_STARTED, NULL, err);
    if (r == 0 && op_number(v->op, WIRE_TAG_OP) == WIRE_OP_EXEC)
        r = type_command(v->op, s.ws, err);
    if (r == 0)
        r = look(v, err);
    socket_close(&s);
    if (r == 0 && !v->ended && !v->hung_up)
        r = error_set(err, CAY_UNAVAILABLE, "the connection to the terminal ended");
    return r;
}

int op_terminal_attach(struct op *o, struct cay_error *err) {
    uint64_t rows = op_number(o, WIRE_TAG_ROWS), cols = op_number(o, WIRE_TAG_COLS);
    struct view v = {
        .op = o, .name = op_text(o, WIRE_TAG_NAME), .may_type = op_number(o, WIRE_TAG_STDIN) != 0};
    struct cay_error ignored;
    if (v.may_type && rows > 0 && cols > 0)
        (void)resize(o, v.name, rows, cols, &ignored); /* one that has ended has no size */
    int r = view(&v, err);
    return r < 0 || v.hung_up ? r : report_end(&v, err);
}

/* A terminal of its own, which ends with the command. */
int op_exec_tty(struct op *o, struct cay_error *err) {
    struct cay_error ignored;
    char name[32];
    struct view v = {.op = o, .name = name, .may_type = true};
    int r = op_make_name(name, err);
    if (r == 0)
        r = make(o, name, err);
    if (r < 0)
        return r;
    r = view(&v, err);
    (void)end_terminal(o, name, &ignored); /* it has ended mostly */
    return r < 0 || v.hung_up ? r : report_end(&v, err);
}
