#include "api/http.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/http/head.h"
#include "api/http_internal.h"
#include "api/preview/preview.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "manager/record/hash.h"

enum {
    BACKLOG = 1024,
    STACK_SIZE = 512 * 1024,
    MEMORY_MAX = 256 * 1024, /* heads of request and answer; the library clears it each time */
    IGNORED_MAX = 2 * CALL_CODE_MAX,       /* of a body that is too large, before we hang up */
    SINK_IGNORED_MAX = 1024 * 1024 * 1024, /* of one that its sink has refused: files are large */
};

/* ---- the head of a request ---- */

static bool header_is(const struct call *c, const char *name, const char *value) {
    const char *given = call_header(c, name);
    return given != NULL && strcasecmp(given, value) == 0;
}

/* True if the head says more than we would read, only to ignore it. */
static bool is_too_large(const struct call *c) {
    const char *length = call_header(c, "Content-Length");
    uint64_t bytes;
    return length != NULL && str_to_u64(length, IGNORED_MAX, &bytes) < 0;
}

static enum MHD_Result refuse_size(struct http_request *q) {
    struct cay_error err;
    error_set(&err, CAY_INVALID_ARGUMENT, "the request body is larger than %zu bytes",
              q->call.body.max);
    (void)error_remedy(&err, "send less, and keep data in files of their own");
    return http_refuse(q, &err, MHD_HTTP_CONTENT_TOO_LARGE);
}

static bool names_upgrade(const struct call *c) {
    const char *value = call_header(c, "Connection");
    for (; value != NULL && *value != '\0'; value += strcspn(value, ",")) {
        value += strspn(value, ", \t");
        if (strncasecmp(value, "upgrade", 7) == 0 && strchr(", \t", value[7]) != NULL)
            return true;
    }
    return false;
}

static void read_wishes(struct call *c) {
    c->wants_progress = header_is(c, "X-Cay-Progress", "lines");
    bool upgrades = names_upgrade(c);
    c->wants_upgrade = upgrades && header_is(c, "Upgrade", "cay-init");
    c->wants_websocket = upgrades && header_is(c, "Upgrade", "websocket");
}

static void add_field(void *user, const char *name, const char *value) {
    head_add(user, name, value);
}

static int check_head(const struct http_request *q, const char *version, struct cay_error *err) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(q->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct head head = {0};
    call_each_header(&q->call, add_field, &head);
    return head_check(&head, q->call.method, q->call.uri, version,
                      info == NULL ? 0 : info->header_size, err);
}

/* A browser asks before it sends what only a page of ours would: without a key, so that this comes
 * before everything else. */
static bool is_preflight(const struct call *c, const char *method) {
    return str_equal(method, "OPTIONS") && call_header(c, "Access-Control-Request-Method") != NULL;
}

static enum MHD_Result answer_preflight(struct http_request *q) {
    struct call *c = &q->call;
    if (q->origin == NULL) {
        struct cay_error err;
        (void)http_refuse_origin(&err);
        return http_refuse(q, &err, 0);
    }
    c->answer.status = MHD_HTTP_NO_CONTENT;
    (void)call_add_header(c, "Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE", NULL);
    (void)call_add_header(c, "Access-Control-Allow-Headers",
                          "Authorization, Content-Type, Accept, X-Request-Id, X-Cay-Progress, "
                          "X-Daytona-Source, X-Daytona-SDK-Version, X-Daytona-Organization-ID",
                          NULL);
    (void)call_add_header(c, "Access-Control-Max-Age", "600", NULL);
    return http_answer(q);
}

static enum MHD_Result take_head(const struct http_port *port, const char *version,
                                 struct http_request *q) {
    struct cay_error err;
    struct call *c = &q->call;
    const char *method = c->method;
    http_keep_origin(q);
    if (check_head(q, version, &err) < 0)
        return http_refuse(q, &err, 0);
    read_wishes(c);
    preview_read_place(call_header(c, "Host"), c->uri, &c->preview);
    if (c->preview.is_one)
        q->target_result = preview_rewrite(c, &q->target_error);
    else if (is_preflight(c, method))
        return answer_preflight(q);
    if (http_identify(port, q, &err) < 0) {
        http_note_refusal(q, &err);
        return http_refuse(q, &err, 0);
    }
    if (http_use_key(q, &err) < 0) {
        http_note_refusal(q, &err);
        return http_refuse(q, &err, 0);
    }
    if (port->is_tcp && http_claim(q->connection, &c->caller, &err) < 0)
        return http_refuse(q, &err, 0);
    if (q->target_result < 0)
        return http_refuse(q, &q->target_error, 0);
    q->begun = call_begin(c, method);
    if (c->sink != NULL)
        return MHD_YES;
    if (q->begun < 0) /* a client that has begun to send a file would not see an answer before */
        return header_is(c, "Expect", "100-continue") ? http_answer_and_close(q) : MHD_YES;
    return is_too_large(c) ? refuse_size(q) : MHD_YES;
}

