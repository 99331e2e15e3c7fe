/* Commands that report, as an interpreter does that waits for its program: what is told when, and
 * the files that are told. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "init_harness.h"
#include "wire/client_exec.h"

/* A report of one record, and the last word: exit code 7. */
#define SAYS "printf '\\001\\001\\000\\000\\000v' >&3; "
#define ENDS "; printf '\\000\\001\\000\\000\\000\\007' >&3; exit 7"

enum { DEADLINE_MS = 60000, TICK_NS = 25000000 };

struct heard {
    char names[256]; /* of changed files, each with a blank behind it */
    struct buf out, report;
    struct exec_outcome outcome;
};

static void hear_change(void *arg, const char *path, uint64_t size, bool created) {
    struct heard *h = arg;
    size_t len = strlen(h->names);
    (void)size;
    assert_true(created);
    (void)snprintf(h->names + len, sizeof h->names - len, "%s ", path);
}

static void heard_free(struct heard *h) {
    buf_free(&h->out);
    buf_free(&h->report);
}

static void start(struct harness *h, void **state, const char *script) {
    struct cay_error err = {0};
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    const struct exec_request req = {.argv = argv,
                                     .env = env,
                                     .cwd = at(state, "work"),
                                     .want_stdin = true,
                                     .report = true,
                                     .watch = true};
    harness_open(h, 0);
    assert_int_equal(exec_send(h->call.fd, &req, &err), 0);
}

/* Gives it limits and a line of input, and carries it to its end. */
static void ask(struct harness *h, const char *line, struct heard *ret) {
    struct cay_error err = {0};
    const struct exec_request limits = {.timeout_ms = DEADLINE_MS};
    _cleanup_(buf_free) struct buf opening = BUF_INIT(WIRE_DATA_MAX);
    exec_put_limits(&limits, &opening);
    *ret = (struct heard){.report = BUF_INIT(WIRE_DATA_MAX)};
    struct exec_streams s = {.in = -1,
                             .first = line,
                             .first_len = strlen(line),
                             .opening = &opening,
                             .out = {-1, -1},
                             .captured = {BUF_INIT(1 << 20), BUF_INIT(1 << 20)},
                             .signals = -1,
                             .report = &ret->report,
                             .changed = hear_change,
                             .changed_arg = ret};
    assert_int_equal(exec_carry(h->call.fd, &s, clock_deadline(DEADLINE_MS), &ret->outcome, &err),
                     0);
    ret->out = s.captured[0];
    buf_free(&s.captured[1]);
    harness_close(h);
}

static void await_file(const char *path) {
    int64_t deadline = clock_deadline(DEADLINE_MS);
    while (access(path, F_OK) < 0) {
        assert_false(clock_expired(deadline));
        (void)poll(NULL, 0, 1);
    }
}

static void receive_until(struct harness *h, enum wire_type type, struct wire_reader *reader) {
    struct wire_frame f = {0};
    do
        assert_int_equal(wire_receive(reader, h->call.fd, &f), 1);
    while (f.type != type);
}

static void nap(void) {
    (void)nanosleep(&(struct timespec){.tv_nsec = TICK_NS}, NULL);
}

/* Until it is asked the host hears nothing; then all that was told before comes first. */
static void test_nothing_is_told_before_it_is_asked(void **state) {
    char script[512];
    struct harness h;
    (void)snprintf(script, sizeof script,
                   SAYS "echo early; : >%s; read word; echo \"got $word\"" ENDS,
                   at(state, "there"));
    start(&h, state, script);
    await_file(at(state, "there"));
    nap();
    assert_int_equal(poll(&(struct pollfd){.fd = h.call.fd, .events = POLLIN}, 1, 0), 0);
    _cleanup_(heard_free) struct heard heard;
    ask(&h, "this\n", &heard);
    assert_true(heard.outcome.started);
    assert_int_equal(heard.outcome.exit_code, 7);
    assert_string_equal(buf_text(&heard.out), "early\ngot this\n");
    assert_int_equal(heard.report.len, 12);
    assert_memory_equal(heard.report.data, "\1\1\0\0\0v\0\1\0\0\0\7", 12);
    assert_string_equal(heard.names, "");
    assert_true(heard.outcome.all_changes);
}

