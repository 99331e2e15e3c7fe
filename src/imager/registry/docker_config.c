#include "imager/registry/docker_config.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "imager/layer/base64.h"
#include "imager/registry/secret.h"

#define HUB     "docker.io"
#define HUB_KEY "https://index.docker.io/v1/"
#define NO_NAME "<token>" /* the user of whoever has an identity token */

/* ---- keys ---- */

const char *docker_config_key(const char *registry) {
    return str_equal(registry, HUB) ? HUB_KEY : registry;
}

static bool is_hub(const char *host) {
    return str_equal(host, HUB) || str_equal(host, "index.docker.io") ||
           str_equal(host, "registry-1.docker.io");
}

/* Podman keeps credentials for parts of a registry under "host/part"; a path behind a scheme, or of
 * the protocol, is the whole registry. */
static bool path_is_whole(const char *path, bool had_scheme) {
    return had_scheme || path[0] == '\0' || str_equal(path, "/") || str_starts(path, "/v1") ||
           str_starts(path, "/v2");
}

bool docker_config_key_is(const char *key, const char *registry) {
    char host[256];
    const char *at = key;
    if (str_starts(at, "https://"))
        at += strlen("https://");
    else if (str_starts(at, "http://"))
        at += strlen("http://");
    size_t len = strcspn(at, "/");
    if (len == 0 || len >= sizeof host || !path_is_whole(at + len, at != key))
        return false;
    memcpy(host, at, len);
    host[len] = '\0';
    return str_equal(host, registry) || (is_hub(host) && is_hub(registry));
}

/* The member of an object whose key means the registry; an exact one is preferred. */
static bool find_member(const struct json *object, const char *registry, struct json *ret) {
    if (json_child(object, docker_config_key(registry), ret) || json_child(object, registry, ret))
        return true;
    struct json member;
    for (void *i = NULL; json_next(object, &i, &member);) {
        if (!docker_config_key_is(member.key, registry))
            continue;
        *ret = member;
        return json_kind(ret) != JSON_KIND_NULL;
    }
    return false;
}

/* ---- reading ---- */

static int refuse(const char *name, const char *why, struct cay_error *err) {
    (void)error_set(err, CAY_INVALID_ARGUMENT, "%s: %s", name, why);
    return error_remedy(err, "correct the file, or move it away and log in again");
}

static int parse(const char *name, const char *text, size_t len, struct json_document **ret,
                 struct cay_error *err) {
    struct cay_error why = {0};
    if (json_parse("file", text, len, ret, &why) < 0)
        return refuse(name, "it is not well-formed JSON", err); /* the reason could show secrets */
    struct json root = json_root(*ret, "");
    if (json_kind(&root) != JSON_KIND_OBJECT)
        return refuse(name, "it is no JSON object", err);
    return 0;
}

