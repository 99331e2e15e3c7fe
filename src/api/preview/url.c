/* URLs of previews, their tokens, and who is let in by them. */
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/preview/preview.h"
#include "api/preview/token.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "manager/manager.h"

/* The toolbox of Daytona's sandboxes. */
enum { PORT_TOOLBOX = 2280 };

/* ---- who is let in ---- */

/* These are for who has a key or a token, also where everything else is public: commands, and
 * Daytona's terminal and recordings. */
static bool is_private_port(uint16_t port) {
    return port == PORT_TOOLBOX || port == 22222 || port == 33333;
}

int preview_rewrite(struct call *c, struct cay_error *err) {
    const struct preview_place *p = &c->preview;
    char path[TARGET_SIZE];
    int r = p->port == PORT_TOOLBOX
                ? str_format(path, sizeof path, "/toolbox/%s%s", p->who, p->rest)
                : str_format(path, sizeof path, "/preview/%s/%u", p->who, p->port);
    if (r < 0) {
        error_set(err, CAY_INVALID_ARGUMENT, "the path is too long");
        return error_remedy(err, "send a shorter one");
    }
    return target_parse(path, &c->target, err);
}

/* True if a page of another origin may have sent the request: a browser adds the cookie to those of
 * every page of the same site, and other sandboxes are one site with this one. */
static bool is_from_elsewhere(const struct call *c) {
    const char *origin = call_header(c, "Origin"), *site = call_header(c, "Sec-Fetch-Site");
    const char *mode = call_header(c, "Sec-Fetch-Mode"), *host = call_header(c, "Host");
    if (origin != NULL)
        return !access_is_same_origin(origin, host);
    bool is_same = site == NULL || str_equal(site, "same-origin") || str_equal(site, "none");
    return !is_same && !str_equal(mode, "navigate");
}

/* The token that a request shows: in a header, its query, or a cookie of its own host. */
static const char *shown_token(const struct call *c, const char *id, size_t *ret_len) {
    char name[sizeof PREVIEW_COOKIE + ID_LEN];
    const char *token = call_header(c, PREVIEW_HEADER);
    if (token != NULL) {
        *ret_len = strlen(token);
        return token;
    }
    token = preview_query(c->uri, ret_len);
    if (token != NULL || !c->preview.by_host || is_from_elsewhere(c))
        return token;
    (void)snprintf(name, sizeof name, "%s%s", PREVIEW_COOKIE, id);
    return preview_cookie(call_header(c, "Cookie"), name, ret_len);
}

static bool is_admitted(const struct call *c, const struct sandbox_record *r) {
    const struct preview_place *p = &c->preview;
    size_t len = 0;
    if (p->is_one && p->is_signed)
        return preview_signed_fits(c->manager, p->token, p->port);
    if (p->is_one && r->is_public && !is_private_port(p->port))
        return true;
    const char *token = shown_token(c, r->id, &len);
    enum preview_opens what =
        p->is_one && p->port != PORT_TOOLBOX ? PREVIEW_PORTS : PREVIEW_TOOLBOX;
    return token != NULL && preview_token_fits(c->manager, r->id, what, token, len);
}

bool preview_admit(struct call *c) {
    const struct target *t = &c->target;
    bool is_toolbox = t->segments > 1 && str_equal(t->segment[0], "toolbox");
    const char *who = c->preview.is_one ? c->preview.who : is_toolbox ? t->segment[1] : NULL;
    struct sandbox_record r = {0};
    if (who == NULL || !id_is_valid(who) || manager_get(c->manager, who, &r, NULL) < 0)
        return false;
    /* a name could look like an id */
    bool admitted = str_equal(r.id, who) && is_admitted(c, &r);
    if (admitted) {
        c->caller = (struct key){.name = "preview", .scopes = SCOPE_SANDBOXES};
        memcpy(c->caller.id, r.owner, sizeof c->caller.id);
        c->is_visitor = true;
    }
    sandbox_record_free(&r);
    return admitted;
}

/* ---- URLs ---- */

static int read_port(const char *text, uint16_t *ret, struct cay_error *err) {
    uint64_t port = 0;
    if (str_to_u64(text, UINT16_MAX, &port) < 0 || port == 0) {
        error_set(err, CAY_INVALID_ARGUMENT, "port: '%.40s' is none", text);
        return error_remedy(err, "give a number from 1 to 65535");
    }
    *ret = (uint16_t)port;
    return 0;
}

/* By path, since not every host has names below its own. */
static void put_url(struct jsonw *w, const struct call *c, const char *who, uint16_t port) {
    char origin[CALL_ORIGIN_SIZE], url[CALL_ORIGIN_SIZE + 128];
    (void)snprintf(url, sizeof url, "%s/preview/%s/%u", call_origin(c, origin), who, port);
    jsonw_put_string(w, "url", url);
}

static int get_url(struct call *c, struct cay_error *err) {
    char token[HASH_TEXT_SIZE];
    uint16_t port = 0;
    int r = read_port(c->args.v[1], &port, err);
    if (r == 0)
        r = preview_token(c->manager, c->who,
                          port == PORT_TOOLBOX ? PREVIEW_TOOLBOX : PREVIEW_PORTS, token, err);
    if (r < 0)
        return r;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "sandboxId", c->who);
    put_url(&w, c, c->who, port);
    jsonw_put_string(&w, "token", token);
    jsonw_end_object(&w);
    return 0;
}

static int read_expiry(const struct call *c, int64_t *ret_s, struct cay_error *err) {
    const char *text = target_query(&c->target, "expiresInSeconds");
    *ret_s = PREVIEW_EXPIRES_S;
    if (text == NULL || str_to_i64(text, 1, PREVIEW_EXPIRES_MAX_S, ret_s) == 0)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "expiresInSeconds: '%.40s' is not from 1 to %d", text,
              PREVIEW_EXPIRES_MAX_S);
    return error_remedy(err, "give a number of seconds, at most a day");
}

static int get_signed_url(struct call *c, struct cay_error *err) {
    char token[PREVIEW_SIGNED_SIZE];
    uint16_t port = 0;
    int64_t seconds = 0;
    int r = read_port(c->args.v[1], &port, err);
    if (r == 0)
        r = read_expiry(c, &seconds, err);
    if (r == 0)
        r = preview_sign(c->manager, c->who, port, clock_wall_ms() / 1000 + seconds, token, err);
    if (r < 0)
        return r;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "sandboxId", c->who);
    jsonw_put_unsigned(&w, "port", port);
    jsonw_put_string(&w, "token", token);
    put_url(&w, c, token, port);
    jsonw_end_object(&w);
    return 0;
}

static int expire(struct call *c, struct cay_error *err) {
    const char *token = c->args.v[2];
    uint16_t port = 0;
    int r = read_port(c->args.v[1], &port, err);
    if (r < 0)
        return r;
    if (strlen(token) == PREVIEW_SIGNED_LEN && str_starts(token, c->who) &&
        preview_signed_fits(c->manager, token, port))
        return preview_revoke(c->manager, token, err);
    error_set(err, CAY_NOT_FOUND, "this is no token of a signed URL of this port, or it expired");
    return error_remedy(err, "nothing opens by it");
}

static const struct route routes[] = {
    {"GET", "/api/sandbox/{who}/ports/{port}/preview-url", get_url, NEED_USE},
    {"GET", "/api/sandbox/{who}/ports/{port}/signed-preview-url", get_signed_url, NEED_USE},
    {"POST", "/api/sandbox/{who}/ports/{port}/signed-preview-url/{token}/expire", expire},
};
const struct route_table preview_url_routes = {routes, ARRAY_LEN(routes)};
