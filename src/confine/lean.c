#include "confine/lean.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "confine/mounts.h"
#include "confine/syscalls.h"

#define SELF_MNT "/proc/self/ns/mnt"

/* Covers staging with the empty root and makes that the root of all. */
static int leave_host(const char *staging) {
    _cleanup_(closep) int root = mounts_tmpfs(4096, 4, "0555", 0);
    if (root < 0)
        return root;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          MOUNT_ATTR_NOEXEC};
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount_setattr(root, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0 ||
        move_mount(root, "", AT_FDCWD, staging, MOVE_MOUNT_F_EMPTY_PATH) < 0 || fchdir(root) < 0 ||
        syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
        return -errno;
    return 0;
}

int lean_create(const char *staging, struct cay_error *err) {
    _cleanup_(closep) int host = open(SELF_MNT, O_RDONLY | O_CLOEXEC);
    if (host < 0)
        return error_errno(err, "opening the host's mount namespace");
    if (unshare(CLONE_NEWNS) < 0)
        return error_errno(err, "making a mount namespace");
    _cleanup_(closep) int lean = open(SELF_MNT, O_RDONLY | O_CLOEXEC);
    int r = lean < 0 ? -errno : leave_host(staging);
    int back = lean_enter(host, err);
    if (back < 0)
        return back;
    return r < 0 ? error_sys(err, -r, "leaving the host's mounts") : TAKE_FD(lean);
}

int lean_enter(int ns, struct cay_error *err) {
    if (ns >= 0 && setns(ns, CLONE_NEWNS) < 0)
        return error_errno(err, "changing the mount namespace");
    return 0;
}
