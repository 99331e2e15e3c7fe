/* The host's side of terminals against a sandbox that lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "wire/client_terminal.h"
#include "wire_peer.h"

static struct cay_error err;

/* ---- requests ---- */

static void create_request(void **state) {
    (void)state;
    static const char *const argv[] = {"top", "-d1", NULL}, *const env[] = {"A=1", NULL};
    _cleanup_(peer_close) struct peer p = peer_open();
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    const struct wire_terminal_create create = {.argv = argv, .env = env, .rows = 3, .cols = 4};
    struct wire_message m;
    assert_int_equal(wire_send(p.fd, WIRE_DONE, NULL), 0);
    assert_int_equal(wire_terminal_create(&p.call, "t", &create, &err), 0);
    peer_take(&p, &r, &m);
    assert_int_equal(m.number[WIRE_TAG_OP], WIRE_OP_TERMINAL_CREATE);
    assert_string_equal(m.string[WIRE_TAG_NAME], "t");
    assert_int_equal(m.count[WIRE_TAG_ARG], 2);
    assert_int_equal(m.number[WIRE_TAG_ROWS], 3);
    assert_int_equal(m.number[WIRE_TAG_COLS], 4);
}

static void attach_reads_no_byte_too_many(void **state) {
    (void)state;
    _cleanup_(peer_close) struct peer p = peer_open();
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    const struct wire_terminal_attach attach = {.read_only = true, .only_running = true};
    struct wire_message m;
    char rest[WIRE_HEADER_SIZE + 5];
    assert_int_equal(wire_send(p.fd, WIRE_STARTED, NULL), 0);
    assert_int_equal(wire_send_data(p.fd, WIRE_STDOUT, "hello", 5), 0);
    assert_int_equal(wire_terminal_attach(&p.call, "t", &attach, &err), 0);
    assert_int_equal(fd_read_all(p.call.fd, rest, sizeof rest), 1);
    assert_memory_equal(rest + WIRE_HEADER_SIZE, "hello", 5);
    peer_take(&p, &r, &m);
    assert_int_equal(m.number[WIRE_TAG_STDIN], 0);
    assert_int_equal(m.number[WIRE_TAG_RUNNING], 1);
}

/* ---- lists ---- */

static void send_entry(const struct peer *p, const char *name, uint64_t exit, uint64_t rows) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    wire_put_string(&b, WIRE_TAG_NAME, name);
    wire_put_string(&b, WIRE_TAG_TEXT, "x\x1b[2J");
    wire_put_number(&b, WIRE_TAG_EXIT, exit);
    wire_put_number(&b, WIRE_TAG_ROWS, rows);
    assert_int_equal(wire_send(p->fd, WIRE_ENTRY, &b), 0);
}

static int count(void *arg, const struct wire_terminal *t, struct cay_error *e) {
    (void)t, (void)e;
    ++*(unsigned *)arg;
    return 0;
}

static void list_takes_good_entries_only(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t exit, rows;
        int result;
    } cases[] = {
        {"good-1", 255, 1000, 0},         {"", 0, 24, -CAY_INTERNAL},
        {"a/b", 0, 24, -CAY_INTERNAL},    {"a\nb", 0, 24, -CAY_INTERNAL},
        {"good", 256, 24, -CAY_INTERNAL}, {"good", 0, 1001, -CAY_INTERNAL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(peer_close) struct peer p = peer_open();
        unsigned n = 0;
        send_entry(&p, cases[i].name, cases[i].exit, cases[i].rows);
        assert_int_equal(wire_send(p.fd, WIRE_DONE, NULL), 0);
        assert_int_equal(wire_terminal_list(&p.call, count, &n, &err), cases[i].result);
        assert_int_equal(n, cases[i].result == 0);
    }
}

static void list_is_bounded(void **state) {
    (void)state;
    _cleanup_(peer_close) struct peer p = peer_open();
    unsigned n = 0;
    for (int i = 0; i <= WIRE_TERMINALS_MAX; i++)
        send_entry(&p, "t", 0, 24);
    assert_int_equal(wire_terminal_list(&p.call, count, &n, &err), -CAY_INTERNAL);
    assert_int_equal(n, WIRE_TERMINALS_MAX);
}

/* ---- events ---- */

