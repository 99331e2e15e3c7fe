#include "engine/docker/api.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/docker/curl.h"

enum { HANDLES_MAX = 8, CONNECT_MS = 5 * 1000, HEADER_MAX = 64 * 1024 };

struct docker_api {
    struct docker_host host;
    struct cay_error unusable; /* CAY_OK: it is usable */
    pthread_mutex_t lock;
    CURL *idle[HANDLES_MAX]; /* each keeps its connection */
    size_t idle_count;
    char version[DOCKER_API_SIZE]; /* "": not asked yet */
};

/* One request. */
struct ask {
    const struct docker_call *call;
    struct docker_answer *answer;
    bool refused; /* the sink, or the answer was too large */
};

static void init_library(void) {
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

int docker_api_new(const struct docker_host *host, const struct cay_error *unusable,
                   struct docker_api **ret, struct cay_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, init_library);
    struct docker_api *api = calloc(1, sizeof *api);
    if (api == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    api->host = *host;
    if (unusable != NULL)
        api->unusable = *unusable;
    (void)pthread_mutex_init(&api->lock, NULL);
    *ret = api;
    return 0;
}

void docker_api_free(struct docker_api *api) {
    if (api == NULL)
        return;
    for (size_t i = 0; i < api->idle_count; i++)
        curl_easy_cleanup(api->idle[i]);
    (void)pthread_mutex_destroy(&api->lock);
    free(api);
}

const struct docker_host *docker_api_host(const struct docker_api *api) {
    return &api->host;
}

/* ---- handles ---- */

static CURL *take_handle(struct docker_api *api) {
    CURL *curl = NULL;
    (void)pthread_mutex_lock(&api->lock);
    if (api->idle_count > 0)
        curl = api->idle[--api->idle_count];
    (void)pthread_mutex_unlock(&api->lock);
    if (curl == NULL)
        return curl_easy_init();
    curl_easy_reset(curl); /* which keeps the connection */
    return curl;
}

static void give_back(struct docker_api *api, CURL *curl) {
    (void)pthread_mutex_lock(&api->lock);
    bool keep = api->idle_count < HANDLES_MAX;
    if (keep)
        api->idle[api->idle_count++] = curl;
    (void)pthread_mutex_unlock(&api->lock);
    if (!keep)
        curl_easy_cleanup(curl);
}

/* ---- one request ---- */

static size_t on_data(char *data, size_t size, size_t count, void *user) {
    struct ask *a = user;
    size_t len = size * count;
    bool to_sink = a->call->sink != NULL && a->answer->status < 400;
    int r =
        to_sink ? a->call->sink(a->call->user, data, len) : buf_append(&a->answer->body, data, len);
    a->refused = r < 0;
    return r < 0 ? 0 : len;
}

static void take_api(const char *line, struct docker_answer *ret) {
    static const char name[] = "api-version:";
    if (strncasecmp(line, name, sizeof name - 1) != 0)
        return;
    const char *value = line + sizeof name - 1;
    value += strspn(value, " ");
    size_t len = strcspn(value, " \r\n");
    if (len < sizeof ret->api) {
        memcpy(ret->api, value, len);
        ret->api[len] = '\0';
    }
}

/* The status is needed before the body: an error is no content. */
static size_t on_header(char *data, size_t size, size_t count, void *user) {
    struct ask *a = user;
    size_t len = size * count;
    char line[64];
    size_t n = MIN(len, sizeof line - 1);
    memcpy(line, data, n);
    line[n] = '\0';
    if (str_starts(line, "HTTP/")) {
        const char *space = strchr(line, ' ');
        a->answer->status = space != NULL ? (int)strtol(space + 1, NULL, 10) : 0;
    }
    take_api(line, a->answer);
    return len;
}

static size_t on_read(char *out, size_t size, size_t count, void *user) {
    ssize_t n;
    do
        n = read(*(const int *)user, out, size * count);
    while (n < 0 && errno == EINTR);
    return n < 0 ? CURL_READFUNC_ABORT : (size_t)n;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    const struct docker_call *call = user;
    (void)a, (void)b, (void)c, (void)d;
    return call->is_over(call->user);
}

/* The library wants a pointer that it may write through, and does not. */
static bool set_is_over(CURL *curl, const struct docker_call *call) {
    return curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_XFERINFODATA, (void *)(uintptr_t)call) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L) == CURLE_OK;
}

