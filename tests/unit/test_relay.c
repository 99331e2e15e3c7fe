#include "base/relay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/fd.h"

/* A relay between two socket pairs; the test holds the outer ends. */
struct bench {
    int client, server;
    int inner[2];
    const char *early;
    size_t early_len;
    int result;
    int64_t first_us;
    pthread_t thread;
};

static void *relay(void *user) {
    struct bench *b = user;
    b->result = relay_run(b->inner[0], b->inner[1], b->early, b->early_len, NULL, &b->first_us);
    (void)close(b->inner[0]);
    (void)close(b->inner[1]);
    return NULL;
}

static void begin(struct bench *b) {
    int a[2], c[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, a), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, c), 0);
    b->client = a[0];
    b->inner[0] = a[1];
    b->inner[1] = c[1];
    b->server = c[0];
    assert_int_equal(pthread_create(&b->thread, NULL, relay, b), 0);
}

static void end(struct bench *b) {
    fd_close(&b->client);
    fd_close(&b->server);
    assert_int_equal(pthread_join(b->thread, NULL), 0);
}

static void test_both_ways(void **state) {
    (void)state;
    struct bench b = {.early = "early ", .early_len = 6};
    char text[32] = {0};
    begin(&b);
    assert_int_equal(fd_write_all(b.client, "bird", 4), 0);
    assert_int_equal(fd_read_all(b.server, text, 10), 1);
    assert_string_equal(text, "early bird");
    assert_int_equal(fd_write_all(b.server, "worm", 4), 0);
    memset(text, 0, sizeof text);
    assert_int_equal(fd_read_all(b.client, text, 4), 1);
    assert_string_equal(text, "worm");
    end(&b);
}

static void test_half_close(void **state) {
    (void)state;
    struct bench b = {0};
    char c;
    begin(&b);
    assert_int_equal(fd_write_all(b.client, "x", 1), 0);
    assert_int_equal(shutdown(b.client, SHUT_WR), 0);
    assert_int_equal(fd_read_all(b.server, &c, 1), 1);
    assert_int_equal(fd_read_all(b.server, &c, 1), 0); /* the end was passed on */
    assert_int_equal(fd_write_all(b.server, "y", 1), 0);
    assert_int_equal(fd_read_all(b.client, &c, 1), 1); /* the other way goes on */
    assert_int_equal(c, 'y');
    assert_int_equal(shutdown(b.server, SHUT_WR), 0);
    assert_int_equal(fd_read_all(b.client, &c, 1), 0);
    assert_int_equal(pthread_join(b.thread, NULL),
                     0); /* both ways have ended: no close is needed */
    assert_int_equal(b.result, 0);
    fd_close(&b.client);
    fd_close(&b.server);
}

static void test_either_side_goes(void **state) {
    (void)state;
    char c;
    for (int side = 0; side < 2; side++) {
        struct bench b = {0};
        begin(&b);
        fd_close(side == 0 ? &b.client : &b.server);
        assert_int_equal(fd_read_all(side == 0 ? b.server : b.client, &c, 1), 0);
        assert_int_equal(pthread_join(b.thread, NULL), 0);
        fd_close(&b.client);
        fd_close(&b.server);
    }
}

/* What was sent before the client left is delivered whole, also to a slow reader. */
static void test_last_words(void **state) {
    (void)state;
    enum { SIZE = 100 * 1000 };
    static char sent[SIZE], got[SIZE];
    struct bench b = {0};
    for (size_t i = 0; i < SIZE; i++)
        sent[i] = (char)(i * 7 % 251);
    begin(&b);
    assert_int_equal(fd_write_all(b.client, sent, SIZE), 0);
    fd_close(&b.client);
    (void)usleep(50 * 1000);
    assert_int_equal(fd_read_all(b.server, got, SIZE), 1);
    assert_memory_equal(sent, got, SIZE);
    end(&b);
}

/* A server that answers and leaves without reading all that the client sent has answered. */
static void test_last_words_of_who_reads_nothing(void **state) {
    (void)state;
    enum { SIZE = 100 * 1000 };
    static char sent[SIZE], got[SIZE];
    for (int i = 0; i < 200; i++) {
        struct bench b = {0};
        begin(&b);
        memset(sent, i, SIZE);
        assert_int_equal(fd_write_all(b.client, "request", 7), 0);
        assert_int_equal(fd_write_all(b.server, sent, SIZE), 0);
        assert_int_equal(fd_write_all(b.client, "more", 4), 0);
        fd_close(&b.server);
        (void)send(b.client, "end", 3, MSG_NOSIGNAL); /* the relay may have left already */
        assert_int_equal(fd_read_all(b.client, got, SIZE), 1);
        assert_memory_equal(sent, got, SIZE);
        end(&b);
    }
}

static void *write_much(void *fd) {
    static char zero[1 << 20];
    for (int i = 0; i < 32; i++)
        (void)fd_write_all(*(int *)fd, zero, sizeof zero);
    (void)shutdown(*(int *)fd, SHUT_WR);
    return NULL;
}

/* Both sides write more than fits before either reads. */
static void test_much_both_ways(void **state) {
    (void)state;
    struct bench b = {0};
    pthread_t writers[2];
    static char chunk[1 << 16];
    begin(&b);
    assert_int_equal(pthread_create(&writers[0], NULL, write_much, &b.client), 0);
    assert_int_equal(pthread_create(&writers[1], NULL, write_much, &b.server), 0);
    int fds[2] = {b.client, b.server};
    for (size_t i = 0; i < 2; i++) {
        size_t total = 0;
        for (ssize_t n; (n = read(fds[i], chunk, sizeof chunk)) > 0;)
            total += (size_t)n;
        assert_int_equal(total, 32 << 20);
    }
    assert_int_equal(pthread_join(writers[0], NULL), 0);
    assert_int_equal(pthread_join(writers[1], NULL), 0);
    end(&b);
}

/* Bytes keep it alive, silence ends it. */
static void test_idle(void **state) {
    (void)state;
    int a[2], b[2];
    char byte;
    int64_t ignored;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, a), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, b), 0);
    assert_int_equal(fd_write_all(a[0], "x", 1), 0);
    assert_int_equal(relay_run_idle(a[1], b[1], 50, &ignored), -ETIMEDOUT);
    assert_int_equal(read(b[0], &byte, 1), 1);
    for (size_t i = 0; i < 2; i++) {
        fd_close(&a[i]);
        fd_close(&b[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_half_close),
        cmocka_unit_test(test_either_side_goes),
        cmocka_unit_test(test_last_words),
        cmocka_unit_test(test_much_both_ways),
        cmocka_unit_test(test_last_words_of_who_reads_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
