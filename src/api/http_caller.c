/* Who asks, from where, and whether he may. */
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "api/access.h"
#include "api/daytona/s3.h"
#include "api/http_internal.h"
#include "api/metrics/health.h"
#include "api/preview/preview.h"
#include "api/preview/sign.h"
#include "api/shape/daytona_version.h"
#include "base/auto.h"
#include "base/error.h"
#include "manager/manager.h"

const char *call_header(const struct call *c, const char *name) {
    return MHD_lookup_connection_value(((const struct http_request *)c)->connection,
                                       MHD_HEADER_KIND, name);
}

int call_socket(const struct call *c) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        ((const struct http_request *)c)->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info == NULL ? -1 : info->connect_fd;
}

void call_load(const struct call *c, struct call_load *ret) {
    struct http *h = ((const struct http_request *)c)->http;
    ret->requests = (size_t)MAX(atomic_load(&h->under_way), 0);
    for (size_t i = 0; i < ARRAY_LEN(ret->connections); i++)
        ret->connections[i] = http_count_peers(&h->ports[i]);
}

struct header_visit {
    call_header_fn fn;
    void *user;
};

static enum MHD_Result visit_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                    const char *value) {
    (void)kind;
    const struct header_visit *visit = cls;
    visit->fn(visit->user, name, value != NULL ? value : "");
    return MHD_YES;
}

void call_each_header(const struct call *c, call_header_fn fn, void *user) {
    struct header_visit visit = {fn, user};
    (void)MHD_get_connection_values(((const struct http_request *)c)->connection, MHD_HEADER_KIND,
                                    visit_header, &visit);
}

/* ---- rules that may change ---- */

enum { PATIENCE_MS = 60 * 1000 };

static int copy_list(const struct strv *from, struct strv *ret) {
    for (size_t i = 0; from != NULL && i < from->len; i++)
        if (strv_push(ret, from->v[i]) < 0) {
            strv_free(ret);
            return -1;
        }
    return 0;
}

