/* System calls that are newer than some C libraries: the mount API by descriptor, and pidfds. With
 * glibc they come from its headers, with musl they are made here. */
#pragma once

#include <sys/mount.h>

#ifdef __GLIBC__
#include <sys/pidfd.h>
#else
#include <linux/mount.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static inline int fsopen(const char *type, unsigned flags) {
    return (int)syscall(SYS_fsopen, type, flags);
}

static inline int fsconfig(int fd, unsigned command, const char *key, const void *value, int aux) {
    return (int)syscall(SYS_fsconfig, fd, command, key, value, aux);
}

static inline int fsmount(int fd, unsigned flags, unsigned attributes) {
    return (int)syscall(SYS_fsmount, fd, flags, attributes);
}

static inline int open_tree(int dirfd, const char *path, unsigned flags) {
    return (int)syscall(SYS_open_tree, dirfd, path, flags);
}

static inline int move_mount(int from, const char *from_path, int to, const char *to_path,
                             unsigned flags) {
    return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

static inline int mount_setattr(int dirfd, const char *path, unsigned flags,
                                struct mount_attr *attr, size_t size) {
    return (int)syscall(SYS_mount_setattr, dirfd, path, flags, attr, size);
}

static inline int pidfd_open(pid_t pid, unsigned flags) {
    return (int)syscall(SYS_pidfd_open, pid, flags);
}

static inline int pidfd_send_signal(int pidfd, int number, siginfo_t *info, unsigned flags) {
    return (int)syscall(SYS_pidfd_send_signal, pidfd, number, info, flags);
}

static inline int close_range(unsigned first, unsigned last, int flags) {
    return (int)syscall(SYS_close_range, first, last, flags);
}
#endif
