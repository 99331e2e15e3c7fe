#include "api/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/access.h"
#include "api/call.h"
#include "api/metrics.h"
#include "api/relay.h"
#include "api/request_log.h"
#include "api/tls.h"
#include "api/ws.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

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
    atomic_int references;
    struct cay_error target_error; /* of its path, if target_result is negative */
    int target_result;
    struct request_log log;
    const char *origin; /* of a page that may call us; lives as long as the configuration */
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

/* The last one who has it lets it go. */
static void put_request(struct request *q) {
    bool is_last = atomic_fetch_sub(&q->references, 1) == 1;
    if (is_last && q->has_begun)
        request_log_end(&q->log, q->call.route, q->call.args.row, q->call.caller.name);
    log_clear_fields();
    if (!is_last)
        return;
    call_free(&q->call);
    (void)atomic_fetch_sub(&q->http->under_way, 1);
    free(q);
}

/* The rest of an operation's life. */
struct operation_run {
    struct request *q;
    int sock;
    struct MHD_UpgradeResponseHandle *handle;
    char *early;
    size_t early_len;
};

static void pass_bytes(const struct operation_run *o) {
    struct request *q = o->q;
    int64_t first_us = 0;
    int r = 0;
    struct key_use use = {.sock = o->sock};
    tune(o->sock);
    memcpy(use.id, q->call.caller.id, sizeof use.id);
    if (!manager_key_use(q->call.manager, &use))
        r = -EACCES; /* its key was removed in this moment */
    else if (q->call.answer.talk != NULL)
        converse(&q->call, o->sock, o->early, o->early_len);
    else
        r = relay_run(o->sock, q->call.answer.connection, o->early, o->early_len, &first_us);
    manager_key_unuse(q->call.manager, &use);
    if (r < 0)
        log_event(LOG_LEVEL_DEBUG, "operation ended early", "errno", "%d", -r);
    if (first_us != 0)
        metrics_observe(METRICS_FIRST, first_us - q->log.began_us);
    metrics_observe(METRICS_EXEC, clock_us() - q->log.began_us);
    call_free(&q->call); /* before the client sees the end */
    (void)MHD_upgrade_action(o->handle, MHD_UPGRADE_ACTION_CLOSE);
}

static void *run_beside(void *arg) {
    struct operation_run *o = arg;
    log_set_field("request", o->q->log.id);
    pass_bytes(o);
    put_request(o->q);
    free(o->early);
    free(o);
    return NULL;
}

/* With TLS the library's thread is needed to encrypt; the bytes are passed by another one. */
static int start_beside(const struct operation_run *o) {
    pthread_t thread;
    struct operation_run *copy = malloc(sizeof *copy);
    char *early = malloc(o->early_len + 1);
    if (copy == NULL || early == NULL) {
        free(copy);
        free(early);
        return -ENOMEM;
    }
    if (o->early_len > 0)
        memcpy(early, o->early, o->early_len);
    *copy = *o;
    copy->early = early;
    (void)atomic_fetch_add(&o->q->references, 1);
    int r = pthread_create(&thread, NULL, run_beside, copy);
    if (r == 0)
        return -pthread_detach(thread);
    (void)atomic_fetch_sub(&o->q->references, 1);
    free(early);
    free(copy);
    return -r;
}

/* Without, in the thread of its connection. */
static void run_operation(void *cls, struct MHD_Connection *connection, void *con_cls,
                          const char *early, size_t early_len, MHD_socket sock,
                          struct MHD_UpgradeResponseHandle *handle) {
    (void)cls;
    struct operation_run o = {con_cls, sock, handle, (char *)(uintptr_t)early, early_len};
    bool is_tls = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_PROTOCOL) != NULL;
    if (!is_tls)
        pass_bytes(&o);
    else if (start_beside(&o) < 0)
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

