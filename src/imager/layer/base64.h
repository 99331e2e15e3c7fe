/* Base64 with padding, as the Basic scheme and Docker's configuration use it. */
#pragma once

#include <stddef.h>

/* NULL without memory. The caller frees it. */
char *base64_encode(const void *data, size_t len);

/* The bytes, NUL-terminated besides; NULL if text is no base64 or without memory. */
char *base64_decode(const char *text, size_t *ret_len);
