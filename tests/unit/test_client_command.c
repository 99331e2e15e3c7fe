/* What comes back for a command, event by event, also from a sandbox that lies. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "wire/client_command.h"

static struct cay_error err;

/* What a frame is taken as. */
static int next(enum wire_type type, const struct buf *b, struct wire_command_event *ret) {
    static struct wire_reader r;
    wire_reader_free(&r);
    r = WIRE_READER_INIT;
    wire_put_frame(&r.in, type, buf_text(b), b->len);
    return wire_command_next(&r, ret, &err);
}

static void test_events(void **state) {
    (void)state;
    struct wire_command_event e;
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    assert_int_equal(buf_puts(&b, "hello"), 0);
    assert_int_equal(next(WIRE_STDERR, &b, &e), 1);
    assert_int_equal(e.kind, WIRE_COMMAND_OUTPUT);
    assert_true(e.is_stderr && e.len == 5 && memcmp(e.data, "hello", 5) == 0);
    assert_int_equal(next(WIRE_STDOUT, &b, &e), 1);
    assert_false(e.is_stderr);
    buf_clear(&b);
    wire_put_number(&b, WIRE_TAG_NUMBER, 7);
    assert_int_equal(next(WIRE_STARTED, &b, &e), 1);
    assert_true(e.kind == WIRE_COMMAND_STARTED && e.outcome.number == 7);
    buf_clear(&b);
    wire_put_number(&b, WIRE_TAG_EXIT, 3);
    wire_put_number(&b, WIRE_TAG_REASON, WIRE_REASON_TIMEOUT);
    assert_int_equal(next(WIRE_DONE, &b, &e), 1);
    assert_int_equal(e.kind, WIRE_COMMAND_ENDED);
    assert_int_equal(e.outcome.exit_code, 3);
    assert_int_equal(e.outcome.reason, WIRE_REASON_TIMEOUT);
}

static void test_what_is_out_of_range(void **state) {
    (void)state;
    struct wire_command_event e;
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    wire_put_number(&b, WIRE_TAG_EXIT, UINT64_MAX);
    wire_put_number(&b, WIRE_TAG_SIGNAL, UINT64_MAX);
    wire_put_number(&b, WIRE_TAG_REASON, UINT64_MAX);
    assert_int_equal(next(WIRE_DONE, &b, &e), 1);
    assert_int_equal(e.outcome.exit_code, 255);
    assert_int_equal(e.outcome.signal, 0);
    assert_int_equal(e.outcome.reason, WIRE_REASON_EXIT);
    buf_clear(&b);
    wire_put_number(&b, WIRE_TAG_COUNT, UINT64_MAX);
    assert_int_equal(next(WIRE_CREDIT, &b, &e), 1);
    assert_int_equal(e.credits, WIRE_INPUT_CREDIT);
}

static void test_refusals(void **state) {
    (void)state;
    struct wire_command_event e;
    _cleanup_(buf_free) struct buf b = BUF_INIT(64 * 1024);
    assert_int_equal(next(WIRE_ENTRY, &b, &e), -CAY_INTERNAL); /* not of a command */
    assert_int_equal(next(WIRE_ERROR, &b, &e), -CAY_INTERNAL); /* an error of no class */
    (void)buf_puts(&b, "garbage");
    assert_int_equal(next(WIRE_DONE, &b, &e), -CAY_INTERNAL);
    buf_clear(&b);
    wire_put_number(&b, WIRE_TAG_CODE, CAY_CONFLICT);
    wire_put_string(&b, WIRE_TAG_MESSAGE, "busy");
    assert_int_equal(next(WIRE_ERROR, &b, &e), -CAY_CONFLICT);
    assert_string_equal(err.message, "busy");
    buf_clear(&b);
    for (int i = 0; i < 20 * 1024; i++)
        (void)buf_putc(&b, 'x');
    assert_int_equal(next(WIRE_STARTED, &b, &e), -CAY_INTERNAL); /* too long */
}

static void test_a_part_of_a_frame(void **state) {
    (void)state;
    struct wire_command_event e;
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    _cleanup_(buf_free) struct buf whole = BUF_INIT(4096);
    wire_put_frame(&whole, WIRE_STDOUT, "hello", 5);
    assert_int_equal(buf_append(&r.in, whole.data, whole.len - 1), 0);
    assert_int_equal(wire_command_next(&r, &e, &err), 0);
    assert_int_equal(buf_append(&r.in, whole.data + whole.len - 1, 1), 0);
    assert_int_equal(wire_command_next(&r, &e, &err), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_what_is_out_of_range),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_a_part_of_a_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
