/* How answers go out: as a body, as a stream, or as what a connection becomes. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "api/http/recv.h"
#include "api/http/tls_pump.h"
#include "api/http/ws.h"
#include "api/http_internal.h"
#include "api/metrics/metrics.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/relay.h"

enum {
    STREAM_CHUNK = 64 * 1024,
    WEBSOCKET_MESSAGE_MAX = 1024 * 1024,
    TAKES_NOTHING_MS = 300 * 1000,
};

/* A stream, and who reads it. */
struct passing {
    struct stream *stream;
    struct MHD_Connection *connection;
};

static ssize_t read_stream(void *cls, uint64_t at, char *data, size_t size) {
    (void)at;
    const struct passing *p = cls;
    struct stream *s = p->stream;
    http_await_nothing(p->connection); /* the next piece may take any time to come */
    size_t len = s->read(s, data, size);
    http_await_reader(p->connection, len);
    if (len > 0)
        return (ssize_t)len;
    return s->failed ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
}

static void close_stream(void *cls) {
    struct passing *p = cls;
    p->stream->close(p->stream);
    free(p);
}

static struct MHD_Response *make_stream(struct http_request *q) {
    struct answer *a = &q->call.answer;
    struct passing *p = malloc(sizeof *p);
    if (p == NULL)
        return NULL;
    *p = (struct passing){a->stream, q->connection};
    struct MHD_Response *response =
        MHD_create_response_from_callback(a->stream_bytes != 0 ? a->stream_bytes : MHD_SIZE_UNKNOWN,
                                          STREAM_CHUNK, read_stream, p, close_stream);
    if (response != NULL)
        a->stream = NULL; /* the response's now */
    else
        free(p);
    return response;
}

/* What lasts has no time limit: it may be silent for hours. But a client that is gone without a
 * word is noticed, and so is one that takes nothing of what there is for it; unless that is a
 * command's output, since a user may stop his program for a while. */