/* Before anything is done. What the client has begun to send is read first, or it would not see
 * the answer. */
static enum MHD_Result turn_away(struct http_request *q) {
    http_fill_turned_away(q);
    q->begun = -CAY_UNAVAILABLE;
    return header_is(&q->call, "Expect", "100-continue") ? http_answer(q) : MHD_YES;
}

static enum MHD_Result begin(const struct http_port *port, const char *method, const char *version,
                             struct http_request *q) {
    q->has_begun = true;
    q->call.method = method;
    http_await_nothing(q->connection);
    request_log_begin(&q->log, method, call_header(&q->call, "X-Request-Id"));
    enum MHD_Result result = http_let_in(q) ? take_head(port, version, q) : turn_away(q);
    q->body_ms = clock_ms();
    if (!q->is_answered)
        http_await_body(q);
    return result;
}

/* ---- the life of a request ---- */

static void free_request(struct http_request *q) {
    if (q->has_begun)
        request_log_end(&q->log, q->call.route, q->call.args.row, q->call.caller.name);
    log_clear_fields();
    free(q->origin);
    call_free(&q->call);
    if (q->is_let_in && q->use.id[0] != '\0')
        manager_key_unuse(q->http->options.manager, &q->use);
    http_let_out(q);
    free(q);
}

/* The first that is heard of one. What it returns is the request's from then on. */
static void *new_request(void *cls, const char *uri, struct MHD_Connection *connection) {
    const struct http_port *port = cls;
    struct http_request *q = calloc(1, sizeof *q);
    if (q == NULL)
        return NULL;
    q->http = port->http;
    q->connection = connection;
    call_init(&q->call, q->http->options.manager);
    q->call.images = q->http->options.images;
    q->call.builds = q->http->options.builds;
    q->call.contexts = q->http->options.contexts;
    q->call.outputs = q->http->options.outputs;
    q->call.interpreters = q->http->options.interpreters;
    q->call.lender = q->http->options.lender;
    q->call.method = "";
    http_keep_public_url(q);
    q->call.is_tls = port->is_tcp && q->http->options.tls->cert != NULL;
    q->call.uri = strdup(uri);
    if (q->call.uri == NULL) {
        free_request(q);
        return NULL;
    }
    q->target_result = target_parse(uri, &q->call.target, &q->target_error);
    return q;
}

static void end_request(void *cls, struct MHD_Connection *connection, void **con_cls,
                        enum MHD_RequestTerminationCode why) {
    (void)cls, (void)why;
    struct http_request *q = *con_cls;
    if (q == NULL)
        return;
    *con_cls = NULL;
    http_await_head(connection);
    free_request(q);
}

static enum MHD_Result run(struct http_request *q) {
    http_await_nothing(q->connection);
    if (q->sink_result < 0)
        call_fail(&q->call, &q->sink_error, 0);
    else if (q->begun == 0 && q->call.sink == NULL && atomic_load(&q->http->is_draining))
        http_fill_turned_away(q); /* its body came late, and nothing was done yet */
    else if (q->begun == 0)
        call_run(&q->call);
    return http_answer(q);
}

/* After a failure the rest is ignored, as far as that is reasonable: no answer goes out before. */
static enum MHD_Result take_piece(struct http_request *q, const char *data, size_t len) {
    if (q->begun < 0 || q->sink_result < 0) {
        q->ignored_bytes += len;
        return q->ignored_bytes > SINK_IGNORED_MAX ? MHD_NO : MHD_YES;
    }
    if (q->call.sink != NULL) {
        q->sink_result = q->call.sink->write(q->call.sink, data, len, &q->sink_error);
        return MHD_YES;
    }
    (void)buf_append(&q->call.body, data, len); /* what does not fit is refused at the end */
    return q->body_bytes > IGNORED_MAX ? MHD_NO : MHD_YES;
}

