/* SHA-256. The one place that knows the library for it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { HASH_SIZE = 32, HASH_TEXT_SIZE = 44, HASH_HEX_SIZE = 65 };

void hash_of(const void *data, size_t len, unsigned char ret[static HASH_SIZE]);
/* Takes the same time wherever they differ. */
bool hash_equal(const unsigned char a[static HASH_SIZE], const unsigned char b[static HASH_SIZE]);

/* HMAC-SHA256. */
void hash_sign(const void *key, size_t key_len, const void *data, size_t len,
               unsigned char ret[static HASH_SIZE]);
/* 32 bytes of any kind in base64url, without padding. */
void hash_text(const unsigned char data[static HASH_SIZE], char out[static HASH_TEXT_SIZE]);
/* The same in lower-case hex. */
void hash_hex(const unsigned char data[static HASH_SIZE], char out[static HASH_HEX_SIZE]);

/* Of what comes piece by piece. */
struct hasher;                   /* opaque */
struct hasher *hasher_new(void); /* NULL: no memory */
void hasher_add(struct hasher *h, const void *data, size_t len);
/* Of all that was added; it begins anew then. */
void hasher_end(struct hasher *h, unsigned char ret[static HASH_SIZE]);
void hasher_free(struct hasher *h);
