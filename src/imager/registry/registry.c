#include "imager/registry/registry.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "base/id.h"
#include "base/str.h"
#include "imager/layer/digest.h"
#include "imager/registry/auth.h"
#include "imager/registry/error.h"
#include "imager/registry/http.h"
#include "imager/registry/secret.h"
#include "imager/registry/trust.h"

enum {
    STALL_MS = 30 * 1000,
    ATTEMPTS = 5,
    ATTEMPTS_UNREACHED = 2, /* of a host that never answered: the user waits for the error */
    PAUSE_MS = 500,         /* before the second attempt; doubled for each one after it */
    PAUSE_MAX_MS = 30 * 1000,
    PROBE_MS = 5 * 1000,    /* for TLS, where plain HTTP is the other possibility */
    PROGRESS_MIN = 1 << 20, /* bytes that make a broken download worth as many attempts again */
    TRUST_MAX = 8 << 20,
    URL_SIZE = 1024,
};

enum scheme { SCHEME_UNKNOWN, SCHEME_HTTPS, SCHEME_HTTP };

/* What clones have in common. */
struct shared {
    pthread_mutex_t lock; /* of all below the line, and of `users` */
    unsigned users;
    struct reference ref;
    struct credential credential;
    struct registry_options options; /* of the pointers only `listed` */
    struct buf trust;
    const char *api_host;
    bool plain_allowed;
    /* ---- */
    enum scheme scheme;
    bool reached; /* it has answered before */
    char *authorization;
    unsigned generation; /* of the authorization */
};

struct registry {
    struct shared *shared;
    struct http *http;
};

/* ---- opening ---- */

static void release(struct shared *s) {
    (void)pthread_mutex_lock(&s->lock);
    bool last = --s->users == 0;
    (void)pthread_mutex_unlock(&s->lock);
    if (!last)
        return;
    (void)pthread_mutex_destroy(&s->lock);
    credential_clear(&s->credential);
    secret_free(s->authorization);
    buf_free(&s->trust);
    free(s);
}

static int copy_text(const char *from, char **ret) {
    *ret = from != NULL ? strdup(from) : NULL;
    return from != NULL && *ret == NULL ? -ENOMEM : 0;
}

static int copy_credential(const struct credential *from, struct credential *to) {
    if (from == NULL)
        return 0;
    int r = copy_text(from->identity_token, &to->identity_token);
    if (r == 0 && from->user != NULL && from->secret != NULL) {
        r = copy_text(from->user, &to->user);
        if (r == 0)
            r = copy_text(from->secret, &to->secret);
    }
    return r;
}

static void set_options(struct shared *s, const struct registry_options *options) {
    bool loopback = host_is_loopback(s->ref.registry);
    s->options.insecure = options->insecure;
    s->options.is_judged = options->is_judged;
    s->options.listed = options->listed;
    s->options.stall_ms = options->stall_ms > 0 ? options->stall_ms : STALL_MS;
    s->options.attempts = options->attempts > 0 ? options->attempts : ATTEMPTS;
    s->plain_allowed = loopback || options->insecure;
    s->scheme = s->plain_allowed ? SCHEME_UNKNOWN : SCHEME_HTTPS;
    s->api_host =
        str_equal(s->ref.registry, "docker.io") ? "registry-1.docker.io" : s->ref.registry;
}

/* Another handle on what is shared, which it holds. */
static int attach(struct shared *s, struct registry **ret, struct cay_error *err) {
    struct http_options options = {.ca_pem = s->trust.len > 0 ? s->trust.data : NULL,
                                   .ca_len = s->trust.len,
                                   .insecure = s->options.insecure,
                                   .is_judged = s->options.is_judged,
                                   .listed = s->options.listed,
                                   .on_loopback = host_is_loopback(s->ref.registry),
                                   .stall_ms = s->options.stall_ms};
    struct registry *r = calloc(1, sizeof *r);
    if (r == NULL)
        return error_sys(err, ENOMEM, "opening a registry");
    int e = http_new(&options, &r->http, err);
    if (e < 0) {
        free(r);
        return e;
    }
    (void)pthread_mutex_lock(&s->lock);
    s->users++;
    (void)pthread_mutex_unlock(&s->lock);
    r->shared = s;
    *ret = r;
    return 0;
}

