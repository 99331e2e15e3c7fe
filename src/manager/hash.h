/* SHA-256. The one place that knows the library for it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { HASH_SIZE = 32, HASH_TEXT_SIZE = 44 };

void hash_of(const void *data, size_t len, unsigned char ret[static HASH_SIZE]);
/* Takes the same time wherever they differ. */
bool hash_equal(const unsigned char a[static HASH_SIZE], const unsigned char b[static HASH_SIZE]);

/* HMAC-SHA256. */
void hash_sign(const void *key, size_t key_len, const void *data, size_t len,
               unsigned char ret[static HASH_SIZE]);
/* 32 bytes of any kind in base64url, without padding. */
void hash_text(const unsigned char data[static HASH_SIZE], char out[static HASH_TEXT_SIZE]);
