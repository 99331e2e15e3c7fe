#include "imager/registry/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "base/str.h"
#include "imager/registry/policy.h"
#include "version.h"

enum {
    RECEIVE_SIZE = 256 * 1024,
    ALIVE_BYTES = 1024,   /* what must come within the time that silence may last */
    SMALL_STALLS = 4,     /* deadline of a document, in times that silence may last */
    RETRY_AFTER_MAX = 60, /* seconds */
};

struct http {
    CURL *curl;
    struct http_options options;
    char message[CURL_ERROR_SIZE];
};

/* One request to one host. */
struct hop {
    struct http *http;
    const struct http_request *request;
    struct http_response *response;
    struct cay_error *err;
    size_t header_count, header_bytes;
    int64_t window_start; /* the time since which `moved` bytes came; the sink's time is not ours */
    uint64_t moved;
    bool too_many_headers, body_refused, enough, silent;
    bool is_closed; /* it led to an address that must not be used */
};

static void init_library(void) {
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

int http_new(const struct http_options *options, struct http **ret, struct cay_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, init_library);
    struct http *h = calloc(1, sizeof *h);
    if (h == NULL)
        return error_sys(err, ENOMEM, "preparing to reach a registry");
    h->options = *options;
    h->curl = curl_easy_init();
    if (h->curl == NULL) {
        free(h);
        return error_sys(err, ENOMEM, "preparing to reach a registry");
    }
    *ret = h;
    return 0;
}

void http_free(struct http *h) {
    if (h == NULL)
        return;
    curl_easy_cleanup(h->curl);
    free(h);
}

void http_response_free(struct http_response *response) {
    buf_free(&response->error_body);
}

/* ---- URLs ---- */

struct origin {
    char scheme[16];
    char host[256];
    char port[8];
};

