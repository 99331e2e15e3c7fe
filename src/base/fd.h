/* File descriptors: whole reads and writes, small files, passing descriptors between processes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct buf;

/* Writes all of it, restarting after signals and short writes. 0 or -errno. */
int fd_write_all(int fd, const void *data, size_t len);

/* Reads exactly len bytes. 1, 0 at a clean end of file before the first byte, or -errno
 * (-EPIPE: the end came in the middle). */
int fd_read_all(int fd, void *data, size_t len);

/* Reads up to the end of file into b, at most b's maximum (-ENOBUFS). 0 or -errno. */
int fd_read_to_end(int fd, struct buf *b);

/* Reads a small text file (proc, cgroup, sysctl) relative to dirfd into text, NUL-terminated,
 * without the final newline. Returns the length or -errno (-ENOBUFS if it does not fit). */
ssize_t fd_read_file_at(int dirfd, const char *path, char *text, size_t size);

/* The same of an open file of proc or cgroup, from its beginning; one read gives all of it. */
ssize_t fd_read_again(int fd, char *text, size_t size);

/* Writes text to an existing file with one write(2), as proc and cgroup files want it. */
int fd_write_file_at(int dirfd, const char *path, const char *text);

/* Sends data together with count descriptors. Returns 0 or -errno. */
int fd_send(int sock, const void *data, size_t len, const int *fds, size_t count);

/* Receives one message of at most len bytes and up to max descriptors, all close-on-exec. Returns
 * the byte count (0 at the end), or -errno; *ret_count says how many descriptors came. Surplus
 * ones are closed by the kernel. */
ssize_t fd_receive(int sock, void *data, size_t len, int *fds, size_t max, size_t *ret_count);

int fd_set_nonblocking(int fd, bool on);

/* Makes sure that 0, 1 and 2 are open (on /dev/null), so that no later descriptor lands there. What
 * is written to a 1 that was closed fails, since it would be lost. */
int fd_open_standard(void);
