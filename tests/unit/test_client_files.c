/* The client functions against an init that lies: whatever it answers, the host gets an error in
 * bounded time and memory, and never a name that leads elsewhere. */
#include "init_harness.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

static struct cay_error err;

/* What the liar sends once it has the request. */
typedef void lie_fn(int fd);

static void silence(int fd);
static void drip(int fd);
static int liar_pid;

static int start_liar(lie_fn *lie) {
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    (void)fflush(NULL);
    liar_pid = fork();
    assert_true(liar_pid >= 0);
    if (liar_pid == 0) {
        struct wire_reader r = WIRE_READER_INIT;
        struct wire_frame f;
        (void)close(pair[0]);
        (void)wire_receive(&r, pair[1], &f);
        lie(pair[1]);
        _exit(0);
    }
    (void)close(pair[1]);
    return pair[0];
}

/* What comes has the time that a busy machine takes; what never comes is not waited for so long. */
static int64_t patience(lie_fn *lie) {
    return clock_deadline(lie == silence || lie == drip ? 400 : 30000);
}

#define LIED(lie, expression)                                                                      \
    ({                                                                                             \
        struct wire_call call_ = {.fd = start_liar(lie), .deadline_ms = patience(lie)};            \
        const struct wire_call *c = &call_;                                                        \
        int result_ = (expression);                                                                \
        (void)close(call_.fd);                                                                     \
        assert_int_equal(waitpid(liar_pid, NULL, 0), liar_pid);                                    \
        result_;                                                                                   \
    })

/* ---- lies ---- */

static void put_entry(struct buf *b, const char *path) {
    wire_put_string(b, WIRE_TAG_PATH, path);
    wire_put_number(b, WIRE_TAG_MODE, 0100644);
    wire_put_number(b, WIRE_TAG_SIZE, 1);
    wire_put_number(b, WIRE_TAG_MTIME_MS, 1);
    wire_put_number(b, WIRE_TAG_UID, 0);
    wire_put_number(b, WIRE_TAG_GID, 0);
}

static const char *lied_name; /* set before the fork */

static void one_entry(int fd) {
    struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    put_entry(&b, lied_name);
    wire_put_number(&b, WIRE_TAG_LINE, 1);
    wire_put_string(&b, WIRE_TAG_TEXT, "text");
    (void)wire_send(fd, WIRE_ENTRY, &b);
    (void)wire_send(fd, WIRE_DONE, NULL);
}

static void endless_entries(int fd) {
    struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    put_entry(&b, "x");
    while (wire_send(fd, WIRE_ENTRY, &b) == 0)
        ;
}

static void partial_entry(int fd) {
    struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    wire_put_string(&b, WIRE_TAG_PATH, "x");
    (void)wire_send(fd, WIRE_ENTRY, &b);
    (void)wire_send(fd, WIRE_DONE, &b);
}

static void huge_entry(int fd) {
    struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    put_entry(&b, "x");
    char *text = calloc(1, 1024 * 1024);
    memset(text, 'a', 1024 * 1024 - 1);
    wire_put_string(&b, WIRE_TAG_TARGET, text);
    (void)wire_send(fd, WIRE_ENTRY, &b);
    (void)wire_send(fd, WIRE_DONE, &b);
}

static void impossible_file(int fd) {
    struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    wire_put_string(&b, WIRE_TAG_PATH, "x");
    wire_put_number(&b, WIRE_TAG_MODE, UINT64_MAX);
    wire_put_number(&b, WIRE_TAG_SIZE, UINT64_MAX);
    wire_put_number(&b, WIRE_TAG_MTIME_MS, 1);
    wire_put_number(&b, WIRE_TAG_UID, UINT64_MAX);
    wire_put_number(&b, WIRE_TAG_GID, 0);
    (void)wire_send(fd, WIRE_ENTRY, &b);
    (void)wire_send(fd, WIRE_DONE, &b);
}

static void long_target(int fd) {
    struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    put_entry(&b, "x");
    char text[8192];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    wire_put_string(&b, WIRE_TAG_TARGET, text);
    (void)wire_send(fd, WIRE_DONE, &b);
}

