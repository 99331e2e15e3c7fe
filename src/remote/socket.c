#include "remote/socket.h"

#include <errno.h>
#include <nettle/base64.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/error.h"
#include "base/id.h"
#include "base/str.h"
#include "client/http.h"
#include "remote/stream.h"

enum { MESSAGE_MAX = 16 * 1024 * 1024, HANDSHAKE_SECONDS = 30, SAID_MAX = 64 * 1024 };

static int take_said(void *arg, const char *data, size_t len, struct cay_error *err) {
    return buf_append(arg, data, len) < 0 ? error_sys(err, ENOBUFS, "reading an answer") : 0;
}

/* A refusal says why; an agreement shows that it was meant. */
static int take_answer(const struct toolbox *t, int fd, const char *key, struct cay_error *err) {
    _cleanup_(http_head_free) struct http_head head = {0};
    _cleanup_(buf_free) struct buf said = BUF_INIT(SAID_MAX);
    char accept[WS_ACCEPT_SIZE];
    int r = http_receive_head(fd, &head, err);
    if (r < 0)
        return r;
    if (head.status != 101) {
        (void)http_receive_body(fd, &head, said.max, take_said, &said, NULL);
        return rest_refusal(t->world, head.status, &said, err);
    }
    const char *answer = http_head_get(&head, "sec-websocket-accept", NULL);
    if (answer != NULL && ws_accept(key, accept) == 0 && strcmp(answer, accept) == 0)
        return 0;
    return error_set(err, CAY_UNAVAILABLE, "%s answered against the protocol", t->world->host);
}

static int handshake(const struct toolbox *t, int fd, const char *path, const char *protocols,
                     struct cay_error *err) {
    uint8_t random[16];
    char key[BASE64_ENCODE_RAW_LENGTH(sizeof random) + 1] = "", key_line[64], offer[512], at[2048];
    struct http_address a;
    int r = http_address_parse(t->url, &a, err);
    if (r < 0)
        return r;
    r = id_random(random, sizeof random);
    if (r < 0)
        return error_sys(err, -r, "getting random bytes");
    base64_encode_raw(key, sizeof random, random);
    (void)snprintf(key_line, sizeof key_line, "Sec-WebSocket-Key: %s", key);
    if (str_format(offer, sizeof offer, "Sec-WebSocket-Protocol: %s", protocols) < 0 ||
        str_format(at, sizeof at, "%s/%s%s", a.is_api ? "/api" : "", t->id, path) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the name is too long");
    const char *const headers[] = {"Connection: Upgrade",
                                   "Upgrade: websocket",
                                   "Sec-WebSocket-Version: 13",
                                   key_line,
                                   offer,
                                   NULL};
    const struct http_request req = {
        .method = "GET", .path = at, .key = t->world->order.key, .headers = headers};
    r = http_send(fd, &a, &req, err);
    return r < 0 ? r : take_answer(t, fd, key, err);
}

int socket_open(const struct toolbox *t, const char *path, const char *protocols,
                struct socket *ret, struct cay_error *err) {
    const struct timeval patience = {.tv_sec = HANDSHAKE_SECONDS};
    struct stream stream;
    *ret = SOCKET_INIT;
    int r = stream_open(t->world, t->url, &stream, err);
    if (r < 0)
        return r;
    ret->fd = stream_to_fd(&stream, err);
    if (ret->fd < 0)
        return ret->fd;
    (void)setsockopt(ret->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    r = handshake(t, ret->fd, path, protocols, err);
    if (r == 0 && ws_new_client(ret->fd, MESSAGE_MAX, &ret->ws) < 0)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (r < 0)
        socket_close(ret);
    return r;
}

void socket_close(struct socket *s) {
    ws_free(s->ws);
    fd_close(&s->fd);
    s->ws = NULL;
}