static void watch(int sock, bool must_take) {
    int on = 1;
    unsigned limit_ms = must_take ? TAKES_NOTHING_MS : 0;
    (void)setsockopt(sock, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(sock, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
}

/* ---- what a connection becomes ---- */

/* For terminals over TCP. Unix sockets do not know it, which is fine. */
static void tune(int sock) {
    int on = 1;
    (void)setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void converse(struct call *c, int sock, const char *early, size_t early_len) {
    _cleanup_(ws_freep) struct ws *w = NULL;
    size_t max = c->answer.message_max > 0 ? c->answer.message_max : WEBSOCKET_MESSAGE_MAX;
    int r = ws_new(sock, early, early_len, max, &w);
    if (r < 0)
        log_event(LOG_LEVEL_WARN, "no memory for a WebSocket", "errno", "%d", -r);
    else
        c->answer.talk(c, w);
}

/* The rest of an operation's life. */
struct operation_run {
    struct http_request *q;
    int sock;
    const char *early;
    size_t early_len;
};

static void pass_bytes(const struct operation_run *o) {
    struct http_request *q = o->q;
    struct answer *a = &q->call.answer;
    int64_t first_us = 0;
    int r = 0;
    if (a->talk != NULL)
        converse(&q->call, o->sock, o->early, o->early_len);
    else
        r = relay_run(o->sock, a->connection, o->early, o->early_len,
                      a->watch.see != NULL ? &a->watch : NULL, &first_us);
    if (r < 0)
        log_event(LOG_LEVEL_DEBUG, "operation ended early", "errno", "%d", -r);
    if (first_us != 0)
        metrics_observe(METRICS_FIRST, first_us - q->log.began_us);
    metrics_observe(METRICS_EXEC, clock_us() - q->log.began_us);
    if (a->passed != NULL)
        a->passed(&q->call, q->log.began_us / 1000);
    call_free(&q->call); /* before the client sees the end */
}

/* ---- with TLS ---- */

static void *run_beside(void *arg) {
    struct operation_run *o = arg;
    log_set_field("request", o->q->log.id);
    pass_bytes(o);
    log_clear_fields();
    fd_close(&o->sock);
    return NULL;
}

/* The thread of the connection encrypts, another one does what there is to do. */
static int pass_encrypted(struct operation_run *o, void *session, int tcp) {
    pthread_t thread;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    o->sock = pair[0];
    (void)fd_set_nonblocking(tcp, true); /* as the library has it already */
    int r = -pthread_create(&thread, NULL, run_beside, o);
    if (r == 0) {
        r = tls_pump(session, tcp, pair[1]);
        (void)pthread_join(thread, NULL);
    }
    fd_close(&pair[1]);
    fd_close(&o->sock);
    return r;
}

/* In the thread of its connection. */
static void run_operation(void *cls, struct MHD_Connection *connection, void *con_cls,
                          const char *early, size_t early_len, MHD_socket sock,
                          struct MHD_UpgradeResponseHandle *handle) {
    (void)cls;
    struct operation_run o = {con_cls, sock, early, early_len};
    const union MHD_ConnectionInfo *tls =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    int tcp = call_socket(&o.q->call), r = 0;
    tune(tcp);
    (void)atomic_fetch_add(&o.q->http->conversing, 1);
    if (tls == NULL || tls->tls_session == NULL)
        pass_bytes(&o);
    else
        r = pass_encrypted(&o, tls->tls_session, tcp);
    if (r < 0)
        log_event(LOG_LEVEL_DEBUG, "encrypted connection ended early", "errno", "%d", -r);
    (void)atomic_fetch_sub(&o.q->http->conversing, 1);
    (void)MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
}

/* What a client asked for by Upgrade: websocket must be answered so, or be an error. */
static void accept_websocket(struct call *c) {
    struct cay_error err;
    char accept[WS_ACCEPT_SIZE];
    const char *key = call_header(c, "Sec-WebSocket-Key");
    const char *version = call_header(c, "Sec-WebSocket-Version");
    if (c->wants_websocket && ws_is_acceptable(version, key) && ws_accept(key, accept) == 0 &&
        call_add_header(c, "Upgrade", "websocket", NULL) == 0 &&
        call_add_header(c, "Sec-WebSocket-Accept", accept, NULL) == 0)
        return;
    c->answer.talk = NULL;
    error_set(&err, CAY_INVALID_ARGUMENT, "this path speaks WebSocket only");
    (void)error_remedy(&err, "open it by a WebSocket client, version 13");
    (void)call_add_header(c, "Sec-WebSocket-Version", "13", NULL);
    call_fail(c, &err, MHD_HTTP_UPGRADE_REQUIRED);
}

/* ---- answers ---- */

static struct MHD_Response *make_response(struct http_request *q) {
    struct call *c = &q->call;
    struct answer *a = &c->answer;
    if (a->talk != NULL && a->status == MHD_HTTP_OK)
        accept_websocket(c);
    if ((a->operation != NULL || a->talk != NULL) && a->status == MHD_HTTP_OK) {
        a->status = MHD_HTTP_SWITCHING_PROTOCOLS;
        watch(call_socket(c), a->talk != NULL);
        http_await_nothing(q->connection);
        http_recv_release(call_socket(c));
        return MHD_create_response_for_upgrade(run_operation, NULL);
    }
    http_await_reader(q->connection, a->body.len);
    if (a->stream != NULL) {
        watch(call_socket(c), true);
        return make_stream(q);
    }
    size_t len = a->body.len;
    char *body = len == 0 ? NULL : buf_take(&a->body);
    if (len > 0 && body == NULL)
        return NULL;
    return MHD_create_response_from_buffer(
        len, body, len == 0 ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_FREE);
}

static const char *content_type(const struct call *c) {
    if (c->answer.type != NULL)
        return c->answer.type;
    return c->answer.is_plain ? "text/plain; charset=utf-8" : "application/json";
}

/* A page of another site may read the answer, if it is one of those that are allowed to. */
static void add_origin(struct MHD_Response *response, const struct http_request *q) {
    if (q->origin == NULL)
        return;
    (void)MHD_add_response_header(response, "Access-Control-Allow-Origin", q->origin);
    (void)MHD_add_response_header(response, "Access-Control-Expose-Headers", "X-Request-Id");
    (void)MHD_add_response_header(response, "Vary", "Origin");
}

enum MHD_Result http_answer(struct http_request *q) {
    struct call *c = &q->call;
    struct MHD_Response *response = make_response(q);
    q->is_answered = true;
    if (response == NULL)
        return MHD_NO;
    q->log.status = c->answer.status;
    const struct strv *headers = &c->answer.headers;
    bool has_content =
        c->answer.status != MHD_HTTP_SWITCHING_PROTOCOLS && c->answer.status != MHD_HTTP_NO_CONTENT;
    if (has_content && !c->answer.is_foreign)
        (void)MHD_add_response_header(response, "Content-Type", content_type(c));
    if (!c->answer.is_foreign)
        (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    (void)MHD_add_response_header(response, "X-Request-Id", q->log.id);
    bool is_last = q->closes || atomic_load(&q->http->is_draining);
    if (is_last && c->answer.status != MHD_HTTP_SWITCHING_PROTOCOLS)
        (void)MHD_add_response_header(response, "Connection", "close");
    if (!c->preview.is_one)
        add_origin(response, q);
    enum MHD_Result result = MHD_YES;
    for (size_t i = 0; i + 1 < headers->len && result == MHD_YES; i += 2)
        if (MHD_add_response_header(response, headers->v[i], headers->v[i + 1]) == MHD_NO)
            result = c->answer.is_foreign ? MHD_YES : MHD_NO; /* what the library does not take */
    if (result == MHD_YES)
        result = MHD_queue_response(q->connection, c->answer.status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result http_answer_and_close(struct http_request *q) {
    q->closes = true;
    return http_answer(q);
}

enum MHD_Result http_refuse(struct http_request *q, const struct cay_error *err, unsigned status) {
    call_fail(&q->call, err, status);
    return http_answer_and_close(q);
}
