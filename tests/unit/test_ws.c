/* Tests of WebSocket connections, against clients that write frames byte by byte. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/http/ws.h"
#include "base/auto.h"
#include "base/clock.h"

enum { SOON_MS = 30000, MAX_LEN = 1000 };

struct pair {
    int client, server;
    struct ws *ws;
};

static int setup(void **state) {
    static struct pair p;
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return -1;
    p = (struct pair){fds[0], fds[1], NULL};
    *state = &p;
    return ws_new(fds[1], NULL, 0, MAX_LEN, &p.ws);
}

static int teardown(void **state) {
    struct pair *p = *state;
    ws_free(p->ws);
    close(p->server);
    return p->client < 0 ? 0 : close(p->client);
}

/* A masked frame of less than 126 bytes. */
static void put(struct pair *p, unsigned char first, const char *text) {
    unsigned char frame[6 + 125];
    size_t len = strlen(text);
    assert_true(len <= 125);
    frame[0] = first;
    frame[1] = (unsigned char)(0x80 | len);
    memcpy(frame + 2, "mask", 4);
    for (size_t i = 0; i < len; i++)
        frame[6 + i] = (unsigned char)(text[i] ^ "mask"[i % 4]);
    assert_int_equal(write(p->client, frame, 6 + len), 6 + len);
}

static void expect(struct pair *p, const void *bytes, size_t len) {
    unsigned char got[256];
    assert_true(len <= sizeof got);
    assert_int_equal(recv(p->client, got, len, MSG_WAITALL), len);
    assert_memory_equal(got, bytes, len);
}

static void expect_message(struct pair *p, enum ws_kind kind, const char *text) {
    struct ws_message m;
    assert_int_equal(ws_wait(p->ws, -1, clock_deadline(SOON_MS), &m), WS_MESSAGE);
    assert_int_equal(m.kind, kind);
    assert_int_equal(m.len, strlen(text));
    assert_string_equal(m.data, text);
}

