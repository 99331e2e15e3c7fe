#include "api/preview/head.h"

#include <string.h>
#include <strings.h>

#include "api/preview/place.h"
#include "base/auto.h"
#include "base/str.h"

static bool is_one_of(const char *name, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(name, list[i]) == 0)
            return true;
    return false;
}

/* True if a Connection header names the field: it is for the next neighbour only. */
static bool is_named(const char *connection, const char *name) {
    size_t len = strlen(name);
    for (const char *p = connection; p != NULL && *p != '\0'; p += strcspn(p, ",")) {
        p += strspn(p, ", \t");
        if (strncasecmp(p, name, len) == 0 && strchr(", \t", p[len]) != NULL)
            return true;
    }
    return false;
}

static bool is_between_neighbours(const char *name, const char *connection) {
    static const char *const names[] = {
        "Connection",          "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate",
        "Proxy-Authorization", "TE",         "Trailer",          "Transfer-Encoding",
        "Content-Length",      "Upgrade",    "HTTP2-Settings",
    };
    return is_one_of(name, names, ARRAY_LEN(names)) || is_named(connection, name);
}

/* ---- requests ---- */

/* Path and query without our token. */
static void put_rest(struct buf *out, const char *rest) {
    char separator = '?';
    size_t len = strcspn(rest, "?");
    (void)buf_append(out, rest, len);
    for (const char *p = rest + len; *p != '\0'; p += len) {
        p++;
        len = strcspn(p, "&");
        if (str_starts(p, PREVIEW_QUERY "="))
            continue;
        (void)buf_putc(out, separator);
        (void)buf_append(out, p, len);
        separator = '&';
    }
}

void preview_put_request(struct buf *out, const struct preview_head *h) {
    (void)buf_printf(out, "%s ", h->method);
    put_rest(out, h->place->rest);
    (void)buf_printf(out, " HTTP/1.1\r\nHost: %s\r\n", h->host);
    (void)buf_printf(out, "X-Forwarded-Host: %s\r\nX-Forwarded-Proto: %s\r\n", h->host,
                     h->is_tls ? "https" : "http");
    if (h->upgrade != NULL)
        (void)buf_printf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n", h->upgrade);
    else
        (void)buf_puts(out, "Connection: close\r\n");
    if (h->is_chunked)
        (void)buf_puts(out, "Transfer-Encoding: chunked\r\n");
    else if (h->length != NULL)
        (void)buf_printf(out, "Content-Length: %s\r\n", h->length);
}

/* Cookies but ours. */
static void put_cookies(struct buf *out, const char *value) {
    bool is_first = true;
    for (const char *p = value; *p != '\0';) {
        p += strspn(p, "; \t");
        size_t len = strcspn(p, ";");
        if (len > 0 && strncmp(p, PREVIEW_COOKIE, strlen(PREVIEW_COOKIE)) != 0) {
            (void)buf_printf(out, "%s%.*s", is_first ? "Cookie: " : "; ", (int)len, p);
            is_first = false;
        }
        p += len;
    }
    if (!is_first)
        (void)buf_puts(out, "\r\n");
}

void preview_put_field(struct buf *out, const struct preview_head *h, const char *name,
                       const char *value) {
    static const char *const ours[] = {"Host",
                                       "Expect",
                                       "X-Forwarded-Host",
                                       PREVIEW_HEADER,
                                       PREVIEW_START,
                                       "X-Forwarded-Proto",
                                       "X-Daytona-Skip-Preview-Warning"};
    if (is_between_neighbours(name, h->connection) || is_one_of(name, ours, ARRAY_LEN(ours)) ||
        strpbrk(name, " \t\r\n:") != NULL || strpbrk(value, "\r\n") != NULL)
        return;
    if (h->hides_key && strcasecmp(name, "Authorization") == 0)
        return;
    if (strcasecmp(name, "Cookie") == 0)
        put_cookies(out, value);
    else
        (void)buf_printf(out, "%s: %s\r\n", name, value);
}

void preview_put_end(struct buf *out) {
    (void)buf_puts(out, "\r\n");
}

/* ---- answers ---- */

static bool is_attribute(const char *part, size_t len, const char *name) {
    size_t name_len = strlen(name);
    return len >= name_len && strncasecmp(part, name, name_len) == 0 &&
           (len == name_len || strchr("= \t", part[name_len]) != NULL);
}

void preview_put_set_cookie(struct buf *out, const char *value, const char *path, size_t path_len) {
    size_t len = strcspn(value, ";");
    (void)buf_append(out, value, len);
    for (const char *p = value + len; *p == ';'; p += len) {
        p++;
        p += strspn(p, " \t");
        len = strcspn(p, ";");
        bool drops_path = path != NULL && is_attribute(p, len, "Path");
        if (!drops_path && !is_attribute(p, len, "Domain"))
            (void)buf_printf(out, "; %.*s", (int)len, p);
    }
    if (path != NULL)
        (void)buf_printf(out, "; Path=%.*s", (int)path_len, path);
}

bool preview_passes_back(const char *name, const char *value, const char *connection,
                         bool by_host) {
    static const char *const of_origins[] = {"Service-Worker-Allowed", "Clear-Site-Data",
                                             "Strict-Transport-Security", "Alt-Svc"};
    if (is_between_neighbours(name, connection))
        return false;
    if (strcasecmp(name, "Set-Cookie") == 0 && str_starts(value, PREVIEW_COOKIE))
        return false;
    return by_host || !is_one_of(name, of_origins, ARRAY_LEN(of_origins));
}
