#include "remote/rest.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

/* The answers that this client reads are those of the API as of this version of the SDKs. */
#define API_VERSION "0.218.0"

enum {
    TRIES = 3,
    PAUSE_MS = 200,
    STALL_SECONDS = 60, /* in which at least a byte must move */
    NO_ANSWER = -1,     /* in err->sys: the remote said nothing */
};

struct exchange {
    const struct rest_request *req;
    struct world *world;
    CURL *curl;
    struct curl_slist *headers;
    curl_mime *form;
    long status;
    struct buf said; /* by a refusal */
    char detail[CURL_ERROR_SIZE];
    struct cay_error *err;
    int refused; /* what the sink or the source returned */
    bool moved;  /* content reached the caller: it cannot be asked for again */
};

/* ---- both ways ---- */

static size_t keep(struct buf *b, const char *data, size_t len) {
    return buf_append(b, data, len) == 0 ? len : CURL_WRITEFUNC_ERROR;
}

static size_t take(char *data, size_t one, size_t len, void *user) {
    (void)one; /* always 1 */
    struct exchange *x = user;
    (void)curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &x->status);
    if (x->status < 200 || x->status > 299)
        return keep(&x->said, data, MIN(len, x->said.max - x->said.len)) == CURL_WRITEFUNC_ERROR
                   ? CURL_WRITEFUNC_ERROR
                   : len;
    if (x->req->sink == NULL)
        return x->req->answer == NULL ? len : keep(x->req->answer, data, len);
    x->moved = true;
    x->refused = x->req->sink(x->req->arg, data, len, x->err);
    return x->refused < 0 ? CURL_WRITEFUNC_ERROR : len;
}

static size_t give(char *data, size_t one, size_t len, void *user) {
    struct exchange *x = user;
    ssize_t n = x->req->source(x->req->arg, data, one * len, x->err);
    x->moved = true;
    x->refused = (int)MIN(n, 0);
    return n < 0 ? CURL_READFUNC_ABORT : (size_t)n;
}

/* ---- the request ---- */

static bool add_header(struct exchange *x, const char *line) {
    struct curl_slist *more = curl_slist_append(x->headers, line);
    x->headers = more != NULL ? more : x->headers;
    return more != NULL;
}

static bool add_headers(struct exchange *x) {
    char key[REMOTE_KEY_MAX + 32];
    (void)snprintf(key, sizeof key, "Authorization: Bearer %s", x->world->order.key);
    return add_header(x, "Accept: application/json, */*") &&
           add_header(x, "X-Daytona-Source: cay") &&
           add_header(x, "X-Daytona-SDK-Version: " API_VERSION) && add_header(x, "Expect:") &&
           (x->world->order.key[0] == '\0' || add_header(x, key)) &&
           (x->req->body == NULL || add_header(x, "Content-Type: application/json"));
}

static bool add_form(struct exchange *x) {
    x->form = curl_mime_init(x->curl);
    curl_mimepart *part = x->form != NULL ? curl_mime_addpart(x->form) : NULL;
    return part != NULL && curl_mime_name(part, "file") == CURLE_OK &&
           curl_mime_filename(part, "file") == CURLE_OK &&
           curl_mime_type(part, "application/octet-stream") == CURLE_OK &&
           curl_mime_data_cb(part, -1, give, NULL, NULL, x) == CURLE_OK &&
           curl_easy_setopt(x->curl, CURLOPT_MIMEPOST, x->form) == CURLE_OK;
}

static bool prepare(struct exchange *x) {
    const struct rest_request *req = x->req;
    CURL *c = x->curl;
    if (!add_headers(x) || curl_easy_setopt(c, CURLOPT_URL, req->url) != CURLE_OK ||
        (req->source != NULL && !add_form(x)))
        return false;
    if (req->body != NULL) {
        (void)curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)req->body->len);
        (void)curl_easy_setopt(c, CURLOPT_POSTFIELDS, buf_text(req->body));
    } else if (req->source == NULL && strcmp(req->method, "GET") != 0) {
        (void)curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)0);
        (void)curl_easy_setopt(c, CURLOPT_POSTFIELDS, "");
    }
    (void)curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, req->method);
    (void)curl_easy_setopt(c, CURLOPT_HTTPHEADER, x->headers);
    (void)curl_easy_setopt(c, CURLOPT_ERRORBUFFER, x->detail);
    (void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take);
    (void)curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
    (void)curl_easy_setopt(c, CURLOPT_TIMEOUT, req->seconds);
    if (req->seconds == 0) {
        (void)curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
        (void)curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALL_SECONDS);
    }
    return true;
}

/* ---- what went wrong ---- */

int rest_explain(const struct world *w, CURLcode code, const char *detail, struct cay_error *err) {
    const char *why = detail[0] != '\0' ? detail : curl_easy_strerror(code);
    bool late = code == CURLE_OPERATION_TIMEDOUT;
    error_set(err, late ? CAY_TIMEOUT : CAY_UNAVAILABLE, "cannot reach %s: %.250s", w->host, why);
    if (err != NULL)
        err->sys = NO_ANSWER;
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
        return error_remedy(err, "if it is the right one, name the certificate of its CA as "
                                 "[remote] ca_file or in CAY_REMOTE_CA_FILE");
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_HTTP2:
        return error_remedy(err, "see whether it is http:// or https:// that it speaks there");
    default:
        return error_remedy(err, "correct --host, or try again later");
    }
}

