/* A viewer of a terminal over a WebSocket: what is shown as binary messages, what is typed as
 * messages of either kind, and the end as Daytona's clients expect it. */
#include <string.h>

#include "api/http/ws.h"
#include "api/toolbox/pty.h"
#include "base/clock.h"
#include "base/json/jsonw.h"
#include "wire/client_terminal.h"

enum {
    SEND_MS = 60 * 1000,
    TYPED_MAX = 2 * 1024 * 1024, /* that the program has not taken yet */
    CLOSE_DONE = 1000,
    CLOSE_TOO_MUCH = 1008,
    CLOSE_FAILED = 1011,
    KILLED = 137,
};

struct viewer {
    struct ws *ws;
    int fd;
    bool wants_exit; /* told in a message of its own */
    struct wire_reader reader;
    struct buf typed;
    uint64_t credit;
};

static int send_text(const struct viewer *v, const struct buf *text) {
    return ws_send(v->ws, WS_TEXT, buf_text(text), text->len, clock_deadline(SEND_MS));
}

static int send_connected(const struct viewer *v) {
    static const char text[] = "{\"type\":\"control\",\"status\":\"connected\"}";
    return ws_send(v->ws, WS_TEXT, text, sizeof text - 1, clock_deadline(SEND_MS));
}

/* ---- the end ---- */

static void put_end(struct jsonw *w, int exit_code, const char *reason) {
    jsonw_put_integer(w, "exitCode", exit_code);
    if (reason[0] != '\0')
        jsonw_put_string(w, "exitReason", reason);
    jsonw_end_object(w);
}

static void report_end(const struct viewer *v, int exit_code, const char *reason) {
    _cleanup_(buf_free) struct buf message = BUF_INIT(512);
    _cleanup_(buf_free) struct buf closing = BUF_INIT(WS_REASON_MAX + 1);
    struct jsonw w = JSONW_INIT(&message);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "type", "control");
    jsonw_put_string(&w, "status", "exited");
    put_end(&w, exit_code, reason);
    if (v->wants_exit && send_text(v, &message) < 0)
        return;
    w = JSONW_INIT(&closing);
    jsonw_begin_object(&w);
    put_end(&w, exit_code, reason);
    ws_close(v->ws, exit_code == 0 ? CLOSE_DONE : CLOSE_FAILED, buf_text(&closing));
}

static void tell_exit(const struct viewer *v, const struct wire_terminal_event *e) {
    char reason[32];
    if (e->signal != 0)
        (void)snprintf(reason, sizeof reason, "signal %d", e->signal);
    else
        (void)snprintf(reason, sizeof reason, "%s", e->exit_code != 0 ? "non-zero exit" : "");
    report_end(v, e->exit_code, reason);
}

/* ---- both ways ---- */

static int type(struct viewer *v) {
    size_t len = MIN(v->typed.len, (size_t)v->credit);
    if (len == 0)
        return 0;
    int r = wire_terminal_type(v->fd, v->typed.data, len);
    buf_consume(&v->typed, len);
    v->credit -= len;
    return r;
}

/* 0, or 1 when it is over. */
static int take_event(struct viewer *v, const struct wire_terminal_event *e) {
    switch (e->kind) {
    case WIRE_TERMINAL_OUTPUT:
        return e->len > 0 &&
               ws_send(v->ws, WS_BINARY, e->data, e->len, clock_deadline(SEND_MS)) < 0;
    case WIRE_TERMINAL_CREDITS:
        v->credit = MIN(v->credit + e->count, (uint64_t)WIRE_TERMINAL_CREDIT);
        return type(v) < 0;
    case WIRE_TERMINAL_ENDED:
        tell_exit(v, e);
        return 1;
    default:
        return 0; /* what is left out came faster than it could be shown */
    }
}

static int show(struct viewer *v) {
    struct wire_terminal_event e;
    struct cay_error err;
    int n;
    while ((n = wire_terminal_next(&v->reader, &e, &err)) > 0)
        if (take_event(v, &e) != 0)
            return 1;
    if (n < 0)
        ws_close(v->ws, CLOSE_FAILED, err.message);
    return n < 0;
}

/* One that ends without a word was deleted, or its sandbox was stopped: killed in either case. */
static int read_terminal(struct viewer *v) {
    if (wire_reader_fill(&v->reader, v->fd) > 0)
        return show(v);
    report_end(v, KILLED, "killed");
    return 1;
}

static int take_message(struct viewer *v, const struct ws_message *m) {
    if (m->len == 0)
        return 0;
    if (buf_append(&v->typed, m->data, m->len) < 0) {
        ws_close(v->ws, CLOSE_TOO_MUCH, "the program does not read what is typed");
        return 1;
    }
    return type(v) < 0;
}

static void look(struct viewer *v) {
    struct ws_message message;
    int over = send_connected(v) < 0;
    while (!over) {
        switch (ws_wait(v->ws, v->fd, 0, &message)) {
        case WS_OTHER:
            over = read_terminal(v);
            break;
        case WS_MESSAGE:
            over = take_message(v, &message);
            break;
        default:
            return;
        }
    }
}

static void talk(const struct call *c, struct ws *w, bool wants_exit) {
    struct viewer v = {
        .ws = w,
        .fd = c->answer.connection,
        .wants_exit = wants_exit,
        .reader = WIRE_READER_INIT,
        .typed = BUF_INIT(TYPED_MAX),
        .credit = WIRE_TERMINAL_CREDIT,
    };
    look(&v);
    buf_free(&v.typed);
    wire_reader_free(&v.reader);
}

void toolbox_pty_talk(struct call *c, struct ws *w) {
    talk(c, w, false);
}

void toolbox_pty_talk_and_report(struct call *c, struct ws *w) {
    talk(c, w, true);
}
