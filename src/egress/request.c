#include "egress/request.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

enum { PORT_TEXT_MAX = 5 };

static int bad(struct cay_error *err, const char *what) {
    error_set(err, CAY_INVALID_ARGUMENT, "the proxy does not understand the request: %s", what);
    return error_remedy(err, "use a client that speaks HTTP/1.1 to proxies");
}

/* ---- host and port ---- */

static bool take_address(const char *text, size_t len, int family, struct proxy_request *ret) {
    struct in6_addr any;
    if (len >= sizeof ret->host)
        return false;
    memcpy(ret->host, text, len);
    ret->host[len] = '\0';
    ret->is_address = inet_pton(family, ret->host, &any) == 1;
    return ret->is_address;
}

static bool take_host(const char *text, size_t len, struct proxy_request *ret) {
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']')
        return take_address(text + 1, len - 2, AF_INET6, ret);
    return take_address(text, len, AF_INET, ret) || network_take_name(text, len, ret->host);
}

static bool take_port(const char *text, size_t len, unsigned *ret) {
    char digits[PORT_TEXT_MAX + 1];
    uint64_t port;
    if (len == 0 || len > PORT_TEXT_MAX)
        return false;
    memcpy(digits, text, len);
    digits[len] = '\0';
    if (str_to_u64(digits, UINT16_MAX, &port) < 0 || port == 0)
        return false;
    *ret = (unsigned)port;
    return true;
}

/* "host", "host:port", "[v6]:port"; a port of 0 is one that must be there. */
static bool take_authority(const char *text, size_t len, unsigned port, struct proxy_request *ret) {
    const char *bracket = memchr(text, ']', len);
    size_t skip = bracket != NULL ? (size_t)(bracket - text) : 0;
    const char *colon = memchr(text + skip, ':', len - skip);
    size_t host = colon != NULL ? (size_t)(colon - text) : len;
    ret->port = port;
    if (colon != NULL && !take_port(colon + 1, len - host - 1, &ret->port))
        return false;
    return ret->port != 0 && take_host(text, host, ret);
}

/* ---- the first line ---- */

static bool is_token(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (!isascii(c) || !(isalnum(c) || strchr("!#$%&'*+-.^_`|~", c) != NULL) || c == '\0')
            return false;
    }
    return len > 0;
}

static bool is_visible(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] == 0x7f)
            return false;
    return true;
}

static int take_url(const char *head, size_t at, size_t len, struct proxy_request *ret,
                    struct cay_error *err) {
    static const char scheme[] = "http://";
    const size_t skip = sizeof scheme - 1;
    if (len < skip || strncasecmp(head + at, scheme, skip) != 0)
        return bad(err, "its target is no http:// URL");
    const char *authority = head + at + skip;
    size_t left = len - skip, name = 0;
    while (name < left && strchr("/?#", authority[name]) == NULL)
        name++;
    if (memchr(authority, '@', name) != NULL || !take_authority(authority, name, 80, ret))
        return bad(err, "its URL names no host");
    ret->path_at = at + skip + name;
    ret->path_len = left - name;
    if (ret->path_len > 0 &&
        (head[ret->path_at] != '/' || memchr(head + ret->path_at, '#', ret->path_len) != NULL))
        return bad(err, "its URL has no path");
    return 0;
}

static int take_first_line(const char *head, size_t len, struct proxy_request *ret,
                           struct cay_error *err) {
    static const char version[] = " HTTP/1.";
    const char *space = memchr(head, ' ', len);
    size_t method = space != NULL ? (size_t)(space - head) : 0, at = method + 1;
    if (!is_token(head, method))
        return bad(err, "it has no method");
    if (len < at + sizeof version || memcmp(head + len - sizeof version, version, 8) != 0 ||
        (head[len - 1] != '0' && head[len - 1] != '1'))
        return bad(err, "it is not HTTP/1.1");
    size_t target = len - sizeof version - at;
    if (target == 0 || !is_visible(head + at, target))
        return bad(err, "it has no target");
    ret->method_len = method;
    ret->is_tunnel = method == 7 && memcmp(head, "CONNECT", 7) == 0;
    if (!ret->is_tunnel)
        return take_url(head, at, target, ret, err);
    return take_authority(head + at, target, 0, ret) ? 0 : bad(err, "CONNECT names no host:port");
}

/* ---- the other lines ---- */

struct field {
    const char *name, *value;
    size_t name_len, value_len;
};

static bool is_named(const struct field *f, const char *name) {
    return f->name_len == strlen(name) && strncasecmp(f->name, name, f->name_len) == 0;
}