static void silence(int fd) {
    struct pollfd p = {.fd = fd}; /* until the host hangs up, and nothing is read */
    (void)poll(&p, 1, -1);
}

static void drip(int fd) { /* a frame that never becomes complete */
    const unsigned char header[] = {0, 0, 1, 0, WIRE_STDOUT, 0, 0, 0};
    (void)fd_write_all(fd, header, sizeof header);
    while (send(fd, "x", 1, MSG_NOSIGNAL) == 1)
        (void)usleep(20000);
}

static void endless_content(int fd) {
    static char data[WIRE_DATA_MAX];
    while (wire_send_data(fd, WIRE_STDOUT, data, sizeof data) == 0)
        ;
}

static void empty_content(int fd) {
    while (wire_send(fd, WIRE_STDOUT, NULL) == 0)
        ;
}

static void wrong_size(int fd) {
    struct buf b = BUF_INIT(1000);
    wire_put_number(&b, WIRE_TAG_SIZE, 100);
    (void)wire_send_data(fd, WIRE_STDOUT, "abc", 3);
    (void)wire_send(fd, WIRE_DONE, &b);
}

static void wrong_frames(int fd) {
    (void)wire_send(fd, WIRE_STARTED, NULL);
    (void)wire_send(fd, WIRE_DONE, NULL);
}

static void garbage(int fd) {
    (void)fd_write_all(fd, "HTTP/1.1 200 OK\r\n\r\n", 19);
}

static void hang_up(int fd) {
    (void)shutdown(fd, SHUT_RDWR);
}

static void bad_fields(int fd) {
    struct buf b = BUF_INIT(1000);
    (void)buf_puts(&b, "no fields at all");
    (void)wire_send(fd, WIRE_DONE, &b);
}

static void error_without_code(int fd) {
    (void)wire_send(fd, WIRE_ERROR, NULL);
}

static void early_error(int fd) { /* while the host still sends */
    struct cay_error e = {.code = CAY_RESOURCE_EXHAUSTED, .sys = ENOSPC, .message = "\x1b[31mfull"};
    (void)wire_send_error(fd, &e);
}

/* ---- tests ---- */

static int count_file(void *arg, const struct wire_file *f, struct cay_error *e) {
    (void)f;
    (void)e;
    ++*(int *)arg;
    return 0;
}

static int count_match(void *arg, const struct wire_match *m, struct cay_error *e) {
    (void)m;
    (void)e;
    ++*(int *)arg;
    return 0;
}

static int ignore_replaced(void *arg, const struct wire_replaced *r, struct cay_error *e) {
    (void)arg;
    (void)r;
    (void)e;
    return 0;
}

static void names_that_lead_elsewhere(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool listed, found; /* accepted by list, by find below /root */
    } cases[] = {
        {"x", true, false},
        {"..", false, false},
        {".", false, false},
        {"", false, false},
        {"a/b", false, false},
        {"/root/x", false, true},
        {"/root", false, true},
        {"/rootx", false, false},
        {"/root/../etc", false, false},
        {"/etc/shadow", false, false},
        {"/root/a/..", false, false},
        {"/root//x", false, false},
        {"..x", true, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bool truncated;
        int listed = 0, found = 0, matched = 0;
        lied_name = cases[i].name;
        int r = LIED(one_entry, wire_list(c, "/root", 10, count_file, &listed, &truncated, &err));
        assert_int_equal(r, cases[i].listed ? 0 : -CAY_INTERNAL);
        assert_int_equal(listed, cases[i].listed);
        r = LIED(one_entry, wire_find(c, &(struct wire_query){"/root/", "*", 0, 10}, count_file,
                                      &found, &truncated, &err));
        assert_int_equal(r, cases[i].found ? 0 : -CAY_INTERNAL);
        assert_int_equal(found, cases[i].found);
        r = LIED(one_entry, wire_search(c, &(struct wire_query){"/root", "x", 0, 10}, count_match,
                                        &matched, &truncated, &err));
        assert_int_equal(r, cases[i].found ? 0 : -CAY_INTERNAL);
    }
}

