#include "egress/talk.h"

#include <cay/errors.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "egress/reach.h"
#include "egress/request.h"

enum { HEAD_MS = 15 * 1000, CHUNK = 4096, LAST_MS = 1000 };

/* One more piece of what the client sends: bytes, 0 at its end, -errno. */
static ssize_t read_some(int fd, struct buf *in, int64_t deadline) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int r = poll(&p, 1, clock_poll_timeout(deadline));
    if (r <= 0)
        return r == 0 ? -ETIMEDOUT : -errno;
    char *to = buf_reserve(in, CHUNK);
    if (to == NULL)
        return -ENOBUFS;
    ssize_t n = recv(fd, to, CHUNK, 0);
    if (n > 0)
        buf_commit(in, (size_t)n);
    return n < 0 ? -errno : n;
}

/* 1 with a whole head in `in`, 0 if the client left before, or an error. */
static int read_head(int fd, struct buf *in, struct proxy_request *ret, struct cay_error *err) {
    int64_t deadline = clock_deadline(HEAD_MS);
    for (;;) {
        int r = in->len == 0 ? 0 : proxy_request_parse(in->data, in->len, ret, err);
        if (r != 0)
            return r;
        ssize_t n = read_some(fd, in, deadline);
        if (n == -EINTR)
            continue;
        if (n == -ETIMEDOUT) {
            error_set(err, CAY_TIMEOUT, "the request did not come within %d s", HEAD_MS / 1000);
            return error_remedy(err, "send it at once");
        }
        if (n <= 0)
            return 0;
    }
}

/* What was refused is answered in a page of text; programs often show the first line only, so the
 * reason is there too. */
void talk_refuse(int client, const struct cay_error *err) {
    char line[256];
    _cleanup_(buf_free) struct buf out = BUF_INIT(8192), body = BUF_INIT(4096);
    int status = err->code == CAY_INVALID_ARGUMENT ? 400
                 : err->code == CAY_FORBIDDEN      ? 403
                 : err->code == CAY_LIMIT_REACHED  ? 503
                 : err->code == CAY_TIMEOUT        ? 504
                                                   : 502;
    (void)buf_printf(&body, "cay: %s\n%s\n", err->message, err->remedy);
    (void)buf_printf(&out,
                     "HTTP/1.1 %d cay: %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                     "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                     status, str_escape(line, sizeof line, err->message), body.len);
    (void)buf_append(&out, buf_text(&body), body.len);
    if (!out.failed && !body.failed) /* gone already: nobody wants to know */
        (void)!send(client, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(client, SHUT_WR);
}

/* Closing a socket with unread bytes resets it, and the answer would be lost. */
static void await_end(int client) {
    char ignored[CHUNK];
    int64_t deadline = clock_deadline(LAST_MS);
    struct pollfd p = {.fd = client, .events = POLLIN};
    while (poll(&p, 1, clock_poll_timeout(deadline)) > 0)
        if (recv(client, ignored, sizeof ignored, 0) <= 0)
            return;
}

/* The client learns that it is through, or the server what it is asked for; then what the client
 * sent behind its head. */
static int begin_stream(int client, int upstream, const struct buf *in,
                        const struct proxy_request *r) {
    static const char through[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    _cleanup_(buf_free) struct buf head = BUF_INIT((size_t)2 * PROXY_HEAD_MAX);
    int e;
    if (r->is_tunnel)
        e = fd_write_all(client, through, sizeof through - 1);
    else
        e = proxy_request_rewrite(in->data, r, &head) < 0
                ? -EMSGSIZE
                : fd_write_all(upstream, head.data, head.len);
    return e < 0 ? e : fd_write_all(upstream, in->data + r->head_len, in->len - r->head_len);
}

/* The connected socket, 0 if the client left before it asked, or an error. */
static int begin(int client, const struct network *n, struct talk_outcome *ret,
                 struct cay_error *err) {
    _cleanup_(buf_free) struct buf in = BUF_INIT(PROXY_HEAD_MAX + CHUNK);
    struct proxy_request request;
    int r = read_head(client, &in, &request, err);
    if (r <= 0)
        return r;
    memcpy(ret->host, request.host, sizeof ret->host);
    ret->port = request.port;
    _cleanup_(closep) int upstream = reach_connect(n, request.host, request.port, err);
    if (upstream < 0)
        return upstream;
    r = begin_stream(client, upstream, &in, &request);
    return r < 0 ? error_sys(err, -r, "talking to %s", request.host) : TAKE_FD(upstream);
}

void talk_begin(int client, const struct network *n, int *ret_upstream, struct talk_outcome *ret,
                struct cay_error *err) {
    *err = (struct cay_error){0};
    *ret = (struct talk_outcome){0};
    *ret_upstream = -1;
    int r = begin(client, n, ret, err);
    ret->code = err->code;
    ret->why = err->message;
    if (r > 0)
        *ret_upstream = r;
    if (r < 0) {
        talk_refuse(client, err);
        await_end(client);
    }
}