static bool get_part(CURLU *u, CURLUPart part, char *out, size_t size) {
    char *text = NULL;
    if (curl_url_get(u, part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK)
        return false;
    int r = str_copy(out, size, text);
    curl_free(text);
    return r == 0;
}

static bool parse_origin(const char *url, struct origin *ret) {
    CURLU *u = curl_url();
    if (u == NULL)
        return false;
    bool ok = curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
              get_part(u, CURLUPART_SCHEME, ret->scheme, sizeof ret->scheme) &&
              get_part(u, CURLUPART_HOST, ret->host, sizeof ret->host) &&
              get_part(u, CURLUPART_PORT, ret->port, sizeof ret->port);
    curl_url_cleanup(u);
    return ok;
}

static bool same_origin(const struct origin *a, const struct origin *b) {
    return strcasecmp(a->scheme, b->scheme) == 0 && strcasecmp(a->host, b->host) == 0 &&
           strcmp(a->port, b->port) == 0;
}

const char *http_host_of(const char *url, char out[static HTTP_HOST_SIZE]) {
    struct origin o;
    char host[sizeof o.host + sizeof o.port];
    if (!parse_origin(url, &o))
        return "an address that is none";
    bool usual = str_equal(o.port, str_equal(o.scheme, "https") ? "443" : "80");
    (void)snprintf(host, sizeof host, "%s%s%s", o.host, usual ? "" : ":", usual ? "" : o.port);
    return str_escape(out, HTTP_HOST_SIZE, host);
}

/* HTTPS may be used always; HTTP where nobody can listen, or where the user does not mind. */
static bool is_allowed(const struct http *h, const struct origin *to) {
    if (str_equal(to->scheme, "https"))
        return true;
    if (!str_equal(to->scheme, "http"))
        return false;
    return h->options.insecure || (h->options.on_loopback && host_is_loopback(to->host));
}

int http_check_url(const struct http *h, const char *url, struct cay_error *err) {
    struct origin to;
    if (parse_origin(url, &to) && is_allowed(h, &to))
        return 0;
    char host[HTTP_HOST_SIZE];
    return error_set(err, CAY_UNAVAILABLE, "the registry refers to %s, not by HTTPS",
                     http_host_of(url, host));
}

static int check_redirect(const struct http *h, const char *from, const char *to,
                          bool *ret_same_origin, struct cay_error *err) {
    struct origin a, b;
    char host[HTTP_HOST_SIZE], other[HTTP_HOST_SIZE];
    if (!parse_origin(from, &a) || !parse_origin(to, &b))
        return error_set(err, CAY_UNAVAILABLE, "%s redirects to an address that is none",
                         http_host_of(from, host));
    bool downgrade = str_equal(a.scheme, "https") && !str_equal(b.scheme, "https");
    if (downgrade || !is_allowed(h, &b))
        return error_set(err, CAY_UNAVAILABLE, "%s redirects to %s, not by HTTPS",
                         http_host_of(from, host), http_host_of(to, other));
    *ret_same_origin = same_origin(&a, &b);
    return 0;
}

/* ---- what comes ---- */

static void keep_text(char *out, const char *value, const char *end_chars) {
    char *copy = strndup(value, strcspn(value, end_chars));
    if (copy == NULL)
        return;
    size_t len = strlen(copy);
    while (len > 0 && strchr(" \t", copy[len - 1]) != NULL)
        copy[--len] = '\0';
    if (str_copy(out, RECORD_WORD_SIZE, copy) < 0)
        out[0] = '\0'; /* longer than any that we know */
    free(copy);
}

static void keep_header(struct http_response *r, const char *name, const char *value) {
    if (strcasecmp(name, "WWW-Authenticate") == 0)
        challenge_parse(value, &r->challenge);
    else if (strcasecmp(name, "Content-Type") == 0)
        keep_text(r->content_type, value, ";");
    else if (strcasecmp(name, "Docker-Content-Digest") == 0)
        keep_text(r->content_digest, value, "");
    else if (strcasecmp(name, "Content-Range") == 0)
        keep_text(r->content_range, value, "");
}

static void reset_response(struct http_response *r) {
    struct buf body = r->error_body;
    buf_clear(&body);
    *r = (struct http_response){.length = -1, .error_body = body};
}

static size_t take_header(char *data, size_t one, size_t len, void *user) {
    (void)one; /* always 1 */
    struct hop *hop = user;
    hop->moved += len;
    hop->header_bytes += len;
    if (++hop->header_count > HTTP_HEADERS_MAX || hop->header_bytes > HTTP_HEADER_BYTES_MAX) {
        hop->too_many_headers = true;
        return 0;
    }
    _cleanup_(freep) char *line = strndup(data, len);
    if (line == NULL)
        return 0;
    line[strcspn(line, "\r\n")] = '\0';
    if (str_starts(line, "HTTP/")) { /* an interim answer may have come before */
        reset_response(hop->response);
        return len;
    }
    char *colon = strchr(line, ':');
    if (colon == NULL)
        return len;
    *colon = '\0';
    keep_header(hop->response, line, colon + 1 + strspn(colon + 1, " \t"));
    return len;
}

static void read_status(struct hop *hop) {
    curl_off_t length = -1;
    (void)curl_easy_getinfo(hop->http->curl, CURLINFO_RESPONSE_CODE, &hop->response->status);
    (void)curl_easy_getinfo(hop->http->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    hop->response->length = length;
}

static bool keep_error_body(struct hop *hop, const char *data, size_t len) {
    struct buf *b = &hop->response->error_body;
    size_t room = b->max - b->len;
    hop->enough = len > room;
    return buf_append(b, data, MIN(len, room)) == 0 && !hop->enough;
}

static size_t take_body(char *data, size_t one, size_t len, void *user) {
    (void)one; /* always 1 */
    struct hop *hop = user;
    hop->moved += len;
    read_status(hop);
    if (hop->response->status < 200 || hop->response->status > 299)
        return keep_error_body(hop, data, len) ? len : CURL_WRITEFUNC_ERROR;
    if (hop->request->body == NULL)
        return len;
    int64_t before = clock_ms();
    int r = hop->request->body(hop->request->user, hop->response, data, len, hop->err);
    hop->window_start += clock_ms() - before;
    hop->body_refused = r < 0;
    return r < 0 ? CURL_WRITEFUNC_ERROR : len;
}

static int watch(void *user, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                 curl_off_t up) {
    (void)down_total, (void)down, (void)up_total, (void)up;
    struct hop *hop = user;
    int64_t now = clock_ms();
    if (now - hop->window_start < hop->http->options.stall_ms)
        return 0;
    hop->silent = hop->moved < ALIVE_BYTES;
    hop->window_start = now;
    hop->moved = 0;
    return hop->silent;
}

/* ---- what goes ---- */

static int add_header(struct curl_slist **list, const char *name, const char *value) {
    _cleanup_(buf_free) struct buf line = BUF_INIT(HTTP_HEADER_BYTES_MAX * 2);
    int r = buf_printf(&line, "%s: %s", name, value);
    struct curl_slist *longer = r < 0 ? NULL : curl_slist_append(*list, line.data);
    if (line.data != NULL)
        explicit_bzero(line.data, line.cap);
    if (longer == NULL)
        return -ENOMEM;
    *list = longer;
    return 0;
}

static void free_headers(struct curl_slist **list) {
    for (struct curl_slist *at = *list; at != NULL; at = at->next)
        explicit_bzero(at->data, strlen(at->data));
    curl_slist_free_all(*list);
}

static int make_headers(const struct http_request *request, bool with_authorization,
                        struct curl_slist **ret) {
    int r = 0;
    if (request->authorization != NULL && with_authorization)
        r = add_header(ret, "Authorization", request->authorization);
    if (r == 0 && request->accept != NULL)
        r = add_header(ret, "Accept", request->accept);
    return r;
}

static void set_trust(struct http *h) {
    CURL *c = h->curl;
    if (h->options.ca_pem != NULL) {
        struct curl_blob blob = {.data = (void *)(uintptr_t)h->options.ca_pem,
                                 .len = h->options.ca_len,
                                 .flags = CURL_BLOB_NOCOPY};
        (void)curl_easy_setopt(c, CURLOPT_CAINFO_BLOB, &blob);
    }
    if (h->options.insecure) {
        (void)curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L);
        (void)curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L);
    }
}

