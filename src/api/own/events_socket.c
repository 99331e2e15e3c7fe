#include "api/own/events_socket.h"

#include <errno.h>
#include <string.h>

#include "api/call.h"
#include "api/http/ws.h"
#include "api/shape/daytona_shape.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "base/log.h"
#include "manager/watch.h"

enum {
    PING_MS = 25 * 1000,
    PONG_MS = 20 * 1000, /* and for everything else that a client owes us */
    FRAME_MAX = 2 * 1024 * 1024,
};

/* Types of packets: one digit of Engine.IO, and for its messages one of Socket.IO. */
#define PACKET_OPEN       "0"
#define PACKET_PING       "2"
#define PACKET_CLOSE      '1'
#define PACKET_PONG       '3'
#define PACKET_CONNECT    "40"
#define PACKET_DISCONNECT "41"
#define PACKET_EVENT      "42"
#define PACKET_REFUSE     "44"

struct viewer {
    struct call *call;
    struct ws *ws;
    struct key key;
    struct watch *watch;
    int64_t next_ping, pong_by; /* pong_by 0: none is due */
};

static int send_frame(struct viewer *v, const struct buf *frame) {
    if (frame->failed)
        return -ENOBUFS;
    return ws_send(v->ws, WS_TEXT, frame->data, frame->len, clock_deadline(PONG_MS));
}

static int send_hello(struct viewer *v) {
    char id[ID_SIZE];
    _cleanup_(buf_free) struct buf frame = BUF_INIT(512);
    if (id_new(id, NULL) < 0)
        return -EIO;
    (void)buf_printf(&frame,
                     PACKET_OPEN "{\"sid\":\"%s\",\"upgrades\":[],\"pingInterval\":%d,"
                                 "\"pingTimeout\":%d,\"maxPayload\":%d}",
                     id, PING_MS, PONG_MS, 1000 * 1000);
    return send_frame(v, &frame);
}

static int send_welcome(struct viewer *v) {
    char id[ID_SIZE];
    _cleanup_(buf_free) struct buf frame = BUF_INIT(128);
    if (id_new(id, NULL) < 0)
        return -EIO;
    (void)buf_printf(&frame, PACKET_CONNECT "{\"sid\":\"%s\"}", id);
    return send_frame(v, &frame);
}

static void send_refusal(struct viewer *v, const char *message) {
    _cleanup_(buf_free) struct buf frame = BUF_INIT(4096);
    struct jsonw w = JSONW_INIT(&frame);
    (void)buf_puts(&frame, PACKET_REFUSE);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "message", message);
    jsonw_end_object(&w);
    (void)send_frame(v, &frame); /* it ends either way */
    ws_close(v->ws, 1000, "");
}

/* ---- who it is ---- */

/* The key in {"token": KEY}; false if there is none that works. */
static bool read_token(const struct call *c, const char *text, size_t len, struct key *ret) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    const char *token = NULL;
    if (json_parse("token", text, len, &doc, NULL) < 0)
        return false;
    struct json root = json_root(doc, "");
    return json_get_string(&root, "token", JSON_REQUIRED, &token, NULL) == 0 &&
           call_identify(c, token, ret);
}

/* Who came over the unix socket, or with a key in the head, is known already. */
static bool identify(struct viewer *v, const struct ws_message *m) {
    size_t len = strlen(PACKET_CONNECT);
    if (m->kind != WS_TEXT || !str_starts(m->data, PACKET_CONNECT))
        return false;
    v->key = v->call->caller;
    return v->key.scopes != 0 || read_token(v->call, m->data + len, m->len - len, &v->key);
}

static bool admit(struct viewer *v) {
    struct ws_message m;
    struct cay_error err = {0};
    if (send_hello(v) < 0 || ws_wait(v->ws, -1, clock_deadline(PONG_MS), &m) != WS_MESSAGE)
        return false;
    if (!identify(v, &m)) {
        manager_audit_refusal(v->call->manager, "-", "events.read", "",
                              cay_code_name(CAY_UNAUTHORIZED), "");
        send_refusal(v, "Unauthorized");
        return false;
    }
    if (access_check(&v->key, NEED_SANDBOXES, true, &err) < 0 ||
        call_claim(v->call, &v->key, &err) < 0 ||
        manager_watch(v->call->manager, &v->key, &v->watch, &err) < 0) {
        send_refusal(v, err.message);
        return false;
    }
    return send_welcome(v) == 0;
}

/* ---- what it hears ---- */