static int next(enum wire_type type, const struct buf *b, struct wire_terminal_event *e) {
    _cleanup_(peer_close) struct peer p = peer_open();
    static struct wire_reader r;
    wire_reader_free(&r);
    r = WIRE_READER_INIT;
    assert_int_equal(wire_send(p.fd, type, b), 0);
    assert_true(wire_reader_fill(&r, p.call.fd) > 0);
    int result = wire_terminal_next(&r, e, &err);
    wire_reader_free(&r);
    return result;
}

static void events(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    struct wire_terminal_event e;
    wire_put_number(&b, WIRE_TAG_SIZE, 77);
    assert_int_equal(next(WIRE_ENTRY, &b, &e), 1);
    assert_true(e.kind == WIRE_TERMINAL_SKIPPED && e.count == 77);
    buf_clear(&b);
    wire_put_number(&b, WIRE_TAG_COUNT, UINT64_MAX);
    assert_int_equal(next(WIRE_CREDIT, &b, &e), 1);
    assert_true(e.kind == WIRE_TERMINAL_CREDITS && e.count == WIRE_TERMINAL_CREDIT);
    buf_clear(&b);
    wire_put_number(&b, WIRE_TAG_EXIT, 137);
    wire_put_number(&b, WIRE_TAG_SIGNAL, 9);
    assert_int_equal(next(WIRE_DONE, &b, &e), 1);
    assert_true(e.kind == WIRE_TERMINAL_ENDED && e.exit_code == 137 && e.signal == 9);
    assert_int_equal(next(WIRE_STDOUT, &b, &e), 1);
    assert_true(e.kind == WIRE_TERMINAL_OUTPUT && e.len == b.len);
}

static void lies(void **state) {
    (void)state;
    _cleanup_(buf_free) struct buf b = BUF_INIT(64 * 1024);
    struct wire_terminal_event e;
    wire_put_number(&b, WIRE_TAG_EXIT, 300);
    assert_int_equal(next(WIRE_DONE, &b, &e), -CAY_INTERNAL);
    assert_int_equal(next(WIRE_STDERR, &b, &e), -CAY_INTERNAL);
    assert_int_equal(next(WIRE_STARTED, &b, &e), -CAY_INTERNAL);
    assert_int_equal(next(WIRE_REQUEST, &b, &e), -CAY_INTERNAL);
    assert_int_equal(next(WIRE_ERROR, &b, &e), -CAY_INTERNAL);
    buf_clear(&b);
    wire_put_number(&b, WIRE_TAG_CODE, CAY_CONFLICT);
    wire_put_string(&b, WIRE_TAG_MESSAGE, "no\x1b[2J");
    assert_int_equal(next(WIRE_ERROR, &b, &e), -CAY_CONFLICT);
    assert_null(strchr(err.message, '\x1b'));
}

/* ---- activity ---- */

static void activity(void **state) {
    (void)state;
    _cleanup_(peer_close) struct peer p = peer_open();
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    struct wire_activity a;
    wire_put_number(&b, WIRE_TAG_COMMANDS, 2);
    wire_put_number(&b, WIRE_TAG_QUIET_MS, UINT64_MAX);
    assert_int_equal(wire_send(p.fd, WIRE_DONE, &b), 0);
    assert_int_equal(wire_activity(&p.call, &a, &err), 0);
    assert_true(a.commands == 2 && a.viewers == 0 && a.busy == 0 && a.quiet_ms == INT64_MAX);
    assert_int_equal(wire_send(p.fd, WIRE_DONE, NULL), 0);
    assert_int_equal(wire_activity(&p.call, &a, &err), 0);
    assert_int_equal(a.quiet_ms, -1);
}

static void activity_that_never_comes(void **state) {
    (void)state;
    _cleanup_(peer_close) struct peer p = peer_open();
    struct wire_activity a;
    p.call.deadline_ms = clock_ms() + 50;
    assert_int_equal(wire_activity(&p.call, &a, &err), -CAY_TIMEOUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_request),
        cmocka_unit_test(attach_reads_no_byte_too_many),
        cmocka_unit_test(list_takes_good_entries_only),
        cmocka_unit_test(list_is_bounded),
        cmocka_unit_test(events),
        cmocka_unit_test(lies),
        cmocka_unit_test(activity),
        cmocka_unit_test(activity_that_never_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