static void set_times(struct http *h, const struct http_request *request) {
    int64_t connect = request->connect_ms > 0 ? request->connect_ms : h->options.stall_ms;
    (void)curl_easy_setopt(h->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)connect);
    if (request->is_small)
        (void)curl_easy_setopt(h->curl, CURLOPT_TIMEOUT_MS,
                               (long)(h->options.stall_ms * SMALL_STALLS));
}

static void set_callbacks(struct hop *hop) {
    CURL *c = hop->http->curl;
    (void)curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header);
    (void)curl_easy_setopt(c, CURLOPT_HEADERDATA, hop);
    (void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
    (void)curl_easy_setopt(c, CURLOPT_WRITEDATA, hop);
    (void)curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, watch);
    (void)curl_easy_setopt(c, CURLOPT_XFERINFODATA, hop);
    (void)curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
}

/* ---- where to ---- */

/* Judges the very address that is connected to: a name that means another one by now gains nothing.
 */
static curl_socket_t open_judged(void *user, curlsocktype purpose, struct curl_sockaddr *to) {
    struct hop *hop = user;
    (void)purpose;
    if (!registry_address_is_public(&to->addr)) {
        hop->is_closed = true;
        return CURL_SOCKET_BAD;
    }
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static bool is_judged(const struct http *h, const char *url) {
    char host[HTTP_HOST_SIZE];
    return h->options.is_judged && !registry_is_listed(h->options.listed, http_host_of(url, host));
}

/* The handle keeps its connections over a reset. */
static void set_options(struct hop *hop, const char *url, bool to_loopback) {
    struct http *h = hop->http;
    const struct http_request *request = hop->request;
    CURL *c = h->curl;
    curl_easy_reset(c);
    h->message[0] = '\0';
    (void)curl_easy_setopt(c, CURLOPT_ERRORBUFFER, h->message);
    (void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(c, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    (void)curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    (void)curl_easy_setopt(c, CURLOPT_USERAGENT, "cay/" CAY_VERSION);
    (void)curl_easy_setopt(c, CURLOPT_BUFFERSIZE, (long)RECEIVE_SIZE);
    (void)curl_easy_setopt(c, CURLOPT_URL, url);
    bool judge = is_judged(h, url);
    if (to_loopback || judge) /* a proxy's loopback is another one */
        (void)curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    if (judge) {
        (void)curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_judged);
        (void)curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, hop);
    }
    if (request->form != NULL)
        (void)curl_easy_setopt(c, CURLOPT_POSTFIELDS, request->form);
    set_trust(h);
    set_times(h, request);
    set_callbacks(hop);
}

/* ---- what went wrong ---- */

static int fail(struct hop *hop, enum http_trouble trouble, enum cay_code code, const char *host,
                const char *what) {
    char why[160];
    hop->response->trouble = trouble;
    const char *said = str_escape(why, sizeof why, hop->http->message);
    return error_set(hop->err, code, "%s: %s%s%s", host, what, said[0] != '\0' ? ": " : "", said);
}

static int fail_tls(struct hop *hop, const char *host) {
    (void)fail(hop, HTTP_HOPELESS, CAY_UNAVAILABLE, host, "its certificate cannot be trusted");
    return error_remedy(hop->err,
                        "if a private CA signed it, put the CA's certificate (PEM) into "
                        "/etc/containers/certs.d/%s/ca.crt, or name its file in [images] ca_file",
                        host);
}

static int fail_no_tls(struct hop *hop, const char *host) {
    (void)fail(hop, HTTP_NO_TLS, CAY_UNAVAILABLE, host, "it does not speak TLS with us");
    return error_remedy(hop->err,
                        "check the port; if the registry has plain HTTP only, and you trust the "
                        "network, add it to [images] insecure_registries");
}

static int fail_unreachable(struct hop *hop, const char *host, const char *what) {
    (void)fail(hop, HTTP_NO_CONNECTION, CAY_UNAVAILABLE, host, what);
    return error_remedy(hop->err, "check the registry's name, the network and the proxy settings");
}

static int fail_silent(struct hop *hop, const char *host) {
    hop->response->trouble = HTTP_BROKEN;
    (void)error_set(hop->err, CAY_TIMEOUT, "%s: the registry fell silent for %lld ms", host,
                    (long long)hop->http->options.stall_ms);
    return error_remedy(hop->err, "check the network, or try again later");
}

static int fail_closed(struct hop *hop, const char *host) {
    (void)fail(hop, HTTP_HOPELESS, CAY_FORBIDDEN, host, "keys may not use its address");
    return error_remedy(hop->err, "add it to [images] registries");
}

static int fail_aborted(struct hop *hop, const char *host) {
    hop->http->message[0] = '\0';
    if (hop->too_many_headers)
        return fail(hop, HTTP_HOPELESS, CAY_UNAVAILABLE, host, "it sends too many headers");
    return error_sys(hop->err, ENOMEM, "%s: receiving", host);
}

static int explain(struct hop *hop, CURLcode code, const char *url) {
    char buffer[HTTP_HOST_SIZE];
    const char *host = http_host_of(url, buffer);
    if (hop->silent)
        return fail_silent(hop, host);
    if (hop->is_closed)
        return fail_closed(hop, host);
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return fail_unreachable(hop, host, "the host cannot be found");
    case CURLE_COULDNT_CONNECT:
        return fail_unreachable(hop, host, "the host cannot be reached");
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        return fail_tls(hop, host);
    case CURLE_SSL_CONNECT_ERROR:
        return fail_no_tls(hop, host);
    case CURLE_OPERATION_TIMEDOUT:
        return fail(hop, hop->response->status == 0 ? HTTP_NO_TLS : HTTP_BROKEN, CAY_TIMEOUT, host,
                    "it takes too long");
    case CURLE_WRITE_ERROR:
        return fail_aborted(hop, host);
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return fail(hop, HTTP_BROKEN, CAY_UNAVAILABLE, host, "the connection broke");
    default:
        if (hop->http->message[0] == '\0')
            (void)snprintf(hop->http->message, sizeof hop->http->message, "%s",
                           curl_easy_strerror(code));
        return fail(hop, HTTP_HOPELESS, CAY_UNAVAILABLE, host, "the answer makes no sense");
    }
}