/* "destroyed" is no state of a record; builds are none of ours. */
static const char *new_state(const struct watch_news *n) {
    bool is_its_own = str_equal(n->new_state, sandbox_state_name(n->record.state));
    return is_its_own ? daytona_state(&n->record) : n->new_state;
}

static void write_event(struct jsonw *w, const struct watch_news *n,
                        const struct daytona_view *view) {
    jsonw_begin_array(w);
    if (n->old_state == NULL) {
        jsonw_string(w, "sandbox.created");
        daytona_write_sandbox(w, &n->record, view);
    } else {
        jsonw_string(w, "sandbox.state.updated");
        jsonw_begin_object(w);
        jsonw_key(w, "sandbox");
        daytona_write_sandbox(w, &n->record, view);
        jsonw_put_string(w, "oldState", n->old_state);
        jsonw_put_string(w, "newState", new_state(n));
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

static int send_news(struct viewer *v, const struct watch_news *n) {
    _cleanup_(buf_free) struct buf frame = BUF_INIT(FRAME_MAX);
    struct jsonw w = JSONW_INIT(&frame);
    const struct daytona_view view = {buf_text(&v->call->body), new_state(n), false};
    (void)buf_puts(&frame, PACKET_EVENT);
    write_event(&w, n, &view);
    return send_frame(v, &frame);
}

static int send_all_news(struct viewer *v) {
    struct watch_news *n;
    int r = 0;
    while (r == 0 && (n = watch_take(v->call->manager, v->watch)) != NULL) {
        r = send_news(v, n);
        watch_news_free(n);
    }
    return r == 0 && watch_is_over(v->call->manager) ? -ESHUTDOWN : r;
}

static int send_ping(struct viewer *v) {
    if (v->pong_by != 0)
        return -ETIMEDOUT;
    v->next_ping = clock_deadline(PING_MS);
    v->pong_by = clock_deadline(PONG_MS);
    return ws_send(v->ws, WS_TEXT, PACKET_PING, strlen(PACKET_PING), v->pong_by);
}

/* False: it leaves. All but that and the answer to a ping is ignored. */
static bool take_packet(struct viewer *v, const struct ws_message *m) {
    if (m->len > 0 && m->data[0] == PACKET_PONG)
        v->pong_by = 0;
    return m->len == 0 || (m->data[0] != PACKET_CLOSE && !str_starts(m->data, PACKET_DISCONNECT));
}

static void converse(struct viewer *v) {
    struct ws_message m;
    int r = 0;
    v->next_ping = clock_deadline(PING_MS);
    while (r == 0) {
        int64_t until = v->pong_by != 0 ? clock_earlier(v->pong_by, v->next_ping) : v->next_ping;
        switch (ws_wait(v->ws, watch_fd(v->watch), until, &m)) {
        case WS_MESSAGE:
            r = take_packet(v, &m) ? 0 : -EPIPE;
            break;
        case WS_OTHER:
            r = send_all_news(v);
            break;
        case -ETIMEDOUT:
            r = send_ping(v);
            break;
        default:
            return;
        }
    }
    ws_close(v->ws, r == -ESHUTDOWN ? 1001 : 1000, "");
}

static void talk(struct call *c, struct ws *w) {
    struct viewer v = {.call = c, .ws = w};
    struct key_use use = {.sock = ws_fd(w)};
    if (admit(&v)) {
        /* The head had no key, so that this connection is not known to end with it yet. */
        memcpy(use.id, v.key.id, sizeof use.id);
        if (manager_key_use(c->manager, &use))
            converse(&v);
        manager_key_unuse(c->manager, &use);
    }
    manager_unwatch(c->manager, v.watch);
}

/* The head of a request is gone when it has become a WebSocket: what URLs begin with is kept in its
 * body, which it has none of. */
static int open_socket(struct call *c, struct cay_error *err) {
    char origin[CALL_ORIGIN_SIZE];
    const char *version = target_query(&c->target, "EIO");
    const char *transport = target_query(&c->target, "transport");
    if (!str_equal(version, "4") || !str_equal(transport, "websocket")) {
        error_set(err, CAY_INVALID_ARGUMENT, "only Engine.IO 4 over a WebSocket is served here");
        return error_remedy(err, "connect with EIO=4 and transport=websocket");
    }
    buf_clear(&c->body);
    (void)buf_puts(&c->body, call_origin(c, origin));
    c->answer.talk = talk;
    return 0;
}

static const struct route rows[] = {
    {"GET", "/api/socket.io", open_socket, NEED_NOTHING},
};
const struct route_table events_socket_routes = {rows, ARRAY_LEN(rows)};
