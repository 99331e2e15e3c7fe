/* Tests of base/fd.c. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/fd.h"

static void pair(int sv[2], int type) {
    assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, sv), 0);
}

/* A file with this content, opened at its start. */
static int file_of(const void *data, size_t len) {
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, len), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static int open_descriptors(void) {
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* ---- whole reads and writes ---- */

static void *write_slowly(void *arg) {
    static const char part[1000] = {1};
    for (int i = 0; i < 100; i++)
        if (fd_write_all(*(int *)arg, part, sizeof part) < 0)
            break;
    return NULL;
}

static void whole_transfers(void **state) {
    (void)state;
    int sv[2];
    pair(sv, SOCK_STREAM);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_slowly, &sv[0]), 0);
    static char data[100000];
    assert_int_equal(fd_read_all(sv[1], data, sizeof data), 1);
    assert_int_equal(data[99000], 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(fd_write_all(sv[0], "abc", 3), 0);
    (void)close(sv[0]);
    assert_int_equal(fd_read_all(sv[1], data, 2), 1);
    assert_int_equal(fd_read_all(sv[1], data, 2), -EPIPE); /* one byte, then the end */
    assert_int_equal(fd_read_all(sv[1], data, 2), 0);
    assert_int_equal(fd_read_all(sv[1], data, 0), 1);
    (void)signal(SIGPIPE, SIG_IGN);
    assert_int_equal(fd_write_all(sv[1], "x", 1), -EPIPE);
    (void)close(sv[1]);
    assert_int_equal(fd_read_all(-1, data, 1), -EBADF);
    assert_int_equal(fd_write_all(-1, data, 1), -EBADF);
}

static void to_the_end(void **state) {
    (void)state;
    static const struct {
        size_t size, max;
        int r;
    } cases[] = {
        {0, 10, 0},
        {9, 10, 0},
        {10, 10, 0},
        {11, 10, -ENOBUFS},
        {0, 0, 0},
        {1, 0, -ENOBUFS},
        {65536, 65536, 0},
        {65537, 65536, -ENOBUFS},
        {200000, 1 << 20, 0},
    };
    static char data[200000];
    memset(data, 'x', sizeof data);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(closep) int fd = file_of(data, cases[i].size);
        _cleanup_(buf_free) struct buf b = BUF_INIT(cases[i].max);
        assert_int_equal(fd_read_to_end(fd, &b), cases[i].r);
        assert_int_equal(b.len, MIN(cases[i].size, cases[i].max));
        assert_int_equal(strlen(buf_text(&b)), b.len);
    }
}