/* ---- the exchange ---- */

static void read_end(struct hop *hop) {
    curl_off_t seconds = 0;
    read_status(hop);
    (void)curl_easy_getinfo(hop->http->curl, CURLINFO_RETRY_AFTER, &seconds);
    hop->response->retry_ms = (int64_t)MIN(MAX(seconds, 0), RETRY_AFTER_MAX) * 1000;
}

static int perform(struct hop *hop, const char *url, bool with_authorization) {
    struct origin to;
    char range[32];
    bool to_loopback = parse_origin(url, &to) && host_is_loopback(to.host);
    _cleanup_(free_headers) struct curl_slist *headers = NULL;
    reset_response(hop->response);
    hop->response->trouble = HTTP_HOPELESS;
    if (make_headers(hop->request, with_authorization, &headers) < 0)
        return error_sys(hop->err, ENOMEM, "asking a registry");
    set_options(hop, url, to_loopback);
    (void)curl_easy_setopt(hop->http->curl, CURLOPT_HTTPHEADER, headers);
    (void)snprintf(range, sizeof range, "%llu-", (unsigned long long)hop->request->offset);
    if (hop->request->offset > 0)
        (void)curl_easy_setopt(hop->http->curl, CURLOPT_RANGE, range);
    hop->window_start = clock_ms();
    CURLcode code = curl_easy_perform(hop->http->curl);
    read_end(hop);
    hop->response->trouble = hop->body_refused ? HTTP_REFUSED : HTTP_FINE;
    if (hop->body_refused)
        return hop->err != NULL ? -(int)hop->err->code : -CAY_INTERNAL;
    return code == CURLE_OK || hop->enough ? 0 : explain(hop, code, url);
}