static void broken_answers(void **state) {
    (void)state;
    static const struct {
        lie_fn *lie;
        enum cay_code listing, reading, removing, looking;
    } cases[] = {
        {endless_entries, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL},
        {partial_entry, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL},
        {huge_entry, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL},
        {impossible_file, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL},
        {silence, CAY_TIMEOUT, CAY_TIMEOUT, CAY_TIMEOUT, CAY_TIMEOUT},
        {drip, CAY_TIMEOUT, CAY_TIMEOUT, CAY_TIMEOUT, CAY_TIMEOUT},
        {endless_content, CAY_INTERNAL, CAY_LIMIT_REACHED, CAY_INTERNAL, CAY_INTERNAL},
        {empty_content, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL},
        {wrong_size, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL},
        {wrong_frames, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL},
        {garbage, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL},
        {hang_up, CAY_UNAVAILABLE, CAY_UNAVAILABLE, CAY_UNAVAILABLE, CAY_UNAVAILABLE},
        {bad_fields, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL},
        {error_without_code, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL, CAY_INTERNAL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bool truncated;
        int count = 0;
        uint64_t size;
        struct wire_file f;
        char target[PATH_MAX];
        _cleanup_(buf_free) struct buf b = BUF_INIT(1024 * 1024);
        int r = LIED(cases[i].lie, wire_list(c, "/", 5, count_file, &count, &truncated, &err));
        assert_int_equal(r, -(int)cases[i].listing);
        assert_true(count <= 5);
        r = LIED(cases[i].lie, wire_read(c, "/x", &(struct wire_range){.max_bytes = 300000},
                                         wire_sink_buf, &b, &size, &err));
        assert_int_equal(r, -(int)cases[i].reading);
        assert_true(b.len <= 300000);
        r = LIED(cases[i].lie, wire_remove(c, "/x", true, &err));
        assert_int_equal(r, -(int)cases[i].removing);
        r = LIED(cases[i].lie, wire_stat(c, "/x", true, &f, target, &err));
        assert_int_equal(r, -(int)cases[i].looking);
        assert_true(err.message[0] != '\0');
    }
}

static void other_lies(void **state) {
    (void)state;
    struct wire_file f;
    char target[PATH_MAX];
    const char *paths[] = {"/a", "/b"};
    assert_int_equal(LIED(long_target, wire_stat(c, "/x", false, &f, target, &err)), -CAY_INTERNAL);
    lied_name = "/b"; /* not the first that was asked about */
    assert_int_equal(
        LIED(one_entry, wire_replace(c, paths, 2, "x", "y", ignore_replaced, NULL, &err)),
        -CAY_INTERNAL);
    lied_name = "/a"; /* and nothing about the second */
    assert_int_equal(
        LIED(one_entry, wire_replace(c, paths, 2, "x", "y", ignore_replaced, NULL, &err)),
        -CAY_INTERNAL);
    assert_int_equal(LIED(garbage, wire_dial_port(c, 80, &err)), -CAY_INTERNAL);
    assert_int_equal(LIED(silence, wire_dial_port(c, 80, &err)), -CAY_TIMEOUT);
}

static ssize_t endless(void *arg, char *data, size_t size, struct cay_error *e) {
    (void)arg;
    (void)e;
    memset(data, 'x', size);
    return (ssize_t)size;
}

/* An error that comes while the host is still sending is the one that the caller sees, without
 * what it might do to a terminal. A reader that sleeps does not hold the host for ever. */
static void errors_while_sending(void **state) {
    (void)state;
    int r = LIED(early_error, wire_write(c, "/x", -1, false, endless, NULL, &err));
    assert_int_equal(r, -CAY_RESOURCE_EXHAUSTED);
    assert_int_equal(err.sys, ENOSPC);
    assert_null(strchr(err.message, '\x1b'));
    r = LIED(silence, wire_write(c, "/x", -1, false, endless, NULL, &err));
    assert_int_equal(r, -CAY_TIMEOUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_lead_elsewhere),
        cmocka_unit_test(broken_answers),
        cmocka_unit_test(other_lies),
        cmocka_unit_test(errors_while_sending),
    };
    return cmocka_run_group_tests_name("client_files", tests, NULL, NULL);
}