static enum MHD_Result take_body(struct http_request *q, const char *data, size_t *len) {
    int64_t began = clock_ms();
    http_await_nothing(q->connection);
    q->body_bytes += *len;
    enum MHD_Result result = take_piece(q, data, *len);
    *len = 0;
    q->body_ms += clock_ms() - began;
    http_await_body(q);
    return result;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *len, void **con_cls) {
    (void)connection, (void)url;
    const struct http_port *port = cls;
    struct http_request *q = *con_cls;
    if (q == NULL)
        return MHD_NO;
    if (!q->has_begun)
        return begin(port, method, version, q);
    if (*len > 0)
        return take_body(q, data, len);
    if (q->call.body.failed)
        return refuse_size(q);
    return run(q);
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

static int start_daemon(struct http_port *port, int sock, const struct tls *tls,
                        struct MHD_Daemon **ret, struct cay_error *err) {
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
        (unsigned)HTTP_CONNECTIONS_MAX + HTTP_CONNECTIONS_SPARE, MHD_OPTION_NOTIFY_CONNECTION,
        http_patience_notify, port, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_MAX,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_SIZE, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
    return *ret != NULL ? 0 : refuse_start(port->is_tcp, has_tls, err);
}

static int start_port(struct http_port *port, struct http *h, int sock, bool is_tcp,
                      struct cay_error *err) {
    *port = (struct http_port){.http = h, .is_tcp = is_tcp, .sock = sock};
    if (sock < 0)
        return 0;
    if (listen(sock, BACKLOG) < 0)
        return error_errno(err, "listening");
    int r = http_patience_start(port, err);
    return r < 0 ? r : start_daemon(port, sock, h->options.tls, &port->daemon, err);
}

static bool is_empty(struct MHD_Daemon *daemon) {
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return info != NULL && info->num_connections == 0;
}

static void release_retired(struct http_port *port) {
    struct http_retired **at = &port->retired;
    while (*at != NULL) {
        struct http_retired *old = *at;
        if (!is_empty(old->daemon)) {
            at = &old->next;
            continue;
        }
        *at = old->next;
        MHD_stop_daemon(old->daemon);
        fd_close(&old->sock);
        tls_free(&old->tls);
        free(old);
    }
}

/* The library cannot change the certificate of a server that runs. So another one takes the same
 * listening socket, and the one before serves the connections it has to their ends. */
int http_set_tls(struct http *h, struct tls *tls, struct cay_error *err) {
    struct http_port *port = &h->ports[1];
    struct MHD_Daemon *next = NULL;
    release_retired(port);
    if (port->daemon == NULL || h->options.tls->cert == NULL || tls->cert == NULL)
        return 0;
    struct http_retired *old = calloc(1, sizeof *old);
    int sock = old == NULL ? -1 : fcntl(port->sock, F_DUPFD_CLOEXEC, 3);
    int r = sock < 0 ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory or no descriptor")
                     : start_daemon(port, sock, tls, &next, err); /* which closes it if it fails */
    if (r < 0) {
        free(old);
        return r;
    }
    (void)MHD_quiesce_daemon(port->daemon);
    *old = (struct http_retired){port->daemon, port->sock, port->tls, port->retired};
    port->retired = old;
    port->daemon = next;
    port->sock = sock;
    port->tls = *tls;
    *tls = (struct tls){0};
    return 0;
}

int http_start(const struct http_options *options, struct http **ret, struct cay_error *err) {
    struct http *h = calloc(1, sizeof *h);
    if (h == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    h->options = *options;
    hash_of(options->key, strlen(options->key), h->admin_hash);
    (void)pthread_rwlock_init(&h->rules_lock, NULL);
    int r = http_set_rules(h, &options->rules, err);
    if (r == 0)
        r = start_port(&h->ports[0], h, options->unix_socket, false, err);
    if (r == 0)
        r = start_port(&h->ports[1], h, options->tcp_socket, true, err);
    *ret = h; /* threads may use it already; the process ends if r is negative */
    return r;
}