bool rest_is_transport(const struct cay_error *err) {
    return err->sys == NO_ANSWER;
}

static enum cay_code class_of(long status) {
    switch (status) {
    case 400:
    case 422:
        return CAY_INVALID_ARGUMENT;
    case 401:
        return CAY_UNAUTHORIZED;
    case 403:
        return CAY_FORBIDDEN;
    case 404:
    case 410:
        return CAY_NOT_FOUND;
    case 408:
    case 504:
        return CAY_TIMEOUT;
    case 409:
        return CAY_CONFLICT;
    case 402:
    case 429:
        return CAY_LIMIT_REACHED;
    case 405:
    case 501:
        return CAY_UNSUPPORTED;
    case 507:
        return CAY_RESOURCE_EXHAUSTED;
    default:
        return CAY_UNAVAILABLE;
    }
}

/* "message" of the JSON: a text, or an array of them. */
static void quote(const struct buf *said, char message[static 400], char remedy[static 200]) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    const char *text = NULL, *more = NULL;
    struct json list = {0}, first = {0};
    if (json_parse("answer", buf_text(said), said->len, &doc, NULL) < 0)
        return;
    struct json root = json_root(doc, "");
    if (json_kind(&root) != JSON_KIND_OBJECT)
        return;
    if (json_get_string(&root, "message", JSON_OPTIONAL, &text, NULL) < 0 &&
        json_get_array(&root, "message", JSON_OPTIONAL, &list, NULL) == 0 &&
        json_item(&list, 0, &first))
        (void)json_as_string(&first, &text, NULL);
    (void)json_get_string(&root, "remedy", JSON_OPTIONAL, &more, NULL);
    (void)snprintf(message, 400, "%s", text != NULL ? text : "");
    (void)snprintf(remedy, 200, "%s", more != NULL ? more : "");
}

int rest_refusal(const struct world *w, long status, const struct buf *said,
                 struct cay_error *err) {
    char message[400] = "", remedy[200] = "";
    enum cay_code code = class_of(status);
    if (status >= 300 && status < 400) {
        error_set(err, CAY_UNAVAILABLE, "%s sends us elsewhere (HTTP status %ld)", w->host, status);
        return error_remedy(err, "the key is not sent after it: name the right address");
    }
    quote(said, message, remedy);
    if (message[0] != '\0')
        error_set(err, code, "%s", message);
    else
        error_set(err, code, "%s refused it (HTTP status %ld)", w->host, status);
    if (remedy[0] == '\0' && code == CAY_UNAUTHORIZED)
        (void)snprintf(remedy, sizeof remedy,
                       "give its key: --key-file FILE, CAY_API_KEY or DAYTONA_API_KEY");
    if (strstr(message, remedy) == NULL)
        (void)error_remedy(err, "%s", remedy);
    if (err != NULL)
        error_sanitize(err);
    return -(int)code;
}

/* ---- the exchange ---- */

static void release(struct exchange *x) {
    curl_slist_free_all(x->headers);
    curl_mime_free(x->form);
    if (x->curl != NULL)
        world_give(x->world, x->curl);
    buf_free(&x->said);
}

static int exchange(struct exchange *x) {
    x->curl = world_take(x->world);
    if (x->curl == NULL || !prepare(x))
        return error_sys(x->err, ENOMEM, "asking %s", x->world->host);
    CURLcode code = curl_easy_perform(x->curl);
    (void)curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &x->status);
    if (x->refused < 0)
        return x->refused;
    if (code == CURLE_WRITE_ERROR)
        return error_set(x->err, CAY_UNAVAILABLE, "the answer of %s is too long", x->world->host);
    if (code != CURLE_OK)
        return rest_explain(x->world, code, x->detail, x->err);
    if (x->req->answer != NULL && x->said.len > 0)
        (void)buf_append(x->req->answer, x->said.data, x->said.len);
    return x->status >= 200 && x->status < 300
               ? 0
               : rest_refusal(x->world, x->status, &x->said, x->err);
}

/* Only a question changes nothing however often it is asked. */
static bool may_repeat(const struct exchange *x, int r) {
    bool passing = x->status == 0 || x->status == 429 || (x->status >= 502 && x->status <= 504);
    return r < 0 && passing && !x->moved && strcmp(x->req->method, "GET") == 0 &&
           x->err->code != CAY_TIMEOUT && strstr(x->err->remedy, "ca_file") == NULL;
}

int rest_call(struct world *w, const struct rest_request *req, struct cay_error *err) {
    struct cay_error own;
    for (int i = 1;; i++) {
        struct exchange x = {
            .req = req, .world = w, .said = BUF_INIT(64 * 1024), .err = err != NULL ? err : &own};
        if (req->answer != NULL)
            buf_clear(req->answer);
        x.err->sys = 0;
        int r = exchange(&x);
        bool again = i < TRIES && may_repeat(&x, r);
        release(&x);
        if (!again)
            return r;
        (void)poll(NULL, 0, PAUSE_MS * i);
    }
}

int rest_call_json(struct world *w, const struct rest_request *req, struct json_document **ret,
                   struct cay_error *err) {
    _cleanup_(buf_free) struct buf body = BUF_INIT(REST_ANSWER_MAX);
    struct rest_request asked = *req;
    asked.answer = &body;
    int r = rest_call(w, &asked, err);
    if (r == 0 && json_parse("the answer", buf_text(&body), body.len, ret, err) < 0)
        return error_set(err, CAY_UNAVAILABLE, "%s answered against the protocol", w->host);
    return r;
}
