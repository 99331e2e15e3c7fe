/* Tests of what passes bytes between a TLS session and a plain socket: neither direction waits for
 * the other, and every way to end is told. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <gnutls/gnutls.h>

#include "api/http/tls_pump.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"

enum { MUCH = 4 * 1024 * 1024, TEST_SECONDS = 60 };

/* A client over TLS, the pump, and an application behind it. */
struct line {
    gnutls_session_t client, server;
    gnutls_anon_client_credentials_t client_key;
    gnutls_anon_server_credentials_t server_key;
    int tls[2], plain[2]; /* [0] is the client's, and the application's */
    pthread_t thread;
    int result;
};

static void *shake(void *arg) {
    int r;
    do
        r = gnutls_handshake(arg);
    while (r < 0 && !gnutls_error_is_fatal(r));
    return r == 0 ? arg : NULL;
}

static void *run_pump(void *arg) {
    struct line *l = arg;
    l->result = tls_pump(l->server, l->tls[1], l->plain[1]);
    fd_close(&l->plain[1]);
    return NULL;
}

static gnutls_session_t new_session(unsigned flags, int fd, gnutls_credentials_type_t type,
                                    void *key) {
    gnutls_session_t s;
    assert_int_equal(gnutls_init(&s, flags), 0);
    assert_int_equal(
        gnutls_priority_set_direct(s, "NORMAL:-VERS-ALL:+VERS-TLS1.2:+ANON-ECDH", NULL), 0);
    assert_int_equal(gnutls_credentials_set(s, type, key), 0);
    gnutls_transport_set_int(s, fd);
    return s;
}

static int setup(void **state) {
    struct line *l = calloc(1, sizeof *l);
    void *done = NULL;
    assert_non_null(l);
    (void)alarm(TEST_SECONDS);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, l->tls), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, l->plain), 0);
    assert_int_equal(gnutls_anon_allocate_client_credentials(&l->client_key), 0);
    assert_int_equal(gnutls_anon_allocate_server_credentials(&l->server_key), 0);
    l->client = new_session(GNUTLS_CLIENT, l->tls[0], GNUTLS_CRD_ANON, l->client_key);
    l->server = new_session(GNUTLS_SERVER, l->tls[1], GNUTLS_CRD_ANON, l->server_key);
    assert_int_equal(pthread_create(&l->thread, NULL, shake, l->client), 0);
    assert_non_null(shake(l->server));
    assert_int_equal(pthread_join(l->thread, &done), 0);
    assert_non_null(done);
    assert_int_equal(fd_set_nonblocking(l->tls[1], true), 0);
    assert_int_equal(pthread_create(&l->thread, NULL, run_pump, l), 0);
    *state = l;
    return 0;
}

static int teardown(void **state) {
    struct line *l = *state;
    gnutls_deinit(l->client);
    gnutls_deinit(l->server);
    gnutls_anon_free_client_credentials(l->client_key);
    gnutls_anon_free_server_credentials(l->server_key);
    for (int i = 0; i < 2; i++) {
        fd_close(&l->tls[i]);
        fd_close(&l->plain[i]);
    }
    free(l);
    return 0;
}

/* How the pump ended. */
static int end_of(struct line *l) {
    assert_int_equal(pthread_join(l->thread, NULL), 0);
    return l->result;
}

static void say(struct line *l, const char *data, size_t len) {
    while (len > 0) {
        ssize_t n = gnutls_record_send(l->client, data, len);
        assert_true(n > 0);
        data += n;
        len -= (size_t)n;
    }
}

static size_t hear(struct line *l, char *data, size_t len) {
    size_t at = 0;
    ssize_t n;
    while (at < len && (n = gnutls_record_recv(l->client, data + at, len - at)) > 0)
        at += (size_t)n;
    return at;
}

static char *pattern(unsigned first) {
    char *data = malloc(MUCH);
    assert_non_null(data);
    for (size_t i = 0; i < MUCH; i++)
        data[i] = (char)(first + i + i / 251);
    return data;
}

