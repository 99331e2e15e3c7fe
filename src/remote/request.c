#include "remote/request.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/shape/shape.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

enum { PIECE = 16 * 1024 };

/* ---- reading ---- */

static int fill(int fd, struct buf *b) {
    char *to = buf_reserve(b, PIECE);
    if (to == NULL)
        return -ENOBUFS;
    ssize_t n;
    do
        n = recv(fd, to, PIECE, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n < 0 ? -errno : -EPIPE;
    buf_commit(b, (size_t)n);
    return 0;
}

/* "POST /api/cay/sandbox?wait=false HTTP/1.1" */
static int split_line(struct request *r, const char *text, size_t len) {
    r->line = strndup(text, len);
    if (r->line == NULL)
        return -ENOMEM;
    char *path = strchr(r->line, ' '), *end = strrchr(r->line, ' ');
    if (path == NULL || end == path || !str_equal(end, " HTTP/1.1"))
        return -EPROTO;
    *path++ = '\0';
    *end = '\0';
    r->path = path;
    char *mark = strchr(path, '?');
    r->query = mark != NULL ? mark + 1 : end;
    if (mark != NULL)
        *mark = '\0';
    return str_copy(r->method, sizeof r->method, r->line);
}

/* Fields are read as those of an answer are. */
static int parse_fields(struct request *r, const char *data, size_t len) {
    static const char status[] = "HTTP/1.1 200 OK";
    _cleanup_(buf_free) struct buf head = BUF_INIT(HTTP_HEAD_MAX + PIECE);
    (void)buf_puts(&head, status);
    (void)buf_append(&head, data, len);
    return head.failed ? -ENOMEM : http_head_parse(buf_text(&head), head.len, &r->head);
}

static bool has_field(const struct request *r, const char *name, const char *part) {
    const char *value = http_head_get(&r->head, name, NULL);
    return value != NULL && strcasestr(value, part) != NULL;
}

static int parse_head(struct request *r, const char *data, size_t len) {
    const char *end = strstr(data, "\r\n");
    int x = end == NULL ? -EPROTO : split_line(r, data, (size_t)(end - data));
    if (x == 0)
        x = parse_fields(r, end, len - (size_t)(end - data));
    if (x < 0)
        return x;
    r->wants_progress = has_field(r, "x-cay-progress", "lines");
    r->wants_upgrade = has_field(r, "upgrade", "cay-init");
    return r->head.chunked || r->head.length > REQUEST_BODY_MAX ? -EPROTO : 0;
}

int request_read(int fd, struct request *ret) {
    _cleanup_(buf_free) struct buf in = BUF_INIT(HTTP_HEAD_MAX + REQUEST_BODY_MAX + PIECE);
    size_t end = 0, looked = 0;
    *ret = (struct request){.fd = fd, .body = BUF_INIT(REQUEST_BODY_MAX)};
    while (end == 0 && looked < HTTP_HEAD_MAX) {
        int r = fill(fd, &in);
        if (r < 0)
            return r;
        end = http_head_end(buf_text(&in), in.len, looked);
        looked = in.len;
    }
    int r = end == 0 ? -EPROTO : parse_head(ret, buf_text(&in), end);
    size_t length = r == 0 && ret->head.length > 0 ? (size_t)ret->head.length : 0;
    while (r == 0 && in.len - end < length)
        r = fill(fd, &in);
    return r < 0 ? r : buf_append(&ret->body, buf_text(&in) + end, MIN(length, in.len - end));
}

void request_free(struct request *r) {
    http_head_free(&r->head);
    buf_free(&r->body);
    free(r->line);
}

char *request_query(const struct request *r, const char *name) {
    size_t len = strlen(name);
    for (const char *p = r->query; *p != '\0'; p += strcspn(p, "&"), p += *p == '&') {
        if (strncmp(p, name, len) != 0 || p[len] != '=')
            continue;
        char *value = strndup(p + len + 1, strcspn(p + len + 1, "&"));
        if (value == NULL || http_unescape(value) == 0)
            return value;
        free(value);
    }
    return NULL;
}

/* ---- answering ---- */

static void send_answer(const struct request *r, unsigned status, const struct buf *content) {
    _cleanup_(buf_free) struct buf b = BUF_INIT((size_t)REQUEST_BODY_MAX * 2);
    const char *type = "application/json";
    (void)buf_printf(&b, "HTTP/1.1 %u -\r\nContent-Type: %s\r\n", status, type);
    if (status != 204)
        (void)buf_printf(&b, "Content-Length: %zu\r\n", content->len);
    (void)buf_puts(&b, "\r\n");
    if (content != NULL)
        (void)buf_append(&b, content->data, content->len);
    if (!b.failed)
        (void)fd_write_all(r->fd, b.data, b.len); /* who has gone does not hear it */
}

/* Behind lines of progress comes how it ended. */
void request_answer(const struct request *r, const struct buf *content) {
    static const struct buf nothing;
    _cleanup_(buf_free) struct buf b = BUF_INIT((size_t)REQUEST_BODY_MAX);
    if (content == NULL) {
        send_answer(r, 204, &nothing);
        return;
    }
    if (r->wants_progress)
        (void)buf_puts(&b, "done\n");
    (void)buf_append(&b, buf_text(content), content->len);
    send_answer(r, 200, &b);
}

void request_refuse(const struct request *r, const struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(64 * 1024);
    unsigned status = (unsigned)cay_code_http(err->code);
    shape_error(&b, err, status);
    send_answer(r, status, &b);
}