/* Where the answer sends us; NULL if nowhere. Belongs to the handle. */
static const char *redirect_of(const struct hop *hop) {
    char *url = NULL;
    long status = hop->response->status;
    bool moved = status >= 301 && status <= 308 && status != 304 && status != 305 && status != 306;
    if (!moved || curl_easy_getinfo(hop->http->curl, CURLINFO_REDIRECT_URL, &url) != CURLE_OK)
        return NULL;
    return url;
}

static int refuse_redirect(struct http_response *response, const char *url, const char *why,
                           struct cay_error *err) {
    char host[HTTP_HOST_SIZE];
    response->trouble = HTTP_HOPELESS;
    return error_set(err, CAY_UNAVAILABLE, "%s: %s", http_host_of(url, host), why);
}

int http_exchange(struct http *h, const struct http_request *request,
                  struct http_response *response, struct cay_error *err) {
    _cleanup_(freep) char *url = strdup(request->url);
    bool with_authorization = true;
    for (unsigned hops = 0; url != NULL; hops++) {
        struct hop hop = {.http = h, .request = request, .response = response, .err = err};
        int r = perform(&hop, url, with_authorization);
        if (!with_authorization) /* what is meant for the registry is not for others to ask for */
            response->challenge = (struct challenge){0};
        const char *next = r < 0 ? NULL : redirect_of(&hop);
        if (next == NULL)
            return r;
        if (request->form != NULL)
            return refuse_redirect(response, url, "it redirects what is for itself alone", err);
        if (hops >= HTTP_REDIRECTS_MAX)
            return refuse_redirect(response, url, "it redirects in circles, or too often", err);
        bool same = false;
        response->trouble = HTTP_HOPELESS;
        r = check_redirect(h, url, next, &same, err);
        if (r < 0)
            return r;
        with_authorization = with_authorization && same;
        char *copy = strdup(next);
        free(url);
        url = copy;
    }
    response->trouble = HTTP_HOPELESS;
    return error_sys(err, ENOMEM, "asking a registry");
}