static bool take_field(const char *line, size_t len, struct field *ret) {
    const char *colon = memchr(line, ':', len);
    size_t name = colon != NULL ? (size_t)(colon - line) : 0;
    if (!is_token(line, name))
        return false;
    for (size_t i = name; i < len; i++)
        if (((unsigned char)line[i] < ' ' && line[i] != '\t') || line[i] == 0x7f)
            return false;
    const char *value = colon + 1;
    size_t left = len - name - 1;
    for (; left > 0 && (*value == ' ' || *value == '\t'); left--)
        value++;
    while (left > 0 && (value[left - 1] == ' ' || value[left - 1] == '\t'))
        left--;
    *ret = (struct field){line, value, name, left};
    return true;
}

static bool is_digits(const struct field *f) {
    for (size_t i = 0; i < f->value_len; i++)
        if (!isdigit((unsigned char)f->value[i]))
            return false;
    return f->value_len > 0;
}

/* How long the body is must be said once, and in a way that everybody understands. */
static int check_framing(const struct field *f, unsigned *framings, struct cay_error *err) {
    bool coded = is_named(f, "Transfer-Encoding");
    if (!coded && !is_named(f, "Content-Length"))
        return 0;
    if (coded && !(f->value_len == 7 && strncasecmp(f->value, "chunked", 7) == 0))
        return bad(err, "Transfer-Encoding is not chunked");
    if (!coded && !is_digits(f))
        return bad(err, "Content-Length is no number");
    return ++*framings > 1 ? bad(err, "the length of its body is said twice") : 0;
}

/* Each line of a head that was found to be whole, without its CRLF; false behind the last. */
static bool next_line(const char *head, size_t len, size_t *at, const char **ret, size_t *ret_len) {
    const char *line = head + *at;
    const char *end = memmem(line, len - *at, "\r\n", 2);
    if (end == NULL || end == line)
        return false;
    *ret = line;
    *ret_len = (size_t)(end - line);
    *at += *ret_len + 2;
    return true;
}

static int check_fields(const char *head, const struct proxy_request *r, struct cay_error *err) {
    size_t at = r->fields_at, len;
    unsigned framings = 0;
    const char *line;
    while (next_line(head, r->head_len, &at, &line, &len)) {
        struct field f;
        if (!take_field(line, len, &f))
            return bad(err, "a line of its head is broken");
        int e = check_framing(&f, &framings, err);
        if (e < 0)
            return e;
    }
    return 0;
}

int proxy_request_parse(const char *data, size_t len, struct proxy_request *ret,
                        struct cay_error *err) {
    *ret = (struct proxy_request){0};
    const char *end = memmem(data, MIN(len, (size_t)PROXY_HEAD_MAX), "\r\n\r\n", 4);
    if (end == NULL)
        return len >= PROXY_HEAD_MAX ? bad(err, "its head is too long") : 0;
    ret->head_len = (size_t)(end - data) + 4;
    if (memchr(data, '\0', ret->head_len) != NULL)
        return bad(err, "it has a zero byte");
    const char *first_end = memmem(data, ret->head_len, "\r\n", 2);
    size_t first = (size_t)(first_end - data);
    ret->fields_at = first + 2;
    int r = take_first_line(data, first, ret, err);
    if (r == 0)
        r = check_fields(data, ret, err);
    return r < 0 ? r : 1;
}

/* ---- writing it anew ---- */

static bool is_for_proxies(const struct field *f) {
    static const char *const names[] = {"Host", "Connection", "Keep-Alive", "Upgrade", "TE"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (is_named(f, names[i]))
            return true;
    return f->name_len >= 6 && strncasecmp(f->name, "Proxy-", 6) == 0;
}

static void put_host(const struct proxy_request *r, struct buf *out) {
    bool is_v6 = strchr(r->host, ':') != NULL;
    (void)buf_printf(out, is_v6 ? "Host: [%s]" : "Host: %s", r->host);
    if (r->port != 80)
        (void)buf_printf(out, ":%u", r->port);
    (void)buf_puts(out, "\r\n");
}

int proxy_request_rewrite(const char *head, const struct proxy_request *r, struct buf *out) {
    size_t at = r->fields_at, len;
    const char *line;
    (void)buf_append(out, head, r->method_len);
    (void)buf_putc(out, ' ');
    if (r->path_len > 0)
        (void)buf_append(out, head + r->path_at, r->path_len);
    else
        (void)buf_putc(out, '/');
    (void)buf_puts(out, " HTTP/1.1\r\n");
    put_host(r, out);
    while (next_line(head, r->head_len, &at, &line, &len)) {
        struct field f;
        if (!take_field(line, len, &f) || is_for_proxies(&f))
            continue;
        (void)buf_append(out, f.name, f.name_len);
        (void)buf_puts(out, ": ");
        (void)buf_append(out, f.value, f.value_len);
        (void)buf_puts(out, "\r\n");
    }
    (void)buf_puts(out, "Connection: close\r\n\r\n");
    return out->failed ? -1 : 0;
}