/* Less than a byte in a second, for so long, is nothing. */
static bool set_silence(CURL *curl, int seconds) {
    return curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)seconds) == CURLE_OK;
}

static bool set_tls(CURL *curl, const struct docker_host *host) {
    char path[PATH_MAX + 16];
    static const struct {
        CURLoption option;
        const char *name;
    } files[] = {
        {CURLOPT_CAINFO, "ca.pem"}, {CURLOPT_SSLCERT, "cert.pem"}, {CURLOPT_SSLKEY, "key.pem"}};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        if (str_format(path, sizeof path, "%s/%s", host->certs, files[i].name) < 0)
            return false;
        /* Without a file of its own the system's authorities, and no certificate of the client. */
        if (access(path, R_OK) == 0 && curl_easy_setopt(curl, files[i].option, path) != CURLE_OK)
            return false;
    }
    return host->verify || (curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L) == CURLE_OK &&
                            curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L) == CURLE_OK);
}

bool docker_curl_set_host(CURL *curl, const struct docker_host *host, const char *url,
                          char message[static CURL_ERROR_SIZE]) {
    bool ok =
        curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK &&
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
        curl_easy_setopt(curl, CURLOPT_NOPROXY, "*") == CURLE_OK &&
        curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
        curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
        curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS) == CURLE_OK &&
        curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK &&
        curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message) == CURLE_OK;
    if (ok && host->socket[0] != '\0')
        ok = curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, host->socket) == CURLE_OK;
    return ok && (host->certs[0] == '\0' || set_tls(curl, host));
}

static bool set_body(CURL *curl, const struct docker_call *call) {
    bool ok = curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call->method) == CURLE_OK;
    if (call->upload > 0)
        return ok && curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_READDATA, &call->upload) == CURLE_OK;
    if (call->body == NULL && !str_equal(call->method, "POST"))
        return ok;
    return ok && curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)call->body_len) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body != NULL ? call->body : "") ==
               CURLE_OK;
}

static bool set_options(CURL *curl, const struct docker_host *host, struct ask *a, const char *url,
                        char *message) {
    const struct docker_call *call = a->call;
    long ms = call->timeout_ms == 0 ? DOCKER_QUICK_MS : MAX(call->timeout_ms, 0);
    bool ok = docker_curl_set_host(curl, host, url, message) &&
              curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, ms) == CURLE_OK &&
              curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data) == CURLE_OK &&
              curl_easy_setopt(curl, CURLOPT_WRITEDATA, a) == CURLE_OK &&
              curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
              curl_easy_setopt(curl, CURLOPT_HEADERDATA, a) == CURLE_OK;
    if (ok && call->is_over != NULL)
        ok = set_is_over(curl, call);
    if (ok && call->silence_s > 0)
        ok = set_silence(curl, call->silence_s);
    return ok && set_body(curl, call);
}

/* ---- failures ---- */

