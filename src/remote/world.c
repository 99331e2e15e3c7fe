#include "remote/world.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json/json.h"
#include "base/str.h"
#include "remote/rest.h"

enum { CONNECT_SECONDS = 15, PROBE_SECONDS = 30 };

/* ---- trust ---- */

static int append_file(const char *path, struct buf *pem) {
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int r = fd < 0 ? -errno : fd_read_to_end(fd, pem);
    return r < 0 ? r : buf_putc(pem, '\n');
}

static int read_trust(struct world *w, struct cay_error *err) {
    const char *bundle = curl_version_info(CURLVERSION_NOW)->cainfo;
    if (w->order.ca_file[0] == '\0')
        return 0;
    int r = append_file(w->order.ca_file, &w->pem);
    if (r < 0 || strstr(buf_text(&w->pem), "-----BEGIN") == NULL) {
        (void)error_sys(err, r < 0 ? -r : EINVAL, "reading the certificates in '%.200s'",
                        w->order.ca_file);
        return error_remedy(err, "name a readable file with certificates in PEM form as [remote] "
                                 "ca_file");
    }
    if (bundle != NULL)
        (void)append_file(bundle, &w->pem); /* a host without one trusts the file alone */
    return 0;
}

int world_init(struct world *w, const struct remote_order *order, struct cay_error *err) {
    *w = (struct world){.order = *order, .pem = BUF_INIT(WORLD_PEM_MAX)};
    (void)pthread_mutex_init(&w->lock, NULL);
    w->plain = str_starts(order->url, "http://");
    const char *host = order->url + (w->plain ? 7 : 8);
    (void)snprintf(w->host, sizeof w->host, "%.*s", (int)MIN(strcspn(host, "/"), 256u), host);
    return read_trust(w, err);
}

/* ---- handles ---- */

void world_prepare(const struct world *w, CURL *curl) {
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    (void)curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    (void)curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    if (w->pem.len == 0)
        return;
    struct curl_blob blob = {.data = w->pem.data, .len = w->pem.len, .flags = CURL_BLOB_NOCOPY};
    (void)curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &blob);
}

CURL *world_take(struct world *w) {
    CURL *curl = NULL;
    (void)pthread_mutex_lock(&w->lock);
    if (w->idle_count > 0)
        curl = w->idle[--w->idle_count];
    (void)pthread_mutex_unlock(&w->lock);
    if (curl == NULL)
        curl = curl_easy_init();
    if (curl != NULL)
        world_prepare(w, curl);
    return curl;
}

void world_give(struct world *w, CURL *curl) {
    curl_easy_reset(curl);
    (void)pthread_mutex_lock(&w->lock);
    if (w->idle_count < WORLD_HANDLES_MAX) {
        w->idle[w->idle_count++] = curl;
        curl = NULL;
    }
    (void)pthread_mutex_unlock(&w->lock);
    curl_easy_cleanup(curl); /* NULL is fine */
}

void world_put_api(const struct world *w, struct buf *url, const char *path) {
    (void)buf_printf(url, "%s/api%s", w->order.url, path);
}

/* ---- what it is ---- */

static int ask(struct world *w, const char *path, struct buf *body, struct cay_error *err) {
    _cleanup_(buf_free) struct buf url = BUF_INIT(2 * REMOTE_URL_MAX);
    world_put_api(w, &url, path);
    const struct rest_request req = {
        .method = "GET", .url = buf_text(&url), .answer = body, .seconds = PROBE_SECONDS};
    return rest_call(w, &req, err);
}

/* cay says its version there; nobody else has the path. */
static bool is_cay(struct world *w, const struct buf *body) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    const char *version = NULL;
    if (json_parse("status", buf_text(body), body->len, &doc, NULL) < 0)
        return false;
    struct json root = json_root(doc, "");
    if (json_get_string(&root, "version", JSON_REQUIRED, &version, NULL) < 0)
        return false;
    (void)snprintf(w->version, sizeof w->version, "%s", version);
    return true;
}

/* An array in the early protocol, an object with items since. */
static bool is_list(const struct buf *body) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    if (json_parse("list", buf_text(body), body->len, &doc, NULL) < 0)
        return false;
    struct json root = json_root(doc, ""), items = {0};
    return json_kind(&root) == JSON_KIND_ARRAY ||
           json_get_array(&root, "items", JSON_REQUIRED, &items, NULL) == 0;
}

static int nothing_known(const struct world *w, struct cay_error *err) {
    error_set(err, CAY_UNAVAILABLE, "what answers at %s is neither cay nor Daytona", w->host);
    return error_remedy(err, "correct --host: https://HOST for cay, https://HOST/api for Daytona");
}

/* A refusal of the key is told as it is; of anything else somebody who does not know the path. */
int world_probe(struct world *w, struct cay_error *err) {
    _cleanup_(buf_free) struct buf body = BUF_INIT(REST_ANSWER_MAX);
    int r = ask(w, "/cay/status", &body, err);
    if (r == 0 && is_cay(w, &body)) {
        w->kind = REMOTE_CAY;
        return 0;
    }
    if (r == -CAY_FORBIDDEN && strstr(buf_text(&body), "\"remedy\"") != NULL) {
        w->kind = REMOTE_CAY; /* whose key may do other things */
        return 0;
    }
    if (r == -CAY_UNAUTHORIZED || (r < 0 && rest_is_transport(err)))
        return r;
    r = ask(w, "/sandbox?limit=1", &body, err);
    if (r == -CAY_UNAUTHORIZED || (r < 0 && rest_is_transport(err)))
        return r;
    if (r < 0 || !is_list(&body))
        return nothing_known(w, err);
    w->kind = REMOTE_DAYTONA;
    return 0;
}
