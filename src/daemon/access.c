#include "daemon/access.h"

#include <string.h>
#include <strings.h>

enum { KEY_MAX = 256 };

bool access_key_matches(const char *authorization, const char *key) {
    static const char scheme[] = "Bearer ";
    if (authorization == NULL || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
        return false;
    const char *given = authorization + sizeof scheme - 1;
    char a[KEY_MAX] = {0}, b[KEY_MAX] = {0};
    size_t given_len = strnlen(given, KEY_MAX), key_len = strnlen(key, KEY_MAX);
    if (given_len == KEY_MAX || key_len == KEY_MAX || key_len == 0)
        return false;
    memcpy(a, given, given_len);
    memcpy(b, key, key_len);
    volatile unsigned char differs = 0;
    for (size_t i = 0; i < KEY_MAX; i++)
        differs = (unsigned char)(differs | (a[i] ^ b[i]));
    return differs == 0;
}

/* Without ":PORT"; in "[::1]:80" only what follows the bracket is one. */
static size_t name_length(const char *host) {
    const char *bracket = host[0] == '[' ? strchr(host, ']') : NULL;
    return bracket != NULL ? (size_t)(bracket + 1 - host) : strcspn(host, ":");
}

bool access_host_is_allowed(const char *host, const struct strv *more) {
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
    if (host == NULL)
        return false;
    size_t len = name_length(host);
    if (host[len] != '\0' &&
        (host[len] != ':' || strspn(host + len + 1, "0123456789") != strlen(host + len + 1)))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (strlen(own[i]) == len && strncasecmp(own[i], host, len) == 0)
            return true;
    for (size_t i = 0; more != NULL && i < more->len; i++)
        if (strlen(more->v[i]) == len && strncasecmp(more->v[i], host, len) == 0)
            return true;
    return false;
}