int docker_unreachable(const struct docker_host *host, CURLcode code, const char *message,
                       struct cay_error *err) {
    if (host->socket[0] != '\0' && access(host->socket, F_OK) < 0 && errno != EACCES) {
        error_set(err, CAY_UNAVAILABLE, "there is no Docker at %s", host->shown);
        return error_remedy(err, "start dockerd, set DOCKER_HOST, or use engine = \"native\"");
    }
    if (host->socket[0] != '\0' && access(host->socket, R_OK | W_OK) < 0) {
        error_set(err, CAY_UNAVAILABLE, "Docker at %s may not be used by user %u", host->shown,
                  (unsigned)geteuid());
        return error_remedy(err, "run the daemon as root or as a member of the group docker");
    }
    if (host->socket[0] != '\0' && code == CURLE_COULDNT_CONNECT) {
        error_set(err, CAY_UNAVAILABLE, "Docker at %s does not answer: nobody listens there",
                  host->shown);
        return error_remedy(err, "start dockerd, set DOCKER_HOST, or use engine = \"native\"");
    }
    if (code == CURLE_SSL_CONNECT_ERROR && strstr(message, "wrong version number") != NULL) {
        error_set(err, CAY_UNAVAILABLE, "what answers at %s does not speak TLS", host->shown);
        return error_remedy(err, "let dockerd listen there with --tlsverify; or name another port, "
                                 "and leave DOCKER_TLS_VERIFY unset");
    }
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CERTPROBLEM ||
        code == CURLE_SSL_CONNECT_ERROR || code == CURLE_SSL_CACERT_BADFILE) {
        error_set(err, CAY_UNAVAILABLE, "there is no trust between Docker at %s and us: %s",
                  host->shown, message[0] != '\0' ? message : curl_easy_strerror(code));
        return error_remedy(err,
                            "put ca.pem, cert.pem and key.pem for it into %.200s, or name "
                            "their folder with DOCKER_CERT_PATH",
                            host->certs);
    }
    error_set(err, CAY_UNAVAILABLE, "Docker at %s does not answer: %s", host->shown,
              message[0] != '\0' ? message : curl_easy_strerror(code));
    return error_remedy(err, "look whether dockerd runs, and what its log says");
}

int docker_refused(const struct docker_answer *a, const char *what, struct cay_error *err) {
    static const struct {
        int status;
        enum cay_code code;
    } classes[] = {{400, CAY_INVALID_ARGUMENT}, {401, CAY_UNAUTHORIZED}, {403, CAY_FORBIDDEN},
                   {404, CAY_NOT_FOUND},        {409, CAY_CONFLICT},     {501, CAY_UNSUPPORTED},
                   {503, CAY_UNAVAILABLE}};
    char message[DOCKER_TEXT_SIZE];
    enum cay_code code = CAY_INTERNAL;
    for (size_t i = 0; i < ARRAY_LEN(classes); i++)
        if (classes[i].status == a->status)
            code = classes[i].code;
    docker_parse_error(buf_text(&a->body), a->body.len, message);
    if (docker_is_full(message))
        code = CAY_RESOURCE_EXHAUSTED;
    error_set(err, code, "%s: Docker says %d: %s", what, a->status, message);
    return error_remedy(err, code == CAY_RESOURCE_EXHAUSTED ? DOCKER_MAKE_ROOM
                                                            : "the log of dockerd may say more");
}

/* NULL without memory. */
static struct curl_slist *make_headers(const struct docker_call *call) {
    const struct {
        const char *name, *value;
    } all[] = {{"Content-Type: ", call->type != NULL ? call->type : "application/json"},
               {"Expect:", ""},
               {"X-Registry-Auth: ", call->auth}};
    struct curl_slist *headers = NULL;
    for (size_t i = 0; i < ARRAY_LEN(all) && all[i].value != NULL; i++) {
        _cleanup_(buf_free) struct buf line = BUF_INIT(HEADER_MAX);
        (void)buf_printf(&line, "%s%s", all[i].name, all[i].value);
        struct curl_slist *more = line.failed ? NULL : curl_slist_append(headers, buf_text(&line));
        if (more == NULL) {
            curl_slist_free_all(headers);
            return NULL;
        }
        headers = more;
    }
    return headers;
}

