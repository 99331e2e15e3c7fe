#include "imager/layer/base64.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <string.h>

#include "base/auto.h"

enum { INPUT_MAX = 1 << 24 };

char *base64_encode(const void *data, size_t len) {
    if (len > INPUT_MAX)
        return NULL;
    char *text = malloc((len + 2) / 3 * 4 + 1);
    if (text != NULL)
        (void)EVP_EncodeBlock((unsigned char *)text, data, (int)len);
    return text;
}

/* The library takes white space and misplaced padding; we do not. */
static bool is_well_formed(const char *text, size_t len, size_t *ret_padding) {
    size_t body = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    *ret_padding = len - body;
    return len % 4 == 0 && *ret_padding <= 2 && strspn(text + body, "=") == *ret_padding;
}

char *base64_decode(const char *text, size_t *ret_len) {
    size_t len = strlen(text), padding;
    if (len > INPUT_MAX || !is_well_formed(text, len, &padding))
        return NULL;
    char *data = malloc(len / 4 * 3 + 1);
    if (data == NULL)
        return NULL;
    int n = EVP_DecodeBlock((unsigned char *)data, (const unsigned char *)text, (int)len);
    if (n < (int)padding) {
        free(data);
        return NULL;
    }
    *ret_len = (size_t)n - padding;
    data[*ret_len] = '\0';
    return data;
}
