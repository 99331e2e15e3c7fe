/* The host's side of sessions against a sandbox that lies. */
#include <errno.h>
#include <fcntl.h>
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
#include "wire/client_session.h"
#include "wire_peer.h"

static struct cay_error err;

static void send_name(const struct peer *p, const char *name) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    if (name != NULL)
        wire_put_string(&b, WIRE_TAG_NAME, name);
    assert_int_equal(wire_send(p->fd, WIRE_ENTRY, &b), 0);
}

/* ---- requests ---- */

static void exec_request(void **state) {
    (void)state;
    _cleanup_(peer_close) struct peer p = peer_open();
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    const struct wire_session_exec exec = {
        .text = "echo 'x'", .async = true, .echo = true, .timeout_ms = 5, .quiet_ms = 7};
    struct wire_message m;
    assert_int_equal(wire_session_exec(&p.call, "s", &exec, &err), 0);
    peer_take(&p, &r, &m);
    assert_int_equal(m.number[WIRE_TAG_OP], WIRE_OP_SESSION_EXEC);
    assert_string_equal(m.string[WIRE_TAG_NAME], "s");
    assert_string_equal(m.string[WIRE_TAG_TEXT], "echo 'x'");
    assert_int_equal(m.number[WIRE_TAG_ASYNC], 1);
    assert_int_equal(m.number[WIRE_TAG_STDIN], 0);
    assert_int_equal(m.number[WIRE_TAG_ECHO], 1);
    assert_int_equal(m.number[WIRE_TAG_TIMEOUT_MS], 5);
    assert_int_equal(m.number[WIRE_TAG_QUIET_MS], 7);
}

static void context_request(void **state) {
    (void)state;
    static const char *const driver[] = {"python3", "-c", "1", NULL};
    static const char *const woken[] = {"python3", "cay-a", NULL};
    _cleanup_(peer_close) struct peer p = peer_open();
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    _cleanup_(closep) int program = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct wire_context_start start = {.language = "python", .driver = driver, .woken = woken};
    struct wire_context_made made = {.is_woken = true, .exit_code = 1};
    struct wire_message m;
    /* A sandbox that knows nothing of programs says nothing of them. */
    assert_int_equal(wire_send(p.fd, WIRE_DONE, NULL), 0);
    assert_int_equal(wire_context_create(&p.call, "s", &start, &made, &err), 0);
    assert_false(made.is_woken);
    assert_int_equal(made.exit_code, 0);
    peer_take(&p, &r, &m);
    assert_int_equal(m.count[WIRE_TAG_ARG], 3);
    assert_false(m.present[WIRE_TAG_PROGRAM]);
    start.program = program;
    _cleanup_(buf_free) struct buf b = BUF_INIT(64);
    wire_put_number(&b, WIRE_TAG_PROGRAM, 1);
    wire_put_number(&b, WIRE_TAG_EXIT, 123);
    assert_int_equal(wire_send(p.fd, WIRE_DONE, &b), 0);
    assert_int_equal(wire_context_create(&p.call, "s", &start, &made, &err), 0);
    assert_true(made.is_woken);
    assert_int_equal(made.exit_code, 123);
    peer_take(&p, &r, &m);
    assert_int_equal(m.count[WIRE_TAG_ARG], 5);
    assert_int_equal(m.number[WIRE_TAG_PROGRAM], 2);
    send_name(&p, "s");
    assert_int_equal(wire_context_create(&p.call, "s", &start, &made, &err), -CAY_INTERNAL);
}

static void create_request(void **state) {
    (void)state;
    static const char *const env[] = {"A=1", "B=2", NULL};
    _cleanup_(peer_close) struct peer p = peer_open();
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct wire_message m;
    assert_int_equal(wire_send(p.fd, WIRE_DONE, NULL), 0);
    assert_int_equal(wire_session_create(&p.call, "s", NULL, env, &err), 0);
    peer_take(&p, &r, &m);
    assert_int_equal(m.count[WIRE_TAG_ENV], 2);
    assert_false(m.present[WIRE_TAG_PATH]);
}

static void logs_and_input_requests(void **state) {
    (void)state;
    _cleanup_(peer_close) struct peer p = peer_open();
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct wire_message m;
    assert_int_equal(wire_session_logs(&p.call, "s", 3, 2, 99, true, &err), 0);
    peer_take(&p, &r, &m);
    assert_int_equal(m.number[WIRE_TAG_NUMBER], 3);
    assert_int_equal(m.number[WIRE_TAG_STREAM], 2);
    assert_int_equal(m.number[WIRE_TAG_OFFSET], 99);
    assert_int_equal(m.number[WIRE_TAG_FOLLOW], 1);
    assert_int_equal(wire_session_input(&p.call, "s", 4, true, &err), 0);
    peer_take(&p, &r, &m);
    assert_int_equal(m.number[WIRE_TAG_NUMBER], 4);
    assert_int_equal(m.number[WIRE_TAG_CLOSE], 1);
}

static void a_command_that_is_too_long(void **state) {
    (void)state;
    _cleanup_(peer_close) struct peer p = peer_open();
    _cleanup_(freep) char *text = malloc(WIRE_TEXT_MAX + 2);
    assert_non_null(text);
    memset(text, 'x', WIRE_TEXT_MAX + 1);
    text[WIRE_TEXT_MAX + 1] = '\0';
    const struct wire_session_exec exec = {.text = text};
    assert_int_equal(wire_session_exec(&p.call, "s", &exec, &err), -CAY_INVALID_ARGUMENT);
}

/* ---- answers ---- */

