/* What the fuzz targets of whole requests share: a manager over an engine that only pretends, a
 * sandbox whose side of each connection the input has. Each program includes it once. Of a request
 *
 *     after each 0xfd is what the sandbox says on the next connection: type, length, payload of
 *     frames after 'F', anything after 'R'
 *
 * and 0xfc is between requests. */
#pragma once

#include "../unit/manager_env.h"

#include <cay.h>

#include "api/build/builds.h"
#include "api/build/contexts.h"
#include "api/call.h"
#include "api/http/ws.h"
#include "api/images.h"
#include "api/preview/preview.h"
#include "api/shape/daytona_version.h"
#include "api/toolbox/outputs.h"
#include "base/json/json.h"
#include "wire/wire.h"

enum { HEADERS_MAX = 16, PEERS_MAX = 32, STREAM_MAX = 1 << 20 };

static const char request_end = (char)0xfc, answer_begin = (char)0xfd;

static struct {
    struct world *world;
    const struct image_ops *images;
    struct builds *builds;
    struct contexts *contexts;
    struct outputs *outputs;
    struct key caller;
    void (*connects)(const char *id); /* called before a sandbox is connected to, if not NULL */
    const char *name[HEADERS_MAX], *value[HEADERS_MAX];
    size_t headers;
    char *answers; /* of the sandbox */
    size_t answers_len;
    int peers[PEERS_MAX]; /* its ends of connections */
    size_t peer_count;
} stage;

static void require(bool ok) {
    if (!ok)
        abort();
}

/* ---- what libcay would, which holds a cay-init ---- */

const char *cay_version(void) {
    return "0";
}

void cay_result_free(struct cay_result *result) {
    free(result->out);
    free(result->err);
    *result = (struct cay_result){0};
}

/* ---- what http.c would say of a request ---- */

const char *call_header(const struct call *c, const char *name) {
    (void)c;
    for (size_t i = 0; i < stage.headers; i++)
        if (strcasecmp(stage.name[i], name) == 0)
            return stage.value[i];
    /* so that inputs get to what speaks WebSocket */
    if (strcasecmp(name, "Sec-WebSocket-Version") == 0)
        return "13";
    return strcasecmp(name, "Sec-WebSocket-Key") == 0 ? "dGhlIHNhbXBsZSBub25jZQ==" : NULL;
}

void call_each_header(const struct call *c, call_header_fn fn, void *user) {
    (void)c;
    for (size_t i = 0; i < stage.headers; i++)
        fn(user, stage.name[i], stage.value[i]);
}

int call_socket(const struct call *c) {
    (void)c;
    return -1;
}

void call_load(const struct call *c, struct call_load *ret) {
    (void)c;
    *ret = (struct call_load){.requests = 1};
}

bool call_identify(const struct call *c, const char *text, struct key *ret) {
    (void)c;
    *ret = stage.caller;
    return str_equal(text, "key");
}

int call_claim(const struct call *c, const struct key *k, struct cay_error *err) {
    (void)c, (void)k, (void)err;
    return 0;
}

void call_forget_key(struct call *c) {
    (void)c;
}

/* ---- a sandbox that says what the input has ---- */

static void put_frames(int fd, const char *data, size_t len) {
    while (len >= 2) {
        size_t payload = MIN((size_t)(unsigned char)data[1], len - 2);
        const unsigned char head[WIRE_HEADER_SIZE] = {(unsigned char)payload, 0, 0, 0,
                                                      (unsigned char)data[0]};
        (void)send(fd, head, sizeof head, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)send(fd, data + 2, payload, MSG_DONTWAIT | MSG_NOSIGNAL);
        data += 2 + payload;
        len -= 2 + payload;
    }
}

/* The next answer; the last one again if there are no more. */
static void put_answer(int fd) {
    if (stage.answers_len == 0)
        return;
    const char *end = memchr(stage.answers + 1, answer_begin, stage.answers_len - 1);
    size_t len = end == NULL ? stage.answers_len : (size_t)(end - stage.answers);
    if (len > 2 && stage.answers[1] == 'F')
        put_frames(fd, stage.answers + 2, len - 2);
    else if (len > 2)
        (void)send(fd, stage.answers + 2, len - 2, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (end != NULL) {
        stage.answers += len;
        stage.answers_len -= len;
    }
}

int __wrap_socket_connect(const char *id, int64_t timeout_ms, struct cay_error *err);
int __wrap_socket_connect(const char *id, int64_t timeout_ms, struct cay_error *err) {
    (void)timeout_ms;
    int pair[2];
    if (stage.connects != NULL)
        stage.connects(id);
    if (stage.peer_count == PEERS_MAX)
        return error_set(err, CAY_UNAVAILABLE, "too many connections");
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    put_answer(pair[1]);
    (void)shutdown(pair[1], SHUT_WR);
    stage.peers[stage.peer_count++] = pair[1];
    return pair[0];
}

static void close_peers(void) {
    while (stage.peer_count > 0)
        fd_close(&stage.peers[--stage.peer_count]);
}
