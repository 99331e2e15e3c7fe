#include "manager/record/hash.h"

#include <nettle/base64.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(HASH_SIZE == SHA256_DIGEST_SIZE, "one size");

void hash_of(const void *data, size_t len, unsigned char ret[static HASH_SIZE]) {
    struct sha256_ctx ctx;
    sha256_init(&ctx);
    sha256_update(&ctx, len, data);
    sha256_digest(&ctx, HASH_SIZE, ret);
}

bool hash_equal(const unsigned char a[static HASH_SIZE], const unsigned char b[static HASH_SIZE]) {
    return memeql_sec(a, b, HASH_SIZE) != 0;
}

void hash_sign(const void *key, size_t key_len, const void *data, size_t len,
               unsigned char ret[static HASH_SIZE]) {
    struct hmac_sha256_ctx ctx;
    hmac_sha256_set_key(&ctx, key_len, key);
    hmac_sha256_update(&ctx, len, data);
    hmac_sha256_digest(&ctx, HASH_SIZE, ret);
    explicit_bzero(&ctx, sizeof ctx);
}

void hash_text(const unsigned char data[static HASH_SIZE], char out[static HASH_TEXT_SIZE]) {
    struct base64_encode_ctx ctx;
    base64url_encode_init(&ctx);
    size_t len = base64_encode_update(&ctx, out, HASH_SIZE, data);
    /* of the last, which may be followed by padding, only what stands for data */
    char last[BASE64_ENCODE_FINAL_LENGTH];
    if (base64_encode_final(&ctx, last) > 0)
        out[len++] = last[0];
    out[len] = '\0';
}

void hash_hex(const unsigned char data[static HASH_SIZE], char out[static HASH_HEX_SIZE]) {
    for (size_t i = 0; i < HASH_SIZE; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", data[i]);
}

struct hasher {
    struct sha256_ctx ctx;
};

struct hasher *hasher_new(void) {
    struct hasher *h = malloc(sizeof *h);
    if (h != NULL)
        sha256_init(&h->ctx);
    return h;
}

void hasher_add(struct hasher *h, const void *data, size_t len) {
    sha256_update(&h->ctx, len, data);
}

void hasher_end(struct hasher *h, unsigned char ret[static HASH_SIZE]) {
    sha256_digest(&h->ctx, HASH_SIZE, ret);
}

void hasher_free(struct hasher *h) {
    free(h);
}