/* A page of another site may read the answer, if it is one of those that are allowed to. */
static void add_origin(struct MHD_Response *response, const struct request *q) {
    if (q->origin == NULL)
        return;
    (void)MHD_add_response_header(response, "Access-Control-Allow-Origin", q->origin);
    (void)MHD_add_response_header(response, "Access-Control-Expose-Headers", "X-Request-Id");
    (void)MHD_add_response_header(response, "Vary", "Origin");
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
    add_origin(response, q);
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

static const char *find_origin(const struct http *h, const char *given) {
    const struct strv *known = h->options.origins;
    for (size_t i = 0; given != NULL && known != NULL && i < known->len; i++)
        if (str_equal(known->v[i], given))
            return known->v[i];
    return NULL;
}

/* A browser asks before it sends what only a page of ours would: without a key, so that this comes
 * before everything else. */
static bool is_preflight(struct MHD_Connection *connection, const char *method) {
    return str_equal(method, "OPTIONS") &&
           header(connection, "Access-Control-Request-Method") != NULL;
}

static enum MHD_Result answer_preflight(struct MHD_Connection *connection, struct request *q) {
    struct call *c = &q->call;
    if (q->origin == NULL) {
        struct cay_error err;
        error_set(&err, CAY_FORBIDDEN, "pages of this origin may not call the daemon");
        (void)error_remedy(&err, "add it to allowed_origins in [server]");
        return refuse(connection, q, &err, 0);
    }
    c->answer.status = MHD_HTTP_NO_CONTENT;
    (void)call_add_header(c, "Access-Control-Allow-Methods", "GET, POST, PUT, DELETE", NULL);
    (void)call_add_header(c, "Access-Control-Allow-Headers",
                          "Authorization, Content-Type, Accept, X-Request-Id, X-Cay-Progress",
                          NULL);
    (void)call_add_header(c, "Access-Control-Max-Age", "600", NULL);
    return answer(connection, q);
}

static enum MHD_Result begin(const struct port *port, struct MHD_Connection *connection,
                             const char *method, struct request *q) {
    struct cay_error err;
    q->has_begun = true;
    request_log_begin(&q->log, method, header(connection, "X-Request-Id"));
    read_wishes(connection, &q->call);
    q->origin = find_origin(q->http, header(connection, "Origin"));
    if (is_preflight(connection, method))
        return answer_preflight(connection, q);
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
    atomic_init(&q->references, 1);
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
    put_request(q);
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

/* TLS 1.2 and later; what is below is broken. */
static void add_tls(struct MHD_OptionItem *items, const struct tls *tls) {
    items[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, tls->cert};
    items[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, tls->key};
    items[2] =
        (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0,
                                (void *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"};
}

static int refuse_start(bool is_tcp, bool has_tls, struct cay_error *err) {
    error_set(err, has_tls ? CAY_INVALID_ARGUMENT : CAY_INTERNAL,
              "the HTTP server does not start on its %s socket", is_tcp ? "TCP" : "unix");
    if (!has_tls)
        return -(int)err->code;
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_NO)
        return error_remedy(err, "the HTTP library has no TLS: let a proxy do it");
    return error_remedy(err, "see whether tls_cert and tls_key are PEM and belong together");
}

static int start_daemon(struct port *port, int sock, const struct tls *tls, struct MHD_Daemon **ret,
                        struct cay_error *err) {
    bool has_tls = port->is_tcp && tls->cert != NULL;
    struct MHD_OptionItem more[4] = {{MHD_OPTION_END, 0, NULL}};
    if (has_tls)
        add_tls(more, tls);
    more[3] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
                     MHD_USE_POLL | MHD_USE_ITC | MHD_ALLOW_UPGRADE | (has_tls ? MHD_USE_TLS : 0U);
    *ret = MHD_start_daemon(
        flags, 0, NULL, NULL, handle, port, MHD_OPTION_LISTEN_SOCKET, sock,
        MHD_OPTION_URI_LOG_CALLBACK, new_request, port, MHD_OPTION_NOTIFY_COMPLETED, end_request,
        NULL, MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_MAX, MHD_OPTION_THREAD_STACK_SIZE,
        (size_t)STACK_SIZE, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
    return *ret != NULL ? 0 : refuse_start(port->is_tcp, has_tls, err);
}

static int start_port(struct port *port, struct http *h, int sock, bool is_tcp,
                      struct cay_error *err) {
    *port = (struct port){.http = h, .is_tcp = is_tcp};
    if (sock < 0)
        return 0;
    if (listen(sock, BACKLOG) < 0)
        return error_errno(err, "listening");
    return start_daemon(port, sock, h->options.tls, &port->daemon, err);
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
