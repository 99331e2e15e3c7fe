#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"

enum { FD_PASS_MAX = 16 };

int fd_write_all(int fd, const void *data, size_t len) {
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int fd_read_all(int fd, void *data, size_t len) {
    char *p = data;
    size_t got = 0;
    while (got < len) {
        ssize_t n = read(fd, p + got, len - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return got == 0 ? 0 : -EPIPE;
        got += (size_t)n;
    }
    return 1;
}

int fd_read_to_end(int fd, struct buf *b) {
    for (;;) {
        size_t room = b->max - b->len;
        if (room == 0) { /* full: only an end of file may follow */
            char extra;
            ssize_t n = read(fd, &extra, 1);
            if (n < 0 && errno == EINTR)
                continue;
            return n < 0 ? -errno : n == 0 ? 0 : -ENOBUFS;
        }
        size_t want = MIN(room, (size_t)16384);
        char *to = buf_reserve(b, want);
        if (to == NULL)
            return -ENOMEM;
        ssize_t n = read(fd, to, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        buf_commit(b, (size_t)n);
        if (n == 0)
            return 0;
    }
}

ssize_t fd_read_file_at(int dirfd, const char *path, char *text, size_t size) {
    _cleanup_(closep) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t len = 0;
    for (;;) {
        char *to = text + len; /* the terminator's place takes the byte that does not fit */
        ssize_t n = len < size ? read(fd, to, size - len) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        len += (size_t)n;
        if (len >= size)
            return -ENOBUFS;
        if (n == 0)
            break;
    }
    if (len > 0 && text[len - 1] == '\n')
        len--;
    text[len] = '\0';
    return (ssize_t)len;
}

ssize_t fd_read_again(int fd, char *text, size_t size) {
    ssize_t n = pread(fd, text, size, 0);
    if (n < 0)
        return -errno;
    if ((size_t)n == size)
        return -ENOBUFS;
    if (n > 0 && text[n - 1] == '\n')
        n--;
    text[n] = '\0';
    return n;
}

int fd_write_file_at(int dirfd, const char *path, const char *text) {
    _cleanup_(closep) int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t len = strlen(text);
    ssize_t n;
    do
        n = write(fd, text, len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EIO;
}

int fd_send(int sock, const void *data, size_t len, const int *fds, size_t count) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
    } control = {0};
    if (count > FD_PASS_MAX)
        return -EINVAL;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (count > 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
    }
    ssize_t n;
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EMSGSIZE;
}

/* Moves the descriptors of one control message out; those beyond max are closed. */
static size_t take_fds(struct cmsghdr *c, int *fds, size_t max, size_t have) {
    size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
        if (have < max)
            fds[have++] = fd;
        else
            (void)close(fd);
    }
    return have;
}

ssize_t fd_receive(int sock, void *data, size_t len, int *fds, size_t max, size_t *ret_count) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
    } control;
    struct iovec iov = {.iov_base = data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes};
    ssize_t n;
    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    *ret_count = 0;
    if (n < 0)
        return -errno;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            *ret_count = take_fds(c, fds, max, *ret_count);
    return n;
}

int fd_set_nonblocking(int fd, bool on) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return -errno;
    flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

int fd_open_standard(void) {
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
            continue;
        int mode = fd == STDOUT_FILENO ? O_RDONLY : O_RDWR;
        /* open() takes the lowest free number, which is fd */
        if (open("/dev/null", mode) < 0) /* NOLINT(android-cloexec-open): meant to be inherited */
            return -errno;
    }
    return 0;
}