/* ---- what an application does ---- */

struct work {
    int fd;
    char *data;
    size_t done;
};

static void *write_much(void *arg) {
    struct work *w = arg;
    if (fd_write_all(w->fd, w->data, MUCH) == 0)
        w->done = MUCH;
    return NULL;
}

static void *read_much(void *arg) {
    struct work *w = arg;
    ssize_t n;
    while (w->done < MUCH && (n = read(w->fd, w->data + w->done, MUCH - w->done)) > 0)
        w->done += (size_t)n;
    return NULL;
}

/* The client reads only when all that it has to say was taken. */
static void both_ways_at_once(void **state) {
    struct line *l = *state;
    pthread_t threads[2];
    _cleanup_(freep) char *up = pattern(1), *down = pattern(7), *heard = malloc(MUCH),
                          *got = calloc(1, MUCH);
    struct work writer = {l->plain[0], down, 0}, reader = {l->plain[0], got, 0};
    assert_non_null(heard);
    assert_non_null(got);
    assert_int_equal(pthread_create(&threads[0], NULL, write_much, &writer), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, read_much, &reader), 0);
    say(l, up, MUCH);
    assert_int_equal(pthread_join(threads[1], NULL), 0);
    assert_int_equal(reader.done, MUCH);
    assert_memory_equal(got, up, MUCH);
    assert_int_equal(hear(l, heard, MUCH), MUCH);
    assert_memory_equal(heard, down, MUCH);
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    fd_close(&l->plain[0]);
    assert_int_equal(end_of(l), 0);
}

/* What was said before the end is heard, however slow the client is. */
static void the_application_ends(void **state) {
    struct line *l = *state;
    _cleanup_(freep) char *down = pattern(3), *heard = malloc(MUCH);
    pthread_t thread;
    struct work writer = {l->plain[0], down, 0};
    assert_non_null(heard);
    assert_int_equal(pthread_create(&thread, NULL, write_much, &writer), 0);
    assert_int_equal(hear(l, heard, MUCH / 2), MUCH / 2);
    assert_int_equal(hear(l, heard + MUCH / 2, MUCH / 2 - 100), MUCH / 2 - 100);
    assert_int_equal(pthread_join(thread, NULL), 0);
    fd_close(&l->plain[0]);
    assert_int_equal(hear(l, heard + MUCH - 100, 100), 100);
    assert_memory_equal(heard, down, MUCH);
    assert_int_equal(end_of(l), 0);
}

/* The application gets these, and the end. */
static void check_last_words(const struct line *l) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(64);
    assert_int_equal(fd_read_to_end(l->plain[0], &b), 0);
    assert_string_equal(buf_text(&b), "last");
}

static void the_client_says_no_more(void **state) {
    struct line *l = *state;
    char data[16];
    say(l, "last", 4);
    assert_int_equal(gnutls_bye(l->client, GNUTLS_SHUT_WR), 0);
    check_last_words(l);
    assert_int_equal(fd_write_all(l->plain[0], "answer", 6), 0); /* he still hears */
    assert_int_equal(hear(l, data, 6), 6);
    assert_memory_equal(data, "answer", 6);
    fd_close(&l->plain[0]);
    assert_int_equal(end_of(l), 0);
}

static void the_client_is_gone(void **state) {
    struct line *l = *state;
    say(l, "last", 4);
    fd_close(&l->tls[0]);
    check_last_words(l);
    assert_int_equal(end_of(l), -ECONNRESET);
    assert_true(fd_write_all(l->plain[0], "x", 1) < 0);
}

/* Somebody cuts it from this side, as it happens when a key is removed. */
static void it_is_cut(void **state) {
    struct line *l = *state;
    assert_int_equal(shutdown(l->plain[0], SHUT_RDWR), 0);
    assert_int_equal(end_of(l), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(both_ways_at_once),
        CASE(the_application_ends),
        CASE(the_client_says_no_more),
        CASE(the_client_is_gone),
        CASE(it_is_cut),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