static void accept_keys(void **state) {
    (void)state;
    char out[WS_ACCEPT_SIZE];
    assert_int_equal(ws_accept("dGhlIHNhbXBsZSBub25jZQ==", out), 0);
    assert_string_equal(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    static const char *const bad[] = {"", "dGhlIHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub25jZQ===",
                                      "dGhlIHNhbXBsZSBub25jZ!==", "dGhlIHNhbXBsZSBub25jZTEx"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(ws_accept(bad[i], out), -EINVAL);
}

static void messages(void **state) {
    struct pair *p = *state;
    put(p, 0x81, "one"); /* three in one read, the last in pieces with a ping between */
    put(p, 0x82, "two");
    put(p, 0x01, "th");
    put(p, 0x89, "?");
    put(p, 0x80, "ree");
    expect_message(p, WS_TEXT, "one");
    expect_message(p, WS_BINARY, "two");
    expect_message(p, WS_TEXT, "three");
    assert_int_equal(ws_send(p->ws, WS_TEXT, "hi", 2, clock_deadline(SOON_MS)), 0);
    expect(p, "\x8a\x01?\x81\x02hi", 7); /* the pong went out too */
}

static void early_bytes(void **state) {
    struct pair *p = *state;
    static const unsigned char frame[] = {0x81, 0x82, 0, 0, 0, 0, 'o', 'k'};
    ws_free(p->ws);
    assert_int_equal(ws_new(p->server, (const char *)frame, 5, MAX_LEN, &p->ws), 0);
    assert_int_equal(write(p->client, frame + 5, 3), 3);
    expect_message(p, WS_TEXT, "ok");
}

static void other_descriptor(void **state) {
    struct pair *p = *state;
    struct ws_message m;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(ws_wait(p->ws, fds[0], clock_deadline(10), &m), -ETIMEDOUT);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(ws_wait(p->ws, fds[0], clock_deadline(SOON_MS), &m), WS_OTHER);
    put(p, 0x81, "both"); /* a message goes first, and the other is not forgotten */
    assert_int_equal(ws_wait(p->ws, fds[0], clock_deadline(SOON_MS), &m), WS_MESSAGE);
    assert_int_equal(ws_wait(p->ws, fds[0], clock_deadline(SOON_MS), &m), WS_OTHER);
    close(fds[0]);
    close(fds[1]);
}

/* What a client that does not read costs is time, up to the deadline. */
static void slow_client(void **state) {
    struct pair *p = *state;
    static char much[1 << 20];
    int r = 0;
    for (int i = 0; i < 100 && r == 0; i++)
        r = ws_send(p->ws, WS_BINARY, much, sizeof much, clock_deadline(50));
    assert_int_equal(r, -ETIMEDOUT);
}

static void expect_end(struct pair *p, unsigned code) {
    struct ws_message m;
    assert_int_equal(ws_wait(p->ws, -1, clock_deadline(SOON_MS), &m), WS_CLOSED);
    unsigned char head[4];
    assert_int_equal(recv(p->client, head, sizeof head, MSG_WAITALL), sizeof head);
    assert_int_equal(head[0], 0x88);
    assert_int_equal(head[2] << 8 | head[3], code);
    assert_int_equal(ws_send(p->ws, WS_TEXT, "x", 1, clock_deadline(SOON_MS)), -EPIPE);
}

static void client_closes(void **state) {
    put(*state, 0x88,
        "\x03\xe8"
        "bye");
    expect_end(*state, 1000);
}

static void bad_utf8(void **state) {
    put(*state, 0x81, "\xff\xfe");
    expect_end(*state, 1007);
}

static void too_long(void **state) {
    struct pair *p = *state;
    static const unsigned char head[] = {0x82, 0xfe, 0x7f, 0xff, 0, 0, 0, 0, 'x'};
    assert_int_equal(write(p->client, head, sizeof head), sizeof head);
    expect_end(p, 1009);
}

static void not_masked(void **state) {
    struct pair *p = *state;
    assert_int_equal(write(p->client, "\x81\x01x", 3), 3);
    expect_end(p, 1002);
}

static void client_vanishes(void **state) {
    struct pair *p = *state;
    struct ws_message m;
    put(p, 0x81, "last words");
    close(p->client);
    p->client = -1;
    assert_int_equal(ws_wait(p->ws, -1, clock_deadline(SOON_MS), &m), WS_MESSAGE);
    assert_int_equal(ws_wait(p->ws, -1, clock_deadline(SOON_MS), &m), WS_CLOSED);
}

static void we_close(void **state) {
    struct pair *p = *state;
    put(p, 0x81, "ignored");
    put(p, 0x88, "\x03\xf3");
    ws_close(p->ws, 1011, "{\"exitCode\":3}");
    expect(p, "\x88\x10\x03\xf3{\"exitCode\":3}", 18);
}

/* Both sides are ours: what one masks, the other reads. */
static void client_side(void **state) {
    struct pair *p = *state;
    struct ws *client = NULL;
    struct ws_message m;
    assert_int_equal(ws_new_client(p->client, MAX_LEN, &client), 0);
    assert_int_equal(ws_send(client, WS_BINARY, "to the server", 13, clock_deadline(SOON_MS)), 0);
    expect_message(p, WS_BINARY, "to the server");
    assert_int_equal(ws_send(p->ws, WS_TEXT, "and back", 8, clock_deadline(SOON_MS)), 0);
    assert_int_equal(ws_wait(client, -1, clock_deadline(SOON_MS), &m), WS_MESSAGE);
    assert_string_equal(m.data, "and back");
    /* a server that masks breaks the protocol */
    static const unsigned char masked[] = {0x81, 0x81, 0, 0, 0, 0, 'x'};
    assert_int_equal(write(p->server, masked, sizeof masked), sizeof masked);
    assert_int_not_equal(ws_wait(client, -1, clock_deadline(SOON_MS), &m), WS_MESSAGE);
    ws_free(client);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accept_keys),
        CASE(messages),
        CASE(early_bytes),
        CASE(other_descriptor),
        CASE(slow_client),
        CASE(client_closes),
        CASE(bad_utf8),
        CASE(too_long),
        CASE(not_masked),
        CASE(client_vanishes),
        CASE(we_close),
        CASE(client_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
