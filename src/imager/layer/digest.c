#include "imager/layer/digest.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

/* The library fails only without memory; then a digest is empty, and equal to none. */
struct digest {
    EVP_MD_CTX *ctx;
    bool ok;
};

struct digest *digest_new(void) {
    struct digest *d = calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    d->ctx = EVP_MD_CTX_new();
    d->ok = d->ctx != NULL && EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL) == 1;
    return d;
}

void digest_update(struct digest *d, const void *data, size_t len) {
    if (d != NULL && d->ok)
        d->ok = EVP_DigestUpdate(d->ctx, data, len) == 1;
}

static void to_hex(const unsigned char *bytes, char hex[static HEX_SIZE]) {
    for (size_t i = 0; i < (HEX_SIZE - 1) / 2; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
}

void digest_finish(struct digest *d, char hex[static HEX_SIZE]) {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    hex[0] = '\0';
    if (d == NULL || !d->ok || EVP_DigestFinal_ex(d->ctx, bytes, NULL) != 1)
        return;
    to_hex(bytes, hex);
}

void digest_free(struct digest *d) {
    if (d != NULL)
        EVP_MD_CTX_free(d->ctx);
    free(d);
}

void digest_freep(struct digest **d) {
    digest_free(*d);
}

void digest_of(const void *data, size_t len, char hex[static HEX_SIZE]) {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    hex[0] = '\0';
    if (EVP_Digest(data, len, bytes, NULL, EVP_sha256(), NULL) == 1)
        to_hex(bytes, hex);
}

void digest_chain(const char *below, const char *diff_id, char hex[static HEX_SIZE]) {
    char text[2 * (HEX_SIZE + sizeof "sha256:")];
    if (below[0] == '\0') {
        memcpy(hex, diff_id, HEX_SIZE);
        return;
    }
    int n = snprintf(text, sizeof text, "sha256:%.64s sha256:%.64s", below, diff_id);
    digest_of(text, (size_t)n, hex);
}
