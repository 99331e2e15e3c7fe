/* Files between the host and an operation of cay-init, piece by piece. */
#include "init_harness.h"

#include <string.h>
#include <sys/socket.h>

#include "base/str.h"
#include "wire/client_content.h"

static struct cay_error err;

static int write_pieces(const struct wire_call *c, const char *path, const char *const *pieces) {
    int r = wire_write_begin(c, path, WIRE_MODE_DEFAULT, true, &err);
    for (; r == 0 && *pieces != NULL; pieces++)
        r = wire_call_send_data(c, *pieces, strlen(*pieces), &err);
    return r < 0 ? r : wire_write_end(c, &err);
}

static int read_all(const struct wire_call *c, const char *path, uint64_t limit, struct buf *out) {
    struct wire_read_stream s;
    const char *data;
    size_t len;
    int r = wire_read_begin(c, path, 0, limit, &s, &err);
    while (r >= 0 && (r = wire_read_next(&s, &data, &len, &err)) > 0)
        (void)buf_append(out, data, len);
    if (r == 0)
        assert_int_equal(wire_read_next(&s, &data, &len, &err), 0); /* and stays ended */
    wire_read_free(&s);
    return r;
}

static void written_and_read(void **state) {
    static const char *const pieces[] = {"one ", "two ", "three", NULL}, *const none[] = {NULL};
    _cleanup_(buf_free) struct buf b = BUF_INIT(1 << 20);
    assert_int_equal(RUN(write_pieces(c, at(state, "new/folder/file"), pieces)), 0);
    assert_string_equal(get_file(at(state, "new/folder/file")), "one two three");
    assert_int_equal(RUN(read_all(c, at(state, "new/folder/file"), 0, &b)), 0);
    assert_string_equal(buf_text(&b), "one two three");
    buf_clear(&b);
    assert_int_equal(RUN(read_all(c, at(state, "new/folder/file"), 7, &b)), 0);
    assert_string_equal(buf_text(&b), "one two");
    assert_int_equal(RUN(write_pieces(c, at(state, "new/folder/file"), none)), 0);
    assert_string_equal(get_file(at(state, "new/folder/file")), "");
}

static void hanging_up_writes_nothing(void **state) {
    put_file(at(state, "file"), "old", 0644);
    struct harness h;
    harness_open(&h, 0);
    assert_int_equal(wire_write_begin(&h.call, at(state, "file"), 0644, false, &err), 0);
    assert_int_equal(wire_call_send_data(&h.call, "new", 3, &err), 0);
    harness_close(&h);
    assert_string_equal(get_file(at(state, "file")), "old");
    assert_int_equal(count_names(at(state, "")), 1);
}

static void failures(void **state) {
    static const char *const pieces[] = {"x", NULL};
    _cleanup_(buf_free) struct buf b = BUF_INIT(1 << 20);
    assert_int_equal(RUN(read_all(c, at(state, "missing"), 0, &b)), -CAY_NOT_FOUND);
    assert_int_equal(RUN(read_all(c, at(state, ""), 0, &b)), -CAY_CONFLICT);
    assert_int_equal(RUN(write_pieces(c, at(state, ""), pieces)), -CAY_CONFLICT);
    assert_string_equal(buf_text(&b), "");
}

/* ---- a sandbox that lies ---- */

static int read_lie(void (*tell)(int fd), uint64_t limit) {
    int pair[2];
    _cleanup_(buf_free) struct buf b = BUF_INIT(1 << 20);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    tell(pair[1]);
    const struct wire_call call = {.fd = pair[0]};
    int r = read_all(&call, "x", limit, &b);
    assert_int_equal(close(pair[0]) | close(pair[1]), 0);
    return r;
}

static void too_much(int fd) {
    assert_int_equal(wire_send_data(fd, WIRE_STDOUT, "0123456789", 10), 0);
}

static void another_size(int fd) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(100);
    wire_put_number(&b, WIRE_TAG_SIZE, 9);
    too_much(fd);
    assert_int_equal(wire_send(fd, WIRE_DONE, &b), 0);
}

static void another_kind(int fd) {
    assert_int_equal(wire_send(fd, WIRE_STARTED, NULL), 0);
}

static void lies(void **state) {
    (void)state;
    assert_int_equal(read_lie(too_much, 9), -CAY_INTERNAL);
    assert_int_equal(read_lie(another_size, 0), -CAY_INTERNAL);
    assert_int_equal(read_lie(another_kind, 0), -CAY_INTERNAL);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(written_and_read),
        CASE(hanging_up_writes_nothing),
        CASE(failures),
        CASE(lies),
    };
    return cmocka_run_group_tests_name("client_content", tests, NULL, NULL);
}
