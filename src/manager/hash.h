/* SHA-256. The one place that knows the library for it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { HASH_SIZE = 32 };

void hash_of(const void *data, size_t len, unsigned char ret[static HASH_SIZE]);
/* Takes the same time wherever they differ. */
bool hash_equal(const unsigned char a[static HASH_SIZE], const unsigned char b[static HASH_SIZE]);
