#include "confine/ipcns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/msg.h>
#include <linux/sem.h>
#include <linux/shm.h>
#include <sched.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "confine/mounts.h"
#include "confine/syscalls.h"

#define SELF_IPC "/proc/thread-self/ns/ipc"

/* Runs inside the new namespace. Its message queues are files of a file system of its own, whose
 * folder gets a new time with every queue: one that it cannot have otherwise is set here. */
static int open_parts(int *ret_ns, int *ret_queues) {
    static const char *const none[] = {NULL};
    static const struct timespec never[2] = {{0}, {0}};
    *ret_ns = open(SELF_IPC, O_RDONLY | O_CLOEXEC);
    if (*ret_ns < 0)
        return -errno;
    *ret_queues = mounts_simple("mqueue", none, 0);
    if (*ret_queues < 0)
        return *ret_queues;
    return utimensat(*ret_queues, ".", never, 0) < 0 ? -errno : 0;
}

int ipcns_create(int *ret_queues, struct cay_error *err) {
    _cleanup_(closep) int home = open(SELF_IPC, O_RDONLY | O_CLOEXEC);
    if (home < 0)
        return error_errno(err, "opening " SELF_IPC);
    if (unshare(CLONE_NEWIPC) < 0) {
        error_errno(err, "making an IPC namespace");
        return error_remedy(err, "check the sysctl user.max_ipc_namespaces");
    }
    _cleanup_(closep) int ns = -1;
    _cleanup_(closep) int queues = -1;
    int r = open_parts(&ns, &queues);
    if (setns(home, CLONE_NEWIPC) < 0)
        return error_errno(err, "returning to the host's IPC namespace");
    if (r < 0)
        return error_sys(err, -r, "setting up the IPC namespace");
    *ret_queues = TAKE_FD(queues);
    return TAKE_FD(ns);
}

int ipcns_join(int ns) {
    return setns(ns, CLONE_NEWIPC) < 0 ? -errno : 0;
}

/* Raw calls: C libraries do not agree on the structures. */
static int count_objects(int *ret) {
    struct shm_info memory = {0};
    struct seminfo semaphores = {0};
    struct msginfo messages = {0};
    if (syscall(SYS_shmctl, 0, SHM_INFO, &memory) < 0 ||
        syscall(SYS_semctl, 0, 0, SEM_INFO, &semaphores) < 0 ||
        syscall(SYS_msgctl, 0, MSG_INFO, &messages) < 0)
        return -errno;
    *ret = memory.used_ids + semaphores.semusz + messages.msgpool;
    return 0;
}

int ipcns_is_clean(int ns, int queues) {
    int objects = 0;
    int r = ipcns_join(ns);
    if (r == 0)
        r = count_objects(&objects);
    struct stat st = {.st_mtime = 1}; /* what is not known is not clean */
    if (r == 0 && fstat(queues, &st) < 0)
        r = -errno;
    return r < 0 ? r : objects == 0 && st.st_mtime == 0;
}
