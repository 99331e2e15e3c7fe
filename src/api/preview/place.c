#include "api/preview/place.h"

#include <ctype.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"

/* A port: digits without a zero in front, up to `end`; 0 if it is none. */
static uint16_t read_port(const char *text, const char *end) {
    char digits[6];
    uint64_t port = 0;
    size_t len = (size_t)(end - text);
    if (len == 0 || len >= sizeof digits || text[0] == '0')
        return 0;
    memcpy(digits, text, len);
    digits[len] = '\0';
    return str_to_u64(digits, UINT16_MAX, &port) == 0 ? (uint16_t)port : 0;
}

static bool is_signed_token(const char *text, size_t len) {
    if (len != PREVIEW_SIGNED_LEN)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isdigit((unsigned char)text[i]) && (text[i] < 'a' || text[i] > 'f'))
            return false;
    return true;
}

/* Names have nothing that a path would have to encode. */
static bool read_who(const char *text, size_t len, struct preview_place *ret) {
    ret->is_signed = is_signed_token(text, len);
    if (ret->is_signed) {
        memcpy(ret->token, text, len);
        len = ID_LEN;
    }
    if (len == 0 || len >= sizeof ret->who)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && strchr("._-", text[i]) == NULL)
            return false;
    memcpy(ret->who, text, len);
    ret->who[len] = '\0';
    return true;
}

/* "8080-ID.localhost:3986" */
static bool read_host(const char *host, struct preview_place *ret) {
    const char *dash = strchr(host, '-'), *dot = strchr(host, '.');
    if (dash == NULL || dot == NULL || dash > dot)
        return false;
    ret->port = read_port(host, dash);
    ret->host = dot + 1;
    ret->by_host = true;
    return ret->port != 0 && read_who(dash + 1, (size_t)(dot - dash - 1), ret);
}

/* "/preview/ID/8080/index.html?a=b" */
static bool read_path(const char *uri, struct preview_place *ret) {
    static const char prefix[] = "/preview/";
    if (!str_starts(uri, prefix))
        return false;
    const char *who = uri + sizeof prefix - 1, *slash = strchr(who, '/');
    if (slash == NULL || !read_who(who, (size_t)(slash - who), ret))
        return false;
    const char *end = slash + 1 + strcspn(slash + 1, "/?");
    ret->port = read_port(slash + 1, end);
    ret->rest = *end == '/' ? end : "";
    return ret->port != 0;
}

void preview_read_place(const char *host, const char *uri, struct preview_place *ret) {
    *ret = (struct preview_place){0};
    if (host != NULL && read_host(host, ret)) {
        ret->rest = uri;
        ret->is_one = uri[0] == '/';
        return;
    }
    *ret = (struct preview_place){0};
    ret->is_one = read_path(uri, ret);
    if (!ret->is_one)
        *ret = (struct preview_place){0};
}

const char *preview_cookie(const char *cookies, const char *name, size_t *ret_len) {
    size_t name_len = strlen(name);
    for (const char *p = cookies; p != NULL && *p != '\0'; p += strcspn(p, ";")) {
        p += strspn(p, "; \t");
        if (strncmp(p, name, name_len) != 0 || p[name_len] != '=')
            continue;
        p += name_len + 1;
        *ret_len = strcspn(p, "; \t");
        return p;
    }
    return NULL;
}

const char *preview_query(const char *rest, size_t *ret_len) {
    static const char key[] = PREVIEW_QUERY "=";
    const char *p = strchr(rest, '?');
    while (p != NULL) {
        p++;
        if (str_starts(p, key)) {
            p += sizeof key - 1;
            *ret_len = strcspn(p, "&");
            return p;
        }
        p = strchr(p, '&');
    }
    return NULL;
}