static void small_files(void **state) {
    (void)state;
    char folder[] = "/tmp/cay-test-fd-XXXXXX";
    assert_non_null(mkdtemp(folder));
    _cleanup_(closep) int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    static const struct {
        const char *content;
        size_t size;
        ssize_t r;
        const char *text;
    } cases[] = {
        {"max\n", 16, 3, "max"}, {"max", 16, 3, "max"},       {"", 16, 0, ""},
        {"\n", 16, 0, ""},       {"a\n\n", 16, 2, "a\n"},     {"abc", 4, 3, "abc"},
        {"abc\n", 5, 3, "abc"},  {"abcd", 4, -ENOBUFS, NULL}, {"abc\n", 4, -ENOBUFS, NULL},
        {"", 1, 0, ""},          {"a", 1, -ENOBUFS, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int fd = openat(dir, "f", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_int_equal(fd_write_all(fd, cases[i].content, strlen(cases[i].content)), 0);
        (void)close(fd);
        char text[20];
        memset(text, 'Z', sizeof text);
        assert_int_equal(fd_read_file_at(dir, "f", text, cases[i].size), cases[i].r);
        assert_int_equal(text[cases[i].size], 'Z');
        if (cases[i].text != NULL)
            assert_string_equal(text, cases[i].text);
        /* an open one the same, as often as one likes */
        fd = openat(dir, "f", O_RDONLY | O_CLOEXEC);
        for (int twice = 0; twice < 2; twice++) {
            memset(text, 'Z', sizeof text);
            assert_int_equal(fd_read_again(fd, text, cases[i].size), cases[i].r);
            assert_int_equal(text[cases[i].size], 'Z');
            if (cases[i].text != NULL)
                assert_string_equal(text, cases[i].text);
        }
        (void)close(fd);
    }
    assert_int_equal(fd_read_again(-1, (char[4]){0}, 4), -EBADF);
    char text[16];
    assert_int_equal(fd_write_file_at(dir, "f", "512"), 0);
    assert_int_equal(fd_read_file_at(dir, "f", text, sizeof text), 3);
    assert_string_equal(text, "512");
    assert_int_equal(fd_write_file_at(dir, "absent", "1"), -ENOENT); /* not made */
    assert_int_equal(fd_read_file_at(dir, "absent", text, sizeof text), -ENOENT);
    assert_int_equal(fd_read_file_at(dir, ".", text, sizeof text), -EISDIR);
    assert_int_equal(unlinkat(dir, "f", 0), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* ---- passing descriptors ---- */

/* What the other side gets is the same open file, close-on-exec. */
static void assert_same_file(int a, int b) {
    struct stat x, y;
    assert_int_equal(fstat(a, &x), 0);
    assert_int_equal(fstat(b, &y), 0);
    assert_true(x.st_ino == y.st_ino && x.st_dev == y.st_dev);
    assert_true((fcntl(b, F_GETFD) & FD_CLOEXEC) != 0);
}

static void pass_descriptors(void **state) {
    (void)state;
    static const struct {
        size_t sent, room, got;
    } cases[] = {{0, 4, 0}, {1, 4, 1}, {4, 4, 4}, {5, 4, 4}, {16, 2, 2}, {16, 16, 16}, {3, 0, 0}};
    static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
    for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
        size_t c = i / 2;
        int sv[2], out[16], in[16];
        int before = open_descriptors();
        pair(sv, types[i % 2]);
        for (size_t j = 0; j < 16; j++)
            out[j] = file_of("x", 1);
        assert_int_equal(fd_send(sv[0], "hello", 5, out, cases[c].sent), 0);
        char data[16];
        size_t count = 99;
        assert_int_equal(fd_receive(sv[1], data, sizeof data, in, cases[c].room, &count), 5);
        assert_memory_equal(data, "hello", 5);
        assert_int_equal(count, cases[c].got);
        for (size_t j = 0; j < count; j++) {
            assert_same_file(out[j], in[j]);
            (void)close(in[j]);
        }
        for (size_t j = 0; j < 16; j++)
            (void)close(out[j]);
        (void)close(sv[0]);
        assert_int_equal(fd_receive(sv[1], data, sizeof data, in, 16, &count), 0);
        assert_int_equal(count, 0);
        (void)close(sv[1]);
        assert_int_equal(open_descriptors(), before); /* no surplus one stayed open */
    }
}

/* More than the receiver's control buffer holds: the kernel drops them, nothing leaks. */
static void too_many_descriptors(void **state) {
    (void)state;
    int sv[2], in[16], before = open_descriptors();
    pair(sv, SOCK_SEQPACKET);
    enum { MANY = 40 };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * MANY)];
    } control = {0};
    char byte = 'x';
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * MANY);
    for (size_t i = 0; i < MANY; i++)
        memcpy(CMSG_DATA(c) + i * sizeof(int), &sv[0], sizeof(int));
    assert_int_equal(sendmsg(sv[0], &msg, MSG_NOSIGNAL), 1);
    size_t count = 0;
    assert_int_equal(fd_receive(sv[1], &byte, 1, in, 3, &count), 1);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++)
        (void)close(in[i]);
    (void)close(sv[0]);
    (void)close(sv[1]);
    assert_int_equal(open_descriptors(), before);
}

static void send_failures(void **state) {
    (void)state;
    int sv[2], fds[17] = {0};
    pair(sv, SOCK_STREAM);
    assert_int_equal(fd_send(sv[0], "x", 1, fds, 17), -EINVAL);
    fds[0] = -1;
    assert_int_equal(fd_send(sv[0], "x", 1, fds, 1), -EBADF);
    (void)close(sv[1]);
    assert_int_equal(fd_send(sv[0], "x", 1, NULL, 0), -EPIPE); /* and no signal */
    assert_int_equal(fd_set_nonblocking(sv[0], true), 0);
    assert_true((fcntl(sv[0], F_GETFL) & O_NONBLOCK) != 0);
    assert_int_equal(fd_set_nonblocking(sv[0], false), 0);
    assert_true((fcntl(sv[0], F_GETFL) & O_NONBLOCK) == 0);
    (void)close(sv[0]);
    assert_int_equal(fd_set_nonblocking(-1, true), -EBADF);
    size_t count = 9;
    char byte;
    assert_int_equal(fd_receive(-1, &byte, 1, fds, 1, &count), -EBADF);
    assert_int_equal(count, 0);
}

/* In a child, since it is about the standard descriptors. */
static void standard_descriptors(void **state) {
    (void)state;
    for (int closed = 0; closed < 8; closed++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            for (int fd = 0; fd <= 2; fd++)
                if ((closed & (1 << fd)) != 0)
                    (void)close(fd);
            bool ok = fd_open_standard() == 0;
            for (int fd = 0; fd <= 2; fd++)
                ok = ok && fcntl(fd, F_GETFD) >= 0;
            int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
            _exit(ok && next > 2 ? 0 : 1);
        }
        int status = -1;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_transfers),      cmocka_unit_test(to_the_end),
        cmocka_unit_test(small_files),          cmocka_unit_test(pass_descriptors),
        cmocka_unit_test(too_many_descriptors), cmocka_unit_test(send_failures),
        cmocka_unit_test(standard_descriptors),
    };
    return cmocka_run_group_tests_name("base_fd", tests, NULL, NULL);
}