static const char *text_of(const struct json *object, const char *key) {
    const char *text = NULL;
    (void)json_get_string(object, key, JSON_OPTIONAL, &text, NULL);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static int set_pair(const char *user, const char *secret, struct credential *ret) {
    if (str_equal(user, NO_NAME)) {
        ret->identity_token = strdup(secret);
        return ret->identity_token != NULL ? 0 : -ENOMEM;
    }
    ret->user = strdup(user);
    ret->secret = strdup(secret);
    return ret->user != NULL && ret->secret != NULL ? 0 : -ENOMEM;
}

/* "auth" is the base64 of USER:SECRET. */
static int decode_auth(const char *auth, struct credential *ret) {
    size_t len = 0;
    char *pair = base64_decode(auth, &len);
    char *colon = pair != NULL ? memchr(pair, ':', len) : NULL;
    int r = -EINVAL;
    if (colon != NULL && colon != pair && strlen(pair) == len) {
        *colon = '\0';
        r = set_pair(pair, colon + 1, ret);
    }
    if (pair != NULL)
        explicit_bzero(pair, len);
    free(pair);
    return r;
}

static int read_entry(const char *name, const struct json *entry, struct credential *ret,
                      struct cay_error *err) {
    const char *identity = text_of(entry, "identitytoken"), *auth = text_of(entry, "auth");
    const char *user = text_of(entry, "username"), *secret = text_of(entry, "password");
    int r = 0;
    if (identity != NULL)
        r = set_pair(NO_NAME, identity, ret);
    else if (auth != NULL)
        r = decode_auth(auth, ret);
    else if (user != NULL && secret != NULL)
        r = set_pair(user, secret, ret);
    if (r == -ENOMEM)
        return error_sys(err, ENOMEM, "%s: reading credentials", name);
    return r < 0 ? refuse(name, "\"auth\" is not the base64 of USER:PASSWORD", err) : 0;
}

/* Of this registry, else of all. */
static int find_helper(const char *name, const struct json *root, const char *registry,
                       char ret[static HELPER_NAME_SIZE], struct cay_error *err) {
    struct json helpers, member;
    const char *helper = NULL;
    if (json_child(root, "credHelpers", &helpers) && find_member(&helpers, registry, &member))
        (void)json_as_string(&member, &helper, NULL);
    if (helper == NULL)
        helper = text_of(root, "credsStore");
    if (helper == NULL)
        return 0;
    if (str_copy(ret, HELPER_NAME_SIZE, helper) < 0)
        return refuse(name, "the name of the credential helper is too long", err);
    return 0;
}

int docker_config_find(const char *name, const char *text, size_t len, const char *registry,
                       struct docker_entry *ret, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    *ret = (struct docker_entry){0};
    int r = parse(name, text, len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, ""), auths, entry;
    r = find_helper(name, &root, registry, ret->helper, err);
    if (r == 0 && json_child(&root, "auths", &auths) && find_member(&auths, registry, &entry))
        r = read_entry(name, &entry, &ret->credential, err);
    if (r < 0)
        credential_clear(&ret->credential);
    return r;
}

/* ---- writing ---- */

static int write_entry(struct jsonw *w, const char *registry, const struct credential *c) {
    _cleanup_(secret_freep) char *pair = NULL, *auth = NULL;
    jsonw_key(w, docker_config_key(registry));
    jsonw_begin_object(w);
    if (c->identity_token != NULL) {
        jsonw_put_string(w, "identitytoken", c->identity_token);
    } else {
        if (asprintf(&pair, "%s:%s", c->user, c->secret) < 0) {
            pair = NULL;
            return -ENOMEM;
        }
        auth = base64_encode(pair, strlen(pair));
        jsonw_put_string(w, "auth", auth);
    }
    jsonw_end_object(w);
    bool whole = c->identity_token != NULL || auth != NULL;
    return whole ? 0 : -ENOMEM;
}

/* All members but those of the registry; returns how many were left out. */
static int copy_others(struct jsonw *w, const struct json *auths, const char *registry) {
    int left_out = 0;
    struct json member;
    for (void *i = NULL; json_next(auths, &i, &member);) {
        if (docker_config_key_is(member.key, registry)) {
            left_out++;
            continue;
        }
        jsonw_key(w, member.key);
        json_write(&member, w);
    }
    return left_out;
}

int docker_config_replace(const char *name, const char *text, size_t len, const char *registry,
                          const struct credential *credential, struct buf *out,
                          struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = len > 0 ? parse(name, text, len, &doc, err) : parse(name, "{}", 2, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, ""), member, auths;
    struct jsonw w = JSONW_INIT(out);
    jsonw_begin_object(&w);
    for (void *i = NULL; json_next(&root, &i, &member);) {
        if (str_equal(member.key, "auths"))
            continue;
        jsonw_key(&w, member.key);
        json_write(&member, &w);
    }
    jsonw_key(&w, "auths");
    jsonw_begin_object(&w);
    int had = json_child(&root, "auths", &auths) ? copy_others(&w, &auths, registry) : 0;
    if (credential != NULL)
        r = write_entry(&w, registry, credential);
    jsonw_end_object(&w);
    jsonw_end_object(&w);
    if (r < 0 || jsonw_finish(&w) < 0 || buf_putc(out, '\n') < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "%s: it would become too long", name);
    return had > 0;
}