static int count_name(void *arg, const char *name, struct cay_error *e) {
    (void)e, (void)name;
    ++*(int *)arg;
    return 0;
}

static void names(void **state) {
    (void)state;
    static char longest[WIRE_NAME_MAX + 2];
    memset(longest, 'x', WIRE_NAME_MAX + 1);
    static const struct {
        const char *name;
        int expected;
    } cases[] = {
        {"a", 0},
        {"A-z_0.9", 0},
        {longest + 1, 0},
        {longest, -CAY_INTERNAL},
        {"", -CAY_INTERNAL},
        {NULL, -CAY_INTERNAL},
        {"a/b", -CAY_INTERNAL},
        {"a\nb", -CAY_INTERNAL},
        {"\033[2J", -CAY_INTERNAL},
        {"\xc3\xa4", -CAY_INTERNAL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(peer_close) struct peer p = peer_open();
        int count = 0;
        send_name(&p, cases[i].name);
        assert_int_equal(wire_send(p.fd, WIRE_DONE, NULL), 0);
        assert_int_equal(wire_session_list(&p.call, count_name, &count, &err), cases[i].expected);
        assert_int_equal(count, cases[i].expected == 0);
    }
}

static void unexpected_frames(void **state) {
    (void)state;
    static const enum wire_type types[] = {WIRE_ENTRY, WIRE_STDOUT, WIRE_STARTED, WIRE_REQUEST};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        _cleanup_(peer_close) struct peer p = peer_open();
        assert_int_equal(wire_send(p.fd, types[i], NULL), 0);
        assert_int_equal(wire_session_delete(&p.call, "s", &err), -CAY_INTERNAL);
    }
}

static void an_end_and_a_silence(void **state) {
    (void)state;
    _cleanup_(peer_close) struct peer p = peer_open();
    assert_int_equal(shutdown(p.fd, SHUT_WR), 0);
    assert_true(wire_session_delete(&p.call, "s", &err) < 0);
    _cleanup_(peer_close) struct peer silent = peer_open();
    silent.call.deadline_ms = clock_ms() + 20;
    assert_int_equal(wire_session_delete(&silent.call, "s", &err), -CAY_TIMEOUT);
}

static int keep_command(void *arg, const struct wire_session_command *cmd, struct cay_error *e) {
    (void)e;
    *(struct wire_session_command *)arg = *cmd;
    return 0;
}

static void more_commands_than_there_can_be(void **state) {
    (void)state;
    _cleanup_(peer_close) struct peer p = peer_open();
    _cleanup_(buf_free) struct buf b = BUF_INIT(256);
    struct wire_session_command seen = {0};
    wire_put_number(&b, WIRE_TAG_NUMBER, 1);
    wire_put_string(&b, WIRE_TAG_TEXT, "x");
    int size = 4 * 1024 * 1024; /* all of them wait in the socket */
    assert_int_equal(setsockopt(p.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    assert_int_equal(fd_set_nonblocking(p.fd, true), 0);
    int sent = 0;
    while (sent <= WIRE_SESSION_COMMANDS_MAX && wire_send(p.fd, WIRE_ENTRY, &b) == 0)
        sent++;
    if (sent <= WIRE_SESSION_COMMANDS_MAX)
        skip(); /* the kernel's limit on socket memory is small */
    assert_int_equal(wire_session_status(&p.call, "s", keep_command, &seen, &err), -CAY_INTERNAL);
}

static void commands(void **state) {
    (void)state;
    static const struct {
        uint64_t number, exit, reason, elapsed;
        bool text;
        int expected;
    } cases[] = {
        {1, 0, 0, 5, true, 0},
        {UINT64_MAX, 255, WIRE_REASON_OUTPUT, 0, true, 0},
        {0, 0, 0, 0, true, -CAY_INTERNAL},
        {1, 256, 0, 0, true, -CAY_INTERNAL},
        {1, UINT64_MAX, 0, 0, true, -CAY_INTERNAL},
        {1, 0, WIRE_REASON_OUTPUT + 1, 0, true, -CAY_INTERNAL},
        {1, 0, UINT64_C(1) << 32, 0, true, -CAY_INTERNAL},
        {1, 0, 0, UINT64_MAX, true, -CAY_INTERNAL},
        {1, 0, 0, 0, false, -CAY_INTERNAL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(peer_close) struct peer p = peer_open();
        _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
        struct wire_session_command seen = {0};
        wire_put_number(&b, WIRE_TAG_NUMBER, cases[i].number);
        wire_put_number(&b, WIRE_TAG_EXIT, cases[i].exit);
        wire_put_number(&b, WIRE_TAG_REASON, cases[i].reason);
        wire_put_number(&b, WIRE_TAG_ELAPSED_US, cases[i].elapsed);
        if (cases[i].text)
            wire_put_string(&b, WIRE_TAG_TEXT, "x");
        assert_int_equal(wire_send(p.fd, WIRE_ENTRY, &b), 0);
        assert_int_equal(wire_send(p.fd, WIRE_DONE, NULL), 0);
        assert_int_equal(wire_session_status(&p.call, "s", keep_command, &seen, &err),
                         cases[i].expected);
        assert_true(seen.number == (cases[i].expected == 0 ? cases[i].number : 0));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exec_request),
        cmocka_unit_test(create_request),
        cmocka_unit_test(context_request),
        cmocka_unit_test(logs_and_input_requests),
        cmocka_unit_test(a_command_that_is_too_long),
        cmocka_unit_test(names),
        cmocka_unit_test(unexpected_frames),
        cmocka_unit_test(an_end_and_a_silence),
        cmocka_unit_test(more_commands_than_there_can_be),
        cmocka_unit_test(commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