int registry_open(const struct reference *ref, const struct credential *credential,
                  const struct registry_options *options, struct registry **ret,
                  struct cay_error *err) {
    static const struct registry_options defaults = {0};
    if (options == NULL)
        options = &defaults;
    struct shared *s = calloc(1, sizeof *s);
    if (s == NULL)
        return error_sys(err, ENOMEM, "opening a registry");
    *s = (struct shared){.users = 1, .ref = *ref, .trust = BUF_INIT(TRUST_MAX)};
    (void)pthread_mutex_init(&s->lock, NULL);
    set_options(s, options);
    int r = registry_trust(ref->registry, options->ca_file, options->ca_pem, &s->trust, err);
    if (r == 0 && copy_credential(credential, &s->credential) < 0)
        r = error_sys(err, ENOMEM, "opening a registry");
    if (r == 0)
        r = attach(s, ret, err);
    release(s);
    return r;
}

int registry_clone(struct registry *from, struct registry **ret, struct cay_error *err) {
    return attach(from->shared, ret, err);
}

void registry_close(struct registry *r) {
    if (r == NULL)
        return;
    http_free(r->http);
    release(r->shared);
    free(r);
}

void registry_closep(struct registry **r) {
    registry_close(*r);
}

/* ---- one request ---- */

/* The part of a request that stays the same over schemes and attempts. */
struct call {
    const char *path;  /* below /v2/ */
    const char *scope; /* for a token, if the registry names none */
    struct http_request request;
};

static enum scheme scheme_now(struct shared *s) {
    (void)pthread_mutex_lock(&s->lock);
    enum scheme scheme = s->scheme;
    (void)pthread_mutex_unlock(&s->lock);
    return scheme;
}

static void set_reached(struct shared *s, enum scheme scheme) {
    (void)pthread_mutex_lock(&s->lock);
    s->scheme = scheme;
    s->reached = true;
    (void)pthread_mutex_unlock(&s->lock);
}

static bool was_reached(struct shared *s) {
    (void)pthread_mutex_lock(&s->lock);
    bool reached = s->reached;
    (void)pthread_mutex_unlock(&s->lock);
    return reached;
}