/* What is printed comes in time, though the command goes on: it waits for somebody who has seen
 * it. */
static void test_output_is_not_kept_for_long(void **state) {
    struct harness h;
    start(&h, state, "read word; echo first; while [ ! -e ../seen ]; do sleep 0.01; done" ENDS);
    assert_int_equal(wire_send_data(h.call.fd, WIRE_INPUT, "go\n", 3), 0);
    struct wire_reader reader = WIRE_READER_INIT;
    receive_until(&h, WIRE_STDOUT, &reader);
    wire_reader_free(&reader);
    put_file(at(state, "seen"), "", 0600);
    harness_close(&h);
}

/* What was told before it was asked is not kept for long either: the host has more to say once it
 * knows that. */
static void test_a_report_is_not_kept_for_long(void **state) {
    struct harness h;
    struct wire_reader reader = WIRE_READER_INIT;
    char script[512];
    (void)snprintf(script, sizeof script, SAYS ": >%s; read a; read b; echo $a$b" ENDS,
                   at(state, "there"));
    start(&h, state, script);
    await_file(at(state, "there"));
    nap();
    assert_int_equal(wire_send_data(h.call.fd, WIRE_INPUT, "1\n", 2), 0);
    receive_until(&h, WIRE_REPORT, &reader);
    assert_int_equal(wire_send_data(h.call.fd, WIRE_INPUT, "2\n", 2), 0);
    receive_until(&h, WIRE_STDOUT, &reader);
    receive_until(&h, WIRE_DONE, &reader);
    wire_reader_free(&reader);
    harness_close(&h);
}

/* More than a pipe holds, at once and between two records. */
static void test_much_output(void **state) {
    struct harness h;
    start(&h, state, "read word; head -c 300000 /dev/zero; " SAYS "head -c 300000 /dev/zero" ENDS);
    _cleanup_(heard_free) struct heard heard;
    ask(&h, "go\n", &heard);
    assert_int_equal(heard.outcome.exit_code, 7);
    assert_int_equal(heard.out.len, 600000);
    assert_int_equal(heard.report.len, 12);
}

struct change_case {
    const char *script, *names;
};

/* In a folder that was empty for long, and in one that is new: the first look is another. */
static void test_files_that_it_makes(void **state) {
    const struct change_case cases[] = {
        {"true", ""},
        {": >a", "a "},
        {"mkdir b; : >b/c", "b/c "},
        {"mkdir b; rmdir b", ""},
        {"cd ..; mv work old; mkdir work; : >work/d", "d "},
        {"cd ..; rmdir work; ln -s . work", ""},
        {"cd ..; rmdir work", ""},
        {": >e; chmod 0 .", geteuid() == 0 ? "e " : ""}, /* nobody else can look then */
    };
    for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
        char script[256];
        const struct change_case *c = &cases[i / 2];
        struct harness h;
        void *folder = NULL;
        (void)state;
        assert_int_equal(folder_setup(&folder), 0);
        assert_int_equal(mkdir(at(&folder, "work"), 0777), 0);
        (void)snprintf(script, sizeof script, ": >../there; read word; %s" ENDS, c->script);
        start(&h, &folder, script);
        if (i % 2 == 0) {
            await_file(at(&folder, "there"));
            nap();
        }
        _cleanup_(heard_free) struct heard heard;
        ask(&h, "go\n", &heard);
        assert_int_equal(heard.outcome.exit_code, 7);
        assert_string_equal(heard.names, c->names);
        assert_int_equal(folder_teardown(&folder), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_is_told_before_it_is_asked, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(test_output_is_not_kept_for_long, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(test_a_report_is_not_kept_for_long, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(test_much_output, folder_setup, folder_teardown),
        cmocka_unit_test(test_files_that_it_makes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
