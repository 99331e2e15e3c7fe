#include "daemon/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/ws.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "daemon/access.h"
#include "daemon/call.h"
#include "daemon/metrics.h"
#include "daemon/relay.h"
#include "daemon/request_log.h"

enum {
    CONNECTIONS_MAX = 1024,
    BACKLOG = 1024,
    IDLE_SECONDS = 60,
    STACK_SIZE = 512 * 1024,
    MEMORY_MAX = 1024 * 1024,         /* heads of request and answer */
    IGNORED_MAX = 16 * CALL_BODY_MAX, /* of a body that is too large, before we hang up */
    STREAM_CHUNK = 64 * 1024,
    WEBSOCKET_MESSAGE_MAX = 1024 * 1024,
};

/* One listening socket. */
struct port {
    struct http *http;
    bool is_tcp;
    struct MHD_Daemon *daemon;
};

struct http {
    struct http_options options;
    struct port ports[2];
    unsigned char admin_hash[HASH_SIZE];
    atomic_int under_way;
};

/* A request, with what only this file knows. */
struct request {
    struct call call; /* first: call_header() gets from it to the rest */
    struct http *http;
    struct MHD_Connection *connection;
    struct cay_error target_error; /* of its path, if target_result is negative */
    int target_result;
    struct request_log log;
    struct cay_error sink_error; /* of its body, if sink_result is negative */
    int sink_result;
    int begun;         /* what call_begin() said */
    bool has_begun;    /* its head was looked at */
    size_t body_bytes; /* also those that were not kept */
};

/* ---- answers ---- */

static ssize_t read_stream(void *cls, uint64_t at, char *data, size_t size) {
    (void)at;
    struct stream *s = cls;
    size_t len = s->read(s, data, size);
    return len > 0 ? (ssize_t)len : MHD_CONTENT_READER_END_OF_STREAM;
}

static void close_stream(void *cls) {
    struct stream *s = cls;
    s->close(s);
}

/* For terminals over TCP; and a client that is gone without a word is noticed. Unix sockets know
 * neither, which is fine. */