int http_set_rules(struct http *h, const struct http_rules *rules, struct cay_error *err) {
    struct strv hosts = {0}, origins = {0}, old_hosts, old_origins;
    char public_url[CALL_ORIGIN_SIZE];
    if (str_copy(public_url, sizeof public_url, rules->public_url) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "[server] public_url is too long");
    if (copy_list(rules->hosts, &hosts) < 0 || copy_list(rules->origins, &origins) < 0) {
        strv_free(&hosts);
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    (void)pthread_rwlock_wrlock(&h->rules_lock);
    old_hosts = h->hosts;
    old_origins = h->origins;
    h->hosts = hosts;
    h->origins = origins;
    h->metrics_public = rules->metrics_public;
    atomic_store(&h->patience_ms,
                 rules->client_timeout_ms > 0 ? rules->client_timeout_ms : PATIENCE_MS);
    memcpy(h->public_url, public_url, sizeof public_url);
    (void)pthread_rwlock_unlock(&h->rules_lock);
    strv_free(&old_hosts);
    strv_free(&old_origins);
    return 0;
}

static bool host_is_allowed(struct http *h, const char *given) {
    (void)pthread_rwlock_rdlock(&h->rules_lock);
    bool allowed = access_host_is_allowed(given, &h->hosts);
    (void)pthread_rwlock_unlock(&h->rules_lock);
    return allowed;
}

/* Metrics, where everybody may see them. */
static bool shows_metrics(struct http *h, const struct target *t) {
    if (t->segments != 1 || !str_equal(t->segment[0], "metrics"))
        return false;
    (void)pthread_rwlock_rdlock(&h->rules_lock);
    bool is_it = h->metrics_public;
    (void)pthread_rwlock_unlock(&h->rules_lock);
    return is_it;
}

void http_keep_public_url(struct http_request *q) {
    struct http *h = q->http;
    (void)pthread_rwlock_rdlock(&h->rules_lock);
    memcpy(q->public_url, h->public_url, sizeof q->public_url);
    (void)pthread_rwlock_unlock(&h->rules_lock);
    q->call.public_url = q->public_url;
}

void http_keep_origin(struct http_request *q) {
    struct http *h = q->http;
    const char *given = call_header(&q->call, "Origin");
    if (given == NULL)
        return;
    (void)pthread_rwlock_rdlock(&h->rules_lock);
    for (size_t i = 0; i < h->origins.len && q->origin == NULL; i++)
        if (str_equal(h->origins.v[i], given))
            q->origin = strdup(given); /* no memory: as if it were not allowed */
    (void)pthread_rwlock_unlock(&h->rules_lock);
}

int http_refuse_origin(struct cay_error *err) {
    error_set(err, CAY_FORBIDDEN, "pages of this origin may not call the daemon");
    return error_remedy(err, "add it to allowed_origins in [server]");
}

/* ---- who ---- */

static int identify_peer(const struct http_request *q, struct key *ret, struct cay_error *err) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(q->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    uid_t owner = q->http->options.owner;
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (info == NULL || getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return error_errno(err, "asking who is at the other end");
    (void)snprintf(ret->name, sizeof ret->name, "uid:%u", (unsigned)peer.uid);
    ret->scopes = SCOPE_ADMIN;
    if (peer.uid == 0 || peer.uid == owner)
        return 0;
    error_set(err, CAY_FORBIDDEN, "this daemon belongs to user %u, not to user %u", (unsigned)owner,
              (unsigned)peer.uid);
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

static bool match_key(const struct http *h, const char *text, struct key *ret) {
    return match_admin(h, text, ret) || manager_key_match(h->options.manager, text, ret);
}

bool call_identify(const struct call *c, const char *text, struct key *ret) {
    return match_key(((const struct http_request *)c)->http, text, ret);
}

/* The socket of events, whose first message has the key. */
static bool brings_key_later(const struct target *t) {
    return t->segments == 2 && str_equal(t->segment[0], "api") &&
           str_equal(t->segment[1], "socket.io");
}

/* True if a page of an origin that is neither ours nor allowed would change something, or open a
 * connection, for which browsers do not ask first. Pages of previews are their application's. */
static bool acts_from_elsewhere(const struct http_request *q) {
    const struct call *c = &q->call;
    const char *origin = call_header(c, "Origin");
    if (origin == NULL || q->origin != NULL || c->preview.is_one ||
        access_is_same_origin(origin, call_header(c, "Host")))
        return false;
    bool looks = str_equal(c->method, "GET") || str_equal(c->method, "HEAD");
    return !looks || c->wants_websocket || c->wants_upgrade;
}

static int check_place(const struct http_request *q, struct cay_error *err) {
    const struct call *c = &q->call;
    const char *host = c->preview.by_host ? c->preview.host : call_header(c, "Host");
    if (!host_is_allowed(q->http, host)) {
        error_set(err, CAY_FORBIDDEN, "the request is for another host");
        return error_remedy(err, "add the name to allowed_hosts in [server]");
    }
    return acts_from_elsewhere(q) ? http_refuse_origin(err) : 0;
}

static int refuse_key(struct cay_error *err) {
    error_set(err, CAY_UNAUTHORIZED, "the key is missing or not valid");
    return error_remedy(err, "send 'Authorization: Bearer KEY'; a key is made by: cay key create");
}

/* What is wrong with a key is not told: only that it does not work. */
static int identify_key(struct http_request *q, struct cay_error *err) {
    struct http *h = q->http;
    struct call *c = &q->call;
    struct key *ret = &c->caller;
    int r = check_place(q, err);
    if (r < 0)
        return r;
    const char *text = access_bearer(call_header(c, "Authorization"));
    c->has_key = text != NULL && match_key(h, text, ret);
    if (c->has_key || preview_admit(c))
        return 0;
    if (s3_is_asked(&c->target))
        return s3_identify(c, err);
    c->sees_metrics = shows_metrics(h, &c->target);
    if (c->sees_metrics || brings_key_later(&c->target) || daytona_is_public(&c->target)) {
        *ret = (struct key){.name = "public", .scopes = c->sees_metrics ? SCOPE_READ : 0};
        return 0;
    }
    if (sign_admit(h->options.manager, c->method, &c->target, ret))
        return 0;
    r = refuse_key(err);
    if (target_query(&c->target, "signature") != NULL)
        return error_remedy(err, "the signature of the URL is not valid, or has expired");
    return r;
}

int http_identify(const struct http_port *port, struct http_request *q, struct cay_error *err) {
    /* Whoever asks, by whatever name: load balancers know addresses, and the answer is one word. */
    if (!q->call.preview.is_one && health_is_probe(&q->call.target)) {
        q->call.caller = (struct key){.name = "public"};
        return 0;
    }
    return port->is_tcp ? identify_key(q, err) : identify_peer(q, &q->call.caller, err);
}

/* Visitors of previews and users of signed URLs act with the key of the sandbox's owner. */
int http_use_key(struct http_request *q, struct cay_error *err) {
    memcpy(q->use.id, q->call.caller.id, sizeof q->use.id);
    q->use.sock = call_socket(&q->call);
    if (q->use.id[0] == '\0' || manager_key_use(q->call.manager, &q->use))
        return 0;
    q->use.id[0] = '\0';
    return refuse_key(err);
}

int call_claim(const struct call *c, const struct key *k, struct cay_error *err) {
    return http_claim(((const struct http_request *)c)->connection, k, err);
}

void call_forget_key(struct call *c) {
    struct http_request *q = (struct http_request *)c;
    manager_key_unuse(c->manager, &q->use);
    q->use.id[0] = '\0';
    q->closes = true;
}

/* ---- from where ---- */

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

void http_note_refusal(const struct http_request *q, const struct cay_error *err) {
    const struct call *c = &q->call;
    char peer[64];
    put_peer(q->connection, peer, sizeof peer);
    manager_audit_refusal(c->manager, c->caller.name[0] != '\0' ? c->caller.name : "-", "access",
                          "", cay_code_name(err->code), peer);
}
