#include "manager/hash.h"

#include <nettle/memops.h>
#include <nettle/sha2.h>

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