static void tune(int sock) {
    int on = 1;
    (void)setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(sock, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

static void converse(struct call *c, int sock, const char *early, size_t early_len) {
    _cleanup_(ws_freep) struct ws *w = NULL;
    int r = ws_new(sock, early, early_len, WEBSOCKET_MESSAGE_MAX, &w);
    if (r < 0)
        log_event(LOG_LEVEL_WARN, "no memory for a WebSocket", "errno", "%d", -r);
    else
        c->answer.talk(c, w);
}

/* The rest of an operation's life, in the thread of its connection. */
static void run_operation(void *cls, struct MHD_Connection *connection, void *con_cls,
                          const char *early, size_t early_len, MHD_socket sock,
                          struct MHD_UpgradeResponseHandle *handle) {
    (void)cls, (void)connection;
    struct request *q = con_cls;
    tune(sock);
    int64_t first_us = 0;
    int r = 0;
    struct key_use use = {.sock = sock};
    memcpy(use.id, q->call.caller.id, sizeof use.id);
    if (!manager_key_use(q->call.manager, &use))
        r = -EACCES; /* its key was removed in this moment */
    else if (q->call.answer.talk != NULL)
        converse(&q->call, sock, early, early_len);
    else
        r = relay_run(sock, q->call.answer.connection, early, early_len, &first_us);
    manager_key_unuse(q->call.manager, &use);
    if (r < 0)
        log_event(LOG_LEVEL_DEBUG, "operation ended early", "errno", "%d", -r);
    if (first_us != 0)
        metrics_observe(METRICS_FIRST, first_us - q->log.began_us);
    metrics_observe(METRICS_EXEC, clock_us() - q->log.began_us);
    call_free(&q->call); /* before the client sees the end */
    call_init(&q->call, q->call.manager);
    (void)MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
}

/* What a client asked for by Upgrade: websocket must be answered so, or be an error. */
static void accept_websocket(struct call *c) {
    struct cay_error err;
    char accept[WS_ACCEPT_SIZE];
    const char *key = call_header(c, "Sec-WebSocket-Key");
    const char *version = call_header(c, "Sec-WebSocket-Version");
    if (c->wants_websocket && key != NULL && str_equal(version, "13") &&
        ws_accept(key, accept) == 0 && call_add_header(c, "Upgrade", "websocket", NULL) == 0 &&
        call_add_header(c, "Sec-WebSocket-Accept", accept, NULL) == 0)
        return;
    c->answer.talk = NULL;
    error_set(&err, CAY_INVALID_ARGUMENT, "this path speaks WebSocket only");
    (void)error_remedy(&err, "open it by a WebSocket client, version 13");
    (void)call_add_header(c, "Sec-WebSocket-Version", "13", NULL);
    call_fail(c, &err, MHD_HTTP_UPGRADE_REQUIRED);
}

static struct MHD_Response *make_response(struct call *c) {
    struct answer *a = &c->answer;
    if (a->talk != NULL && a->status == MHD_HTTP_OK)
        accept_websocket(c);
    if ((a->operation != NULL || a->talk != NULL) && a->status == MHD_HTTP_OK) {
        a->status = MHD_HTTP_SWITCHING_PROTOCOLS;
        return MHD_create_response_for_upgrade(run_operation, NULL);
    }
    if (a->stream != NULL) {
        struct MHD_Response *response = MHD_create_response_from_callback(
            MHD_SIZE_UNKNOWN, STREAM_CHUNK, read_stream, a->stream, close_stream);
        if (response != NULL)
            a->stream = NULL; /* the response's now */
        return response;
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
    if (c->answer.is_plain)
        return "text/plain; charset=utf-8";
    return c->wants_tsv ? "text/tab-separated-values; charset=utf-8" : "application/json";
}

static enum MHD_Result answer(struct MHD_Connection *connection, struct request *q) {
    struct call *c = &q->call;
    struct MHD_Response *response = make_response(c);
    if (response == NULL)
        return MHD_NO;
    q->log.status = c->answer.status;
    const struct strv *headers = &c->answer.headers;
    bool has_content =
        c->answer.status != MHD_HTTP_SWITCHING_PROTOCOLS && c->answer.status != MHD_HTTP_NO_CONTENT;
    if (has_content)
        (void)MHD_add_response_header(response, "Content-Type", content_type(c));
    (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    (void)MHD_add_response_header(response, "X-Request-Id", q->log.id);
    enum MHD_Result result = MHD_YES;
    for (size_t i = 0; i + 1 < headers->len && result == MHD_YES; i += 2)
        result = MHD_add_response_header(response, headers->v[i], headers->v[i + 1]);
    if (result == MHD_YES)
        result = MHD_queue_response(connection, c->answer.status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_and_close(struct MHD_Connection *connection, struct request *q) {
    (void)call_add_header(&q->call, "Connection", "close", NULL); /* its body was not read */
    return answer(connection, q);
}

static enum MHD_Result refuse(struct MHD_Connection *connection, struct request *q,
                              const struct cay_error *err, unsigned status) {
    call_fail(&q->call, err, status);
    return answer_and_close(connection, q);
}

/* ---- the head of a request ---- */

static const char *header(struct MHD_Connection *connection, const char *name) {
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

const char *call_header(const struct call *c, const char *name) {
    return header(((const struct request *)c)->connection, name);
}

static bool header_is(struct MHD_Connection *connection, const char *name, const char *value) {
    const char *given = header(connection, name);
    return given != NULL && strcasecmp(given, value) == 0;
}

static int identify_peer(const struct http *h, struct MHD_Connection *connection, struct key *ret,
                         struct cay_error *err) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (info == NULL || getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return error_errno(err, "asking who is at the other end");
    (void)snprintf(ret->name, sizeof ret->name, "uid:%u", (unsigned)peer.uid);
    ret->scopes = SCOPE_ADMIN;
    if (peer.uid == 0 || peer.uid == h->options.owner)
        return 0;
    error_set(err, CAY_FORBIDDEN, "this daemon belongs to user %u, not to user %u",
              (unsigned)h->options.owner, (unsigned)peer.uid);
    return error_remedy(err, "start a daemon of your own");
}

static bool match_admin(const struct http *h, const char *text, struct key *ret) {
    unsigned char hash[HASH_SIZE];
    hash_of(text, strlen(text), hash);
    if (h->options.key[0] == '\0' || !hash_equal(hash, h->admin_hash))
        return false;
    *ret = (struct key){.name = "admin", .scopes = SCOPE_ADMIN};
    return true;
}

/* Metrics, where everybody may see them. */
static bool is_public(const struct http *h, const struct target *t) {
    return h->options.metrics_public && t->segments == 1 && str_equal(t->segment[0], "metrics");
}

/* What is wrong with a key is not told: only that it does not work. */
static int identify_key(const struct http *h, struct MHD_Connection *connection, struct call *c,
                        struct cay_error *err) {
    struct key *ret = &c->caller;
    if (!access_host_is_allowed(header(connection, "Host"), h->options.hosts)) {
        error_set(err, CAY_FORBIDDEN, "the request is for another host");
        return error_remedy(err, "add the name to allowed_hosts in [server]");
    }
    const char *text = access_bearer(header(connection, "Authorization"));
    if (text != NULL &&
        (match_admin(h, text, ret) || manager_key_match(h->options.manager, text, ret)))
        return 0;
    if (is_public(h, &c->target)) {
        *ret = (struct key){.name = "public", .scopes = SCOPE_READ};
        c->sees_metrics = true;
        return 0;
    }
    error_set(err, CAY_UNAUTHORIZED, "the key is missing or not valid");
    return error_remedy(err, "send 'Authorization: Bearer KEY'; a key is made by: cay key create");
}

/* True if the head says more than we would read, only to ignore it. */
static bool is_too_large(struct MHD_Connection *connection) {
    const char *length = header(connection, "Content-Length");
    uint64_t bytes;
    return length != NULL && str_to_u64(length, IGNORED_MAX, &bytes) < 0;
}

static enum MHD_Result refuse_size(struct MHD_Connection *connection, struct request *q) {
    struct cay_error err;
    error_set(&err, CAY_INVALID_ARGUMENT, "the request body is larger than %d bytes",
              CALL_BODY_MAX);
    (void)error_remedy(&err, "send less");
    return refuse(connection, q, &err, MHD_HTTP_CONTENT_TOO_LARGE);
}

static bool names_upgrade(struct MHD_Connection *connection) {
    const char *value = header(connection, "Connection");
    for (; value != NULL && *value != '\0'; value += strcspn(value, ",")) {
        value += strspn(value, ", \t");
        if (strncasecmp(value, "upgrade", 7) == 0 && strchr(", \t", value[7]) != NULL)
            return true;
    }
    return false;
}

static void read_wishes(struct MHD_Connection *connection, struct call *c) {
    const char *accept = header(connection, "Accept");
    c->wants_tsv = accept != NULL && strstr(accept, "text/tab-separated-values") != NULL;
    c->wants_progress = header_is(connection, "X-Cay-Progress", "lines");
    bool upgrades = names_upgrade(connection);
    c->wants_upgrade = upgrades && header_is(connection, "Upgrade", "cay-init");
    c->wants_websocket = upgrades && header_is(connection, "Upgrade", "websocket");
}

/* Where a connection comes from: "127.0.0.1", "socket". */
static void put_peer(struct MHD_Connection *connection, char *out, socklen_t size) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *a = info == NULL ? NULL : info->client_addr;
    socklen_t len = a != NULL && a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                          : sizeof(struct sockaddr_in);
    if (a == NULL || (a->sa_family != AF_INET && a->sa_family != AF_INET6) ||
        getnameinfo(a, len, out, size, NULL, 0, NI_NUMERICHOST) != 0)
        (void)snprintf(out, size, "socket");
}

static void note_refusal(struct MHD_Connection *connection, const struct call *c,
                         const struct cay_error *err) {
    char peer[64];
    put_peer(connection, peer, sizeof peer);
    manager_audit_refusal(c->manager, c->caller.name[0] != '\0' ? c->caller.name : "-", "access",
                          "", cay_code_name(err->code), peer);
}

static enum MHD_Result begin(const struct port *port, struct MHD_Connection *connection,
                             const char *method, struct request *q) {
    struct cay_error err;
    q->has_begun = true;
    request_log_begin(&q->log, method, header(connection, "X-Request-Id"));
    read_wishes(connection, &q->call);
    int r = port->is_tcp ? identify_key(q->http, connection, &q->call, &err)
                         : identify_peer(q->http, connection, &q->call.caller, &err);
    if (r < 0) {
        note_refusal(connection, &q->call, &err);
        return refuse(connection, q, &err, 0);
    }
    if (q->target_result < 0)
        return refuse(connection, q, &q->target_error, 0);
    q->begun = call_begin(&q->call, method);
    if (q->call.sink != NULL)
        return MHD_YES;
    if (q->begun < 0 && q->call.route != NULL && q->call.route->open != NULL)
        return answer_and_close(connection, q); /* a body of any size follows */
    return is_too_large(connection) ? refuse_size(connection, q) : MHD_YES;
}

/* ---- the life of a request ---- */

/* The first that is heard of one. What it returns is the request's from then on. */
static void *new_request(void *cls, const char *uri, struct MHD_Connection *connection) {
    const struct port *port = cls;
    struct request *q = calloc(1, sizeof *q);
    if (q == NULL)
        return NULL;
    q->http = port->http;
    q->connection = connection;
    (void)atomic_fetch_add(&q->http->under_way, 1);
    call_init(&q->call, q->http->options.manager);
    q->target_result = target_parse(uri, &q->call.target, &q->target_error);
    return q;
}

static void end_request(void *cls, struct MHD_Connection *connection, void **con_cls,
                        enum MHD_RequestTerminationCode why) {
    (void)cls, (void)connection, (void)why;
    struct request *q = *con_cls;
    if (q == NULL)
        return;
    *con_cls = NULL;
    if (q->has_begun)
        request_log_end(&q->log, q->call.route, q->call.args.row, q->call.caller.name);
    call_free(&q->call);
    (void)atomic_fetch_sub(&q->http->under_way, 1);
    free(q);
}

/* The library's timeout is for clients; it must not count the time that our work takes. */
static enum MHD_Result run(struct MHD_Connection *connection, struct request *q) {
    (void)MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
    const struct answer *a = &q->call.answer;
    if (q->sink_result < 0)
        call_fail(&q->call, &q->sink_error, 0);
    else if (q->begun == 0)
        call_run(&q->call);
    bool lasts = a->stream != NULL || a->operation != NULL || a->talk != NULL;
    enum MHD_Result result = answer(connection, q);
    if (!lasts)
        (void)MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, IDLE_SECONDS);
    return result;
}

/* After a failure the rest is ignored, as far as that is reasonable: no answer goes out before. */
static enum MHD_Result take_piece(struct request *q, const char *data, size_t *len) {
    if (q->sink_result == 0)
        q->sink_result = q->call.sink->write(q->call.sink, data, *len, &q->sink_error);
    else
        q->body_bytes += *len;
    *len = 0;
    return q->body_bytes > IGNORED_MAX ? MHD_NO : MHD_YES;
}

static enum MHD_Result take_body(struct request *q, const char *data, size_t *len) {
    if (q->call.sink != NULL)
        return take_piece(q, data, len);
    q->body_bytes += *len;
    (void)buf_append(&q->call.body, data, *len); /* what does not fit is refused at the end */
    *len = 0;
    return q->body_bytes > IGNORED_MAX ? MHD_NO : MHD_YES;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *len, void **con_cls) {
    (void)url, (void)version;
    const struct port *port = cls;
    struct request *q = *con_cls;
    if (q == NULL)
        return MHD_NO;
    if (!q->has_begun)
        return begin(port, connection, method, q);
    if (*len > 0)
        return take_body(q, data, len);
    if (q->call.body.failed)
        return refuse_size(connection, q);
    return run(connection, q);
}

/* Paths are split before they are decoded, by target.c. */
static size_t leave_escaped(void *cls, struct MHD_Connection *connection, char *text) {
    (void)cls, (void)connection;
    return strlen(text);
}

/* ---- starting and ending ---- */

static int start_port(struct port *port, struct http *h, int sock, bool is_tcp,
                      struct cay_error *err) {
    *port = (struct port){.http = h, .is_tcp = is_tcp};
    if (sock < 0)
        return 0;
    if (listen(sock, BACKLOG) < 0)
        return error_errno(err, "listening");
    port->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
            MHD_USE_ITC | MHD_ALLOW_UPGRADE,
        0, NULL, NULL, handle, port, MHD_OPTION_LISTEN_SOCKET, sock, MHD_OPTION_URI_LOG_CALLBACK,
        new_request, port, MHD_OPTION_NOTIFY_COMPLETED, end_request, NULL,
        MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_MAX, MHD_OPTION_THREAD_STACK_SIZE,
        (size_t)STACK_SIZE, MHD_OPTION_END);
    if (port->daemon != NULL)
        return 0;
    return error_set(err, CAY_INTERNAL, "the HTTP server does not start on its %s socket",
                     is_tcp ? "TCP" : "unix");
}

int http_start(const struct http_options *options, struct http **ret, struct cay_error *err) {
    struct http *h = calloc(1, sizeof *h);
    if (h == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    h->options = *options;
    hash_of(options->key, strlen(options->key), h->admin_hash);
    int r = start_port(&h->ports[0], h, options->unix_socket, false, err);
    if (r == 0)
        r = start_port(&h->ports[1], h, options->tcp_socket, true, err);
    *ret = h; /* threads may use it already; the process ends if r is negative */
    return r;
}

void http_close_doors(struct http *h) {
    for (size_t i = 0; i < ARRAY_LEN(h->ports); i++)
        if (h->ports[i].daemon != NULL)
            (void)MHD_quiesce_daemon(h->ports[i].daemon);
}

bool http_wait(struct http *h, int64_t wait_ms) {
    int64_t deadline = clock_deadline(wait_ms);
    while (atomic_load(&h->under_way) > 0 && !clock_expired(deadline))
        (void)usleep(10 * 1000);
    return atomic_load(&h->under_way) == 0;
}