static int exchange_by(struct registry *r, enum scheme scheme, const struct call *call,
                       struct http_response *response, struct cay_error *err) {
    char url[URL_SIZE];
    struct http_request request = call->request;
    if (str_format(url, sizeof url, "%s://%s/v2/%s", scheme == SCHEME_HTTP ? "http" : "https",
                   r->shared->api_host, call->path) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the name is too long");
    request.url = url;
    int e = http_exchange(r->http, &request, response, err);
    if (response->status != 0)
        set_reached(r->shared, scheme);
    return e;
}

/* HTTPS first; where plain HTTP is allowed and nobody speaks TLS, that. */
static int exchange(struct registry *r, struct call *call, struct http_response *response,
                    struct cay_error *err) {
    enum scheme scheme = scheme_now(r->shared);
    if (scheme != SCHEME_UNKNOWN)
        return exchange_by(r, scheme, call, response, err);
    call->request.connect_ms = MIN(r->shared->options.stall_ms, PROBE_MS);
    int e = exchange_by(r, SCHEME_HTTPS, call, response, err);
    call->request.connect_ms = 0;
    bool hopeless = response->trouble == HTTP_HOPELESS || response->trouble == HTTP_REFUSED;
    if (e == 0 || response->status != 0 || hopeless)
        return e;
    return exchange_by(r, SCHEME_HTTP, call, response, err);
}

/* ---- who we are ---- */

/* The header's value, or NULL, and which generation it is. */
static int get_authorization(struct shared *s, char **ret, unsigned *generation) {
    (void)pthread_mutex_lock(&s->lock);
    int r = copy_text(s->authorization, ret);
    *generation = s->generation;
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}

/* Called with the lock held, so that of several threads one asks the token server. */
static int renew_locked(struct registry *r, const struct call *call, struct http_response *response,
                        struct cay_error *err) {
    struct shared *s = r->shared;
    const struct auth_subject subject = {
        .registry = s->ref.registry, .scope = call->scope, .credential = &s->credential};
    bool was_basic = s->authorization != NULL && str_starts(s->authorization, "Basic ");
    if (response->challenge.kind == CHALLENGE_BASIC && was_basic)
        return 0; /* the same again would be refused again */
    char *value = NULL;
    enum http_trouble trouble;
    int e = auth_answer(r->http, &response->challenge, &subject, &value, &trouble, err);
    if (e < 0)
        response->trouble = trouble;
    if (e <= 0)
        return e;
    secret_free(s->authorization);
    s->authorization = value;
    s->generation++;
    return 1;
}

/* Answers a 401: 1 if the request is worth sending again, 0 if not. */
static int renew(struct registry *r, const struct call *call, unsigned generation, bool *renewed,
                 struct http_response *response, struct cay_error *err) {
    struct shared *s = r->shared;
    (void)pthread_mutex_lock(&s->lock);
    int e = 1; /* another thread was quicker */
    if (s->generation == generation) {
        e = *renewed ? 0 : renew_locked(r, call, response, err);
        *renewed = true;
    }
    (void)pthread_mutex_unlock(&s->lock);
    return e;
}

/* One request, with a new token if the old one is not accepted any more. */
static int send_call(struct registry *r, struct call *call, struct http_response *response,
                     struct cay_error *err) {
    enum { ROUNDS_MAX = 4 };
    bool renewed = false;
    for (unsigned round = 1;; round++) {
        _cleanup_(secret_freep) char *authorization = NULL;
        unsigned generation;
        if (get_authorization(r->shared, &authorization, &generation) < 0)
            return error_sys(err, ENOMEM, "asking a registry");
        call->request.authorization = authorization;
        int e = exchange(r, call, response, err);
        call->request.authorization = NULL;
        if (e < 0 || response->status != 401 || round == ROUNDS_MAX)
            return e;
        e = renew(r, call, generation, &renewed, response, err);
        if (e <= 0)
            return e;
    }
}

/* ---- trying again ---- */

static bool may_pass(const struct http_response *response, int result) {
    if (result < 0)
        return response->trouble == HTTP_NO_CONNECTION || response->trouble == HTTP_NO_TLS ||
               response->trouble == HTTP_BROKEN;
    return response->status >= 500 || response->status == 429 || response->status == 408;
}

static void sleep_ms(int64_t ms) {
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        continue;
}

/* Growing pauses, of random length so that many clients do not come back all at once. */
static void pause_before(unsigned attempt, int64_t asked_ms) {
    uint16_t random = 0;
    (void)id_random(&random, sizeof random);
    int64_t ms = MIN((int64_t)PAUSE_MS << MIN(attempt - 1, 16U), PAUSE_MAX_MS);
    ms += ms / 2 * random / UINT16_MAX;
    sleep_ms(MAX(ms, asked_ms));
}

/* Pauses and returns true if the call should be sent again. */
static bool try_again(struct registry *r, unsigned *attempt, const struct http_response *response,
                      int result) {
    struct shared *s = r->shared;
    unsigned limit = s->options.attempts;
    bool unreached = result < 0 && response->trouble != HTTP_BROKEN && !was_reached(s);
    if (unreached)
        limit = MIN(limit, ATTEMPTS_UNREACHED);
    if (!may_pass(response, result) || *attempt >= limit)
        return false;
    pause_before(*attempt, result < 0 ? 0 : response->retry_ms);
    ++*attempt;
    return true;
}

/* ---- errors ---- */

static bool is_known(const struct shared *s) {
    return s->credential.user != NULL || s->credential.identity_token != NULL;
}

/* Says what was wanted from whom. */
static int name_image(const struct shared *s, struct cay_error *err) {
    char image[REFERENCE_TEXT_SIZE];
    return error_prefix(err, "image '%s' from registry %s", reference_familiar(&s->ref, image),
                        s->ref.registry);
}

/* The end of a call that brought no usable answer. */
static int refuse(struct registry *r, const struct http_response *response, int result,
                  struct cay_error *err) {
    if (result >= 0)
        (void)registry_refusal(response, r->shared->ref.registry, is_known(r->shared), err);
    return name_image(r->shared, err);
}

/* ---- manifests ---- */

static const char manifest_types[] = "application/vnd.oci.image.index.v1+json, "
                                     "application/vnd.docker.distribution.manifest.list.v2+json, "
                                     "application/vnd.oci.image.manifest.v1+json, "
                                     "application/vnd.docker.distribution.manifest.v2+json";

static int keep_document(void *user, const struct http_response *response, const void *data,
                         size_t len, struct cay_error *err) {
    struct buf *body = user;
    bool announced = response->length > MANIFEST_SIZE_MAX;
    if (!announced && buf_append(body, data, len) == 0)
        return 0;
    (void)error_set(err, CAY_UNAVAILABLE, "the manifest is longer than %d bytes",
                    MANIFEST_SIZE_MAX);
    return error_remedy(err, "check that the name is an image's");
}

static int check_digest(const struct http_response *response, const char *asked,
                        struct registry_document *document, struct cay_error *err) {
    char expected[HEX_SIZE];
    digest_of(buf_text(&document->body), document->body.len, document->hex);
    const char *told = digest_parse(asked, expected) ? asked : response->content_digest;
    if (!digest_parse(told, expected) || str_equal(expected, document->hex))
        return 0;
    (void)error_set(err, CAY_UNAVAILABLE,
                    "the manifest has not the digest that it should have: sha256:%s, not %s",
                    document->hex, told);
    return error_remedy(err, "the registry is damaged, or lies: ask who runs it");
}

static int fetch_manifest(struct registry *r, struct call *call, const char *asked,
                          struct registry_document *ret, struct cay_error *err) {
    _cleanup_(http_response_free) struct http_response response = HTTP_RESPONSE_INIT;
    unsigned attempt = 1;
    int e;
    do {
        buf_clear(&ret->body);
        e = send_call(r, call, &response, err);
    } while (try_again(r, &attempt, &response, e));
    if (e < 0 || response.status != 200)
        return refuse(r, &response, e, err);
    memcpy(ret->media_type, response.content_type, sizeof ret->media_type);
    e = check_digest(&response, asked, ret, err);
    return e < 0 ? name_image(r->shared, err) : 0;
}

/* It becomes part of a URL. */
static bool is_tag_or_digest(const char *text) {
    char hex[HEX_SIZE];
    static const char chars[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-";
    size_t len = strlen(text);
    return digest_parse(text, hex) ||
           (len > 0 && len < REFERENCE_TAG_SIZE && strspn(text, chars) == len && text[0] != '.');
}

int registry_get_manifest(struct registry *r, const char *tag_or_digest,
                          struct registry_document *ret, struct cay_error *err) {
    const struct reference *ref = &r->shared->ref;
    char path[URL_SIZE], scope[REFERENCE_TEXT_SIZE];
    if (!is_tag_or_digest(tag_or_digest))
        return error_set(err, CAY_INVALID_ARGUMENT, "not a tag or a digest");
    (void)snprintf(path, sizeof path, "%s/manifests/%s", ref->repository, tag_or_digest);
    (void)snprintf(scope, sizeof scope, "repository:%s:pull", ref->repository);
    *ret = (struct registry_document){.body = BUF_INIT(MANIFEST_SIZE_MAX)};
    struct call call = {
        .path = path,
        .scope = scope,
        .request = {
            .accept = manifest_types, .is_small = true, .body = keep_document, .user = &ret->body}};
    int e = fetch_manifest(r, &call, tag_or_digest, ret, err);
    if (e < 0)
        buf_free(&ret->body);
    return e;
}

/* ---- blobs ---- */

struct download {
    const struct blob_sink *sink;
    uint64_t size;
    uint64_t position; /* of the next byte for the sink */
    uint64_t furthest; /* that it ever was, as of the last attempt */
    bool is_checked;   /* this answer's headers */
    bool sink_refused;
};

static int restart(struct download *d, struct cay_error *err) {
    d->position = 0;
    int r = d->sink->restart(d->sink->user, err);
    d->sink_refused = r < 0;
    return r;
}

static int refuse_size(const struct download *d, struct cay_error *err) {
    (void)error_set(err, CAY_UNAVAILABLE,
                    "the registry sends another number of bytes than the manifest says (%llu)",
                    (unsigned long long)d->size);
    return error_remedy(err, "the registry is damaged, or lies: ask who runs it");
}

static int check_range(const struct download *d, const struct http_response *response,
                       struct cay_error *err) {
    struct content_range range;
    if (content_range_parse(response->content_range, &range) < 0 || range.first != d->position ||
        range.last >= d->size)
        return error_set(err, CAY_UNAVAILABLE,
                         "the registry sends another part of the blob than it was asked for");
    if (range.total != UINT64_MAX && range.total != d->size)
        return refuse_size(d, err);
    return 0;
}

/* Before the first byte of an answer goes on. */
static int check_answer(struct download *d, const struct http_response *response,
                        struct cay_error *err) {
    d->is_checked = true;
    if (response->status == 206)
        return check_range(d, response, err);
    if (response->status != 200)
        return error_set(err, CAY_UNAVAILABLE, "unexpected HTTP status %ld", response->status);
    if (response->length >= 0 && (uint64_t)response->length != d->size)
        return refuse_size(d, err);
    return d->position > 0 ? restart(d, err) : 0;
}

static int keep_blob(void *user, const struct http_response *response, const void *data, size_t len,
                     struct cay_error *err) {
    struct download *d = user;
    int r = d->is_checked ? 0 : check_answer(d, response, err);
    if (r < 0)
        return r;
    if (len > d->size - d->position) {
        (void)error_set(err, CAY_UNAVAILABLE, "the registry sent more than it said (%llu bytes)",
                        (unsigned long long)d->size);
        return error_remedy(err, "the registry is damaged, or lies: ask who runs it");
    }
    r = d->sink->write(d->sink->user, data, len, err);
    d->sink_refused = r < 0;
    d->position += r < 0 ? 0 : len;
    return r;
}

/* One attempt from where the last one ended. */
static int download_once(struct registry *r, struct call *call, struct download *d,
                         struct http_response *response, struct cay_error *err) {
    call->request.offset = d->position;
    d->is_checked = false;
    int e = send_call(r, call, response, err);
    bool good = e == 0 && (response->status == 200 || response->status == 206);
    if (e == 0 && response->status == 416 && d->position > 0) {
        e = restart(d, err); /* there are fewer bytes than we have: they were wrong ones */
        response->trouble = e < 0 ? HTTP_REFUSED : HTTP_BROKEN;
        return e < 0 ? e : error_set(err, CAY_UNAVAILABLE, "the registry cannot resume the blob");
    }
    if (!good || d->position == d->size)
        return e;
    response->trouble = HTTP_BROKEN;
    return error_set(err, CAY_UNAVAILABLE, "the registry sent %llu bytes of %llu only",
                     (unsigned long long)d->position, (unsigned long long)d->size);
}

/* What moves on has as many attempts again; but only as often as there are bytes for it. */
static void count_progress(struct download *d, unsigned *attempt) {
    if (d->position < d->furthest + PROGRESS_MIN)
        return;
    d->furthest = d->position;
    *attempt = 1;
}

static int download(struct registry *r, struct call *call, struct download *d,
                    struct cay_error *err) {
    _cleanup_(http_response_free) struct http_response response = HTTP_RESPONSE_INIT;
    unsigned attempt = 1;
    int e;
    do {
        e = download_once(r, call, d, &response, err);
        count_progress(d, &attempt);
    } while (try_again(r, &attempt, &response, e));
    if (e == 0 && (response.status == 200 || response.status == 206))
        return 0;
    return d->sink_refused ? e : refuse(r, &response, e, err);
}

int registry_get_blob(struct registry *r, const struct descriptor *blob, uint64_t offset,
                      const struct blob_sink *sink, struct cay_error *err) {
    const struct reference *ref = &r->shared->ref;
    char path[URL_SIZE], scope[REFERENCE_TEXT_SIZE];
    struct download d = {.sink = sink, .size = blob->size, .position = offset, .furthest = offset};
    if (!hex_is_valid(blob->hex))
        return error_set(err, CAY_INVALID_ARGUMENT, "not a digest");
    int e = offset > blob->size ? restart(&d, err) : 0;
    if (e < 0 || d.position == d.size)
        return e;
    (void)snprintf(path, sizeof path, "%s/blobs/sha256:%s", ref->repository, blob->hex);
    (void)snprintf(scope, sizeof scope, "repository:%s:pull", ref->repository);
    struct call call = {.path = path, .scope = scope, .request = {.body = keep_blob, .user = &d}};
    return download(r, &call, &d, err);
}

/* ---- logging in ---- */

int registry_check_login(struct registry *r, struct cay_error *err) {
    _cleanup_(http_response_free) struct http_response response = HTTP_RESPONSE_INIT;
    struct call call = {.path = "", .scope = "", .request = {.is_small = true}};
    const char *registry = r->shared->ref.registry;
    unsigned attempt = 1;
    int e;
    do
        e = send_call(r, &call, &response, err);
    while (try_again(r, &attempt, &response, e));
    if (e == 0 && response.status == 200)
        return 0;
    if (e == 0 && response.status == 401) {
        char said[REGISTRY_SAID_SIZE];
        (void)registry_said(&response, said);
        (void)error_set(err, CAY_UNAUTHORIZED, "the name or the password is wrong (HTTP 401%s%s)",
                        said[0] != '\0' ? ", " : "", said);
        (void)error_remedy(err, "check both, or use an access token as the password");
    } else if (e == 0) {
        (void)registry_refusal(&response, registry, true, err);
    }
    return error_prefix(err, "registry %s", registry);
}
