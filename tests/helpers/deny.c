/* Runs a program for which one system call fails, as if the kernel did not have it or did not allow
 * it:
 *
 *     deny CALL ENOSYS|EPERM|ENOSPC PROGRAM [ARG…] */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

struct name {
    const char *text;
    unsigned number;
};

static const struct name calls[] = {
    {"capset", SYS_capset},
    {"clone3", SYS_clone3},
    {"close_range", SYS_close_range},
    {"execveat", SYS_execveat},
    {"fsconfig", SYS_fsconfig},
    {"fsmount", SYS_fsmount},
    {"fsopen", SYS_fsopen},
    {"landlock_create_ruleset", SYS_landlock_create_ruleset},
    {"landlock_restrict_self", SYS_landlock_restrict_self},
    {"memfd_create", SYS_memfd_create},
    {"mount", SYS_mount},
    {"mount_setattr", SYS_mount_setattr},
    {"move_mount", SYS_move_mount},
    {"open_tree", SYS_open_tree},
    {"openat2", SYS_openat2},
    {"pidfd_open", SYS_pidfd_open},
    {"pidfd_send_signal", SYS_pidfd_send_signal},
    {"pivot_root", SYS_pivot_root},
    {"seccomp", SYS_seccomp},
    {"sethostname", SYS_sethostname},
    {"setns", SYS_setns},
    {"unshare", SYS_unshare},
};
static const struct name errors[] = {{"ENOSYS", ENOSYS}, {"EPERM", EPERM}, {"ENOSPC", ENOSPC}};

static const struct name *find(const struct name *table, size_t count, const char *text) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].text, text) == 0)
            return &table[i];
    return NULL;
}

static int deny(unsigned number, unsigned error) {
    struct sock_filter insns[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {ARRAY_LEN(insns), insns};
    /* Root needs no no_new_privs, and set-uid helpers work without it only. */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0)
        return 0;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

int main(int argc, char **argv) {
    const struct name *call = argc > 3 ? find(calls, ARRAY_LEN(calls), argv[1]) : NULL;
    const struct name *error = argc > 3 ? find(errors, ARRAY_LEN(errors), argv[2]) : NULL;
    if (call == NULL || error == NULL) {
        (void)fputs("usage: deny CALL ENOSYS|EPERM|ENOSPC PROGRAM [ARG...]\n", stderr);
        return 2;
    }
    if (deny(call->number, error->number) < 0) {
        perror("deny");
        return 2;
    }
    (void)execv(argv[3], argv + 3);
    perror(argv[3]);
    return 2;
}