static int request(struct docker_api *api, const struct docker_call *call, const char *version,
                   struct docker_answer *ret, struct cay_error *err) {
    char url[DOCKER_PATH_SIZE + 600], message[CURL_ERROR_SIZE] = "";
    struct ask a = {.call = call, .answer = ret};
    if (str_format(url, sizeof url, "%s%s%s%s", api->host.url, version[0] != '\0' ? "/v" : "",
                   version, call->path) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "a request to Docker is too long");
    CURL *curl = take_handle(api);
    struct curl_slist *headers = make_headers(call);
    CURLcode code = CURLE_OUT_OF_MEMORY;
    if (curl != NULL && headers != NULL && set_options(curl, &api->host, &a, url, message) &&
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers) == CURLE_OK)
        code = curl_easy_perform(curl);
    if (curl != NULL)
        give_back(api, curl);
    curl_slist_free_all(headers);
    if (code == CURLE_OK)
        return 0;
    if (a.refused)
        return error_set(err, CAY_INTERNAL, "an answer of Docker was larger than expected");
    return docker_unreachable(&api->host, code, message, err);
}

/* What a server with TLS says to who comes without. */
static int check_plain(const struct docker_host *host, const struct docker_answer *a,
                       struct cay_error *err) {
    if (a->status != 400 || strstr(buf_text(&a->body), "HTTPS server") == NULL)
        return 0;
    error_set(err, CAY_UNAVAILABLE, "Docker at %s speaks TLS", host->shown);
    return error_remedy(err, "set DOCKER_TLS_VERIFY=1, and DOCKER_CERT_PATH to the folder with "
                             "ca.pem, cert.pem and key.pem for it");
}

/* All that it says of it, for which podman takes seconds. */
static int ask_versions(struct docker_api *api, struct docker_version *ret, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    struct docker_call call = {
        .method = "GET", .path = "/version", .timeout_ms = docker_first_ms(&api->host)};
    int r = request(api, &call, "", &a, err);
    if (r == 0 && a.status >= 400 && a.status != 404) /* every Docker has that path */
        r = docker_refused(&a, "asking for the version", err);
    if (r < 0 || docker_parse_version(buf_text(&a.body), a.body.len, ret, err) == 0)
        return r;
    error_set(err, CAY_UNAVAILABLE, "what answers at %s is not Docker", api->host.shown);
    return error_remedy(err, "set DOCKER_HOST to where Docker or podman listens");
}

/* The newest one is told with every answer. The oldest has to be known only where that is newer
 * than what we speak. */
static int ask_version(struct docker_api *api, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    struct docker_version found = {0};
    char version[DOCKER_API_SIZE];
    struct docker_call ping = {
        .method = "GET", .path = "/_ping", .timeout_ms = docker_first_ms(&api->host)};
    int r = request(api, &ping, "", &a, err);
    if (r == 0)
        r = check_plain(&api->host, &a, err);
    memcpy(found.api, a.api, sizeof found.api);
    if (r == 0 && !docker_api_is_known(found.api))
        r = ask_versions(api, &found, err);
    if (r == 0)
        r = docker_choose_api(&found, version, err);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&api->lock);
    memcpy(api->version, version, sizeof version);
    (void)pthread_mutex_unlock(&api->lock);
    return 0;
}

int docker_api_version(struct docker_api *api, char out[static DOCKER_API_SIZE],
                       struct cay_error *err) {
    (void)pthread_mutex_lock(&api->lock);
    bool known = api->version[0] != '\0';
    (void)pthread_mutex_unlock(&api->lock);
    int r = known ? 0 : ask_version(api, err);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&api->lock);
    memcpy(out, api->version, DOCKER_API_SIZE);
    (void)pthread_mutex_unlock(&api->lock);
    return 0;
}

int docker_ask(struct docker_api *api, const struct docker_call *call, struct docker_answer *ret,
               struct cay_error *err) {
    char version[DOCKER_API_SIZE];
    if (api->unusable.code != CAY_OK) {
        if (err != NULL)
            *err = api->unusable;
        return -(int)api->unusable.code;
    }
    int r = docker_api_version(api, version, err);
    return r < 0 ? r : request(api, call, version, ret, err);
}

int docker_do(struct docker_api *api, const struct docker_call *call, struct docker_answer *ret,
              struct cay_error *err) {
    int r = docker_ask(api, call, ret, err);
    if (r < 0 || ret->status < 400)
        return r;
    char what[64];
    (void)snprintf(what, sizeof what, "%s %.40s", call->method, call->path);
    return docker_refused(ret, what, err);
}
