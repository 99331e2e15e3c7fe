#include "imager/registry/auth.h"

#include <curl/curl.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/json/json.h"
#include "base/str.h"
#include "imager/layer/base64.h"
#include "imager/registry/error.h"
#include "imager/registry/secret.h"

enum { TOKEN_ANSWER_MAX = 64 * 1024, QUERY_MAX = 128 * 1024 };

/* A buffer that never moves, so that no copy of a secret stays behind. */
static int reserve(struct buf *b) {
    return buf_reserve(b, b->max) == NULL ? -ENOMEM : 0;
}

static char *basic(const struct credential *c) {
    _cleanup_(secret_freep) char *pair = NULL, *encoded = NULL;
    char *value = NULL;
    if (asprintf(&pair, "%s:%s", c->user, c->secret) < 0)
        pair = NULL;
    if (pair != NULL)
        encoded = base64_encode(pair, strlen(pair));
    if (encoded == NULL || asprintf(&value, "Basic %s", encoded) < 0)
        return NULL;
    return value;
}

/* ---- the question to a token server ---- */

static void put_pair(struct buf *b, char separator, const char *key, const char *value) {
    char *escaped = curl_easy_escape(NULL, value, 0);
    if (escaped == NULL) {
        b->failed = true;
        return;
    }
    (void)buf_printf(b, "%c%s=%s", separator, key, escaped);
    explicit_bzero(escaped, strlen(escaped));
    curl_free(escaped);
}

static void put_subject(struct buf *b, const struct challenge *c, const char *scope) {
    if (c->service[0] != '\0')
        put_pair(b, '&', "service", c->service);
    if (c->scope[0] != '\0')
        scope = c->scope;
    if (scope[0] != '\0')
        put_pair(b, '&', "scope", scope);
}

/* By GET, with the Basic scheme if we have a name. */
static void put_url(struct buf *b, const struct challenge *c, const struct auth_subject *s) {
    (void)buf_puts(b, c->realm);
    put_pair(b, strchr(c->realm, '?') != NULL ? '&' : '?', "client_id", "cay");
    put_subject(b, c, s->scope);
}

/* By POST, as OAuth2 refreshes a token. */
static void put_form(struct buf *b, const struct challenge *c, const struct auth_subject *s) {
    (void)buf_puts(b, "grant_type=refresh_token&client_id=cay");
    put_subject(b, c, s->scope);
    put_pair(b, '&', "refresh_token", s->credential->identity_token);
}

static int keep_answer(void *user, const struct http_response *response, const void *data,
                       size_t len, struct cay_error *err) {
    (void)response;
    if (buf_append(user, data, len) == 0)
        return 0;
    return error_set(err, CAY_UNAVAILABLE, "the token server's answer is longer than %d bytes",
                     TOKEN_ANSWER_MAX);
}

/* ---- its answer ---- */

/* It becomes part of a header. */
static bool is_token(const char *text) {
    for (const char *c = text; *c != '\0'; c++)
        if (*c <= ' ' || *c >= 0x7f)
            return false;
    return text[0] != '\0';
}

static int read_token(const struct buf *body, char **ret, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    const char *token = NULL;
    /* the parser's own words could show a part of it */
    if (json_parse("token", buf_text(body), body->len, &doc, NULL) == 0) {
        struct json root = json_root(doc, "");
        (void)json_get_string(&root, "token", JSON_OPTIONAL, &token, NULL);
        if (token == NULL || token[0] == '\0')
            (void)json_get_string(&root, "access_token", JSON_OPTIONAL, &token, NULL);
    }
    if (token == NULL || !is_token(token))
        return error_set(err, CAY_UNAVAILABLE, "the token server's answer holds no token");
    if (asprintf(ret, "Bearer %s", token) < 0) {
        *ret = NULL;
        return error_sys(err, ENOMEM, "keeping a token");
    }
    return 1;
}

static bool is_passing(long status) {
    return status >= 500 || status == 429;
}

/* Sends the question; the body of a good answer is in *body. */
static int ask(struct http *http, struct http_request *request, const struct auth_subject *s,
               enum http_trouble *trouble, struct cay_error *err) {
    _cleanup_(http_response_free) struct http_response response = HTTP_RESPONSE_INIT;
    bool known = s->credential->user != NULL || s->credential->identity_token != NULL;
    int r = http_exchange(http, request, &response, err);
    *trouble = response.trouble;
    if (r < 0)
        return r;
    if (response.status == 200)
        return 0;
    *trouble = is_passing(response.status) ? HTTP_BROKEN : HTTP_HOPELESS;
    return registry_refusal(&response, s->registry, known, err);
}

static int fetch_token(struct http *http, const struct challenge *challenge,
                       const struct auth_subject *subject, char **ret, enum http_trouble *trouble,
                       struct cay_error *err) {
    _cleanup_(secret_buf_free) struct buf url = BUF_INIT(QUERY_MAX), form = BUF_INIT(QUERY_MAX);
    _cleanup_(secret_buf_free) struct buf body = BUF_INIT(TOKEN_ANSWER_MAX);
    _cleanup_(secret_freep) char *authorization = NULL;
    const struct credential *c = subject->credential;
    bool refresh = c->identity_token != NULL;
    if (reserve(&form) < 0 || reserve(&body) < 0)
        return error_sys(err, ENOMEM, "asking for a token");
    if (refresh) {
        (void)buf_puts(&url, challenge->realm);
        put_form(&form, challenge, subject);
    } else {
        put_url(&url, challenge, subject);
        authorization = c->user != NULL ? basic(c) : NULL;
    }
    if (url.failed || form.failed || (!refresh && c->user != NULL && authorization == NULL))
        return error_sys(err, ENOMEM, "asking for a token");
    struct http_request request = {.url = url.data,
                                   .authorization = authorization,
                                   .form = refresh ? form.data : NULL,
                                   .is_small = true,
                                   .body = keep_answer,
                                   .user = &body};
    int r = ask(http, &request, subject, trouble, err);
    return r < 0 ? r : read_token(&body, ret, err);
}

int auth_answer(struct http *http, const struct challenge *challenge,
                const struct auth_subject *subject, char **ret, enum http_trouble *trouble,
                struct cay_error *err) {
    *trouble = HTTP_HOPELESS;
    if (challenge->kind == CHALLENGE_BASIC && subject->credential->user != NULL) {
        *ret = basic(subject->credential);
        return *ret != NULL ? 1 : error_sys(err, ENOMEM, "preparing credentials");
    }
    if (challenge->kind != CHALLENGE_BEARER)
        return 0;
    int r = http_check_url(http, challenge->realm, err);
    if (r < 0)
        return r;
    r = fetch_token(http, challenge, subject, ret, trouble, err);
    char host[HTTP_HOST_SIZE];
    return r < 0 ? error_prefix(err, "token server %s", http_host_of(challenge->realm, host)) : r;
}
