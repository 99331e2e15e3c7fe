/* credential */
#include "base/error.h"
#include "imager/layer/base64.h"
#include "imager/registry/credentials.h"
#include "imager/registry/docker_config.h"
#include "imager/registry/secret.h"
#include "imager/verbs/verbs.h"

enum { CREDENTIAL_MAX = 64 * 1024 };

/* As Docker wants it in a header: JSON in base64, of the alphabet for URLs. */
static char *encode(const char *registry, const struct credential *c) {
    _cleanup_(secret_buf_free) struct buf text = BUF_INIT(CREDENTIAL_MAX);
    struct jsonw w = JSONW_INIT(&text);
    if (buf_reserve(&text, text.max) == NULL) /* it need not move then */
        return NULL;
    jsonw_begin_object(&w);
    if (c->identity_token != NULL) {
        jsonw_put_string(&w, "identitytoken", c->identity_token);
    } else if (c->user != NULL) {
        jsonw_put_string(&w, "username", c->user);
        jsonw_put_string(&w, "password", c->secret);
    }
    jsonw_put_string(&w, "serveraddress", docker_config_key(registry));
    jsonw_end_object(&w);
    char *encoded = jsonw_finish(&w) < 0 ? NULL : base64_encode(text.data, text.len);
    for (char *at = encoded; at != NULL && *at != '\0'; at++)
        *at = *at == '+' ? '-' : *at == '/' ? '_' : *at;
    return encoded;
}

static int find(const struct access *access, const char *registry, char **ret,
                struct cay_error *err) {
    struct credential c = CREDENTIAL_NONE;
    int r = access_find_credential(access, registry, &c, err);
    if (r < 0)
        return r;
    *ret = encode(registry, &c);
    credential_clear(&c);
    return *ret == NULL ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

int do_credential(const void *values, int argc, char **argv) {
    (void)argc;
    struct cay_error err;
    struct access access = {0};
    _cleanup_(secret_freep) char *encoded = NULL;
    int r = access_open(values, &access, &err);
    if (r == 0)
        r = find(&access, argv[0], &encoded, &err);
    int code = verbs_answer(r, (const char *const[]){"ok", encoded, NULL}, &err);
    access_close(&access);
    return code;
}
