/* What signed URLs claim, and whether it is true. */
#include <string.h>

#include "api/preview/sign.h"
#include "base/buf.h"
#include "base/id.h"
#include "base/str.h"

/* /toolbox/ID/files/download and upload-v2, each by its own method. */
static const char *method_of(const char *method, const struct target *t) {
    if (t->segments != 4 || !str_equal(t->segment[0], "toolbox") ||
        !str_equal(t->segment[2], "files"))
        return NULL;
    bool is_look = str_equal(method, "GET") || str_equal(method, "HEAD");
    if (is_look && str_equal(t->segment[3], "download"))
        return "GET";
    if (str_equal(method, "POST") && str_equal(t->segment[3], "upload-v2"))
        return "POST";
    return NULL;
}

bool sign_read(const char *method, const struct target *target, struct sign_claim *ret) {
    *ret = (struct sign_claim){
        .method = method_of(method, target),
        .path = target_query(target, "path"),
        .expires = target_query(target, "expires"),
        .signature = target_query(target, "signature"),
    };
    if (ret->method == NULL || ret->path == NULL || ret->expires == NULL || ret->signature == NULL)
        return false;
    ret->id = target->segment[1];
    return id_is_valid(ret->id) && str_to_i64(ret->expires, 0, INT64_MAX, &ret->expires_s) == 0;
}

void sign_make(const struct sign_claim *claim, const char *key, char out[static SIGN_SIZE]) {
    unsigned char digest[HASH_SIZE];
    _cleanup_(buf_free) struct buf text = BUF_INIT(2 * TARGET_SIZE);
    out[0] = '\0';
    if (buf_printf(&text, "v1:files:%s:%s:%s", claim->method, claim->path, claim->expires) < 0)
        return; /* which nobody's signature equals */
    hash_sign(key, strlen(key), text.data, text.len, digest);
    memcpy(out, "v1_", 3);
    hash_text(digest, out + 3);
}

bool sign_is_valid(const struct sign_claim *claim, const char *key, int64_t now_s) {
    char right[SIGN_SIZE];
    unsigned char a[HASH_SIZE], b[HASH_SIZE];
    sign_make(claim, key, right);
    hash_of(right, strlen(right), a);
    hash_of(claim->signature, strlen(claim->signature), b);
    bool is_right = right[0] != '\0' && hash_equal(a, b);
    return is_right && (claim->expires_s == 0 || now_s < claim->expires_s);
}
