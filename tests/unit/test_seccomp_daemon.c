/* Tests of the policies of the front, the proxy and the launcher: against lists written down here
 * once more, and against the policy of the sandboxes that inherit the launcher's. That the compiled
 * filter is the policy: test_seccomp.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "confine/seccomp.h"

static const struct seccomp_options front = {.whose = SECCOMP_FRONT};
static const struct seccomp_options egress = {.whose = SECCOMP_EGRESS};
static const struct seccomp_options launcher = {.whose = SECCOMP_LAUNCHER};

static uint32_t number_of(const char *name) {
    for (uint32_t nr = 0; nr < 1024; nr++) {
        const char *n = seccomp_name(nr);
        if (n != NULL && strcmp(n, name) == 0)
            return nr;
    }
    fail_msg("the table lacks %s", name);
    return 0;
}

/* Each name of a list separated by blanks: allowed, or not. */
static void check_names(const struct seccomp_options *o, const char *list, bool allowed) {
    char copy[2048], *place = NULL;
    assert_true(snprintf(copy, sizeof copy, "%s", list) < (int)sizeof copy);
    for (char *name = strtok_r(copy, " ", &place); name; name = strtok_r(NULL, " ", &place)) {
        const uint64_t args[6] = {0};
        enum verdict v = seccomp_expect(o, number_of(name), args);
        if ((v == VERDICT_ALLOW) != allowed)
            fail_msg("%s is %s", name, allowed ? "refused" : "allowed");
    }
}

static void front_starts_and_mounts_nothing(void **state) {
    (void)state;
    check_names(&front,
                "execve execveat fork vfork clone clone3 ptrace mount umount2 pivot_root chroot "
                "fsopen fsconfig fsmount open_tree move_mount mount_setattr setns unshare bpf "
                "init_module finit_module delete_module kexec_load perf_event_open userfaultfd "
                "io_uring_setup io_setup keyctl kill tkill pidfd_send_signal pidfd_getfd "
                "process_vm_writev setuid setresuid setgroups capset mknod mknodat shmget mq_open "
                "personality reboot open_by_handle_at",
                false);
    check_names(&front,
                "read write openat close mmap futex accept4 bind listen connect sendmsg recvmsg "
                "epoll_wait poll ppoll fsync fdatasync rename unlink mkdir ftruncate pwrite64 "
                "memfd_create getrandom tgkill exit_group sendfile splice setsockopt prctl",
                true);
}

static void front_arguments(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t args[6];
        enum verdict want;
    } cases[] = {
        {"clone", {0x3d0f00}, VERDICT_ALLOW}, /* pthread_create */
        {"clone", {0x11}, VERDICT_EPERM},
        {"clone", {0x4111}, VERDICT_EPERM},     /* vfork of posix_spawn */
        {"clone", {0x103d0f00}, VERDICT_EPERM}, /* a thread with a user namespace */
        {"clone", {0xf003d0f00}, VERDICT_ALLOW},
        {"socket", {1, 0x80001}, VERDICT_ALLOW},
        {"socket", {2, 1, 6}, VERDICT_ALLOW},
        {"socket", {10, 1}, VERDICT_ALLOW},
        {"socket", {16, 3, 0}, VERDICT_ALLOW},
        {"socket", {16, 3, 12}, VERDICT_EAFNOSUPPORT},
        {"socket", {17, 3}, VERDICT_EAFNOSUPPORT},
        {"socket", {38, 5}, VERDICT_EAFNOSUPPORT},
        {"socket", {40, 1}, VERDICT_EAFNOSUPPORT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(seccomp_expect(&front, number_of(cases[i].name), cases[i].args),
                         cases[i].want);
}

static void egress_reads_and_connects_only(void **state) {
    (void)state;
    check_names(&egress,
                "execve fork clone ptrace mount chroot kill setresuid capset mknodat openat2 creat "
                "rename renameat2 mkdir mkdirat unlink unlinkat link symlink chmod fchmod chown "
                "truncate utimensat setxattr chdir fchdir listen socketpair memfd_create",
                false);
    check_names(&egress,
                "read write open openat close mmap futex accept4 bind connect sendmsg recvmsg "
                "poll splice pipe2 setsockopt getsockname shutdown fstat exit_group",
                true);
}

static void egress_arguments(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t args[6];
        enum verdict want;
    } cases[] = {
        {"socket", {1, 1}, VERDICT_EAFNOSUPPORT},    {"socket", {1, 0x80005}, VERDICT_EAFNOSUPPORT},
        {"socket", {2, 0x80801}, VERDICT_ALLOW},     {"socket", {10, 2}, VERDICT_ALLOW},
        {"socket", {16, 3, 0}, VERDICT_ALLOW},       {"socket", {17, 3}, VERDICT_EAFNOSUPPORT},
        {"open", {0, 0x80000}, VERDICT_ALLOW},       {"open", {0, 0x80001}, VERDICT_EPERM},
        {"openat", {0, 0, 0x88000}, VERDICT_ALLOW},  {"openat", {0, 0, 2}, VERDICT_EPERM},
        {"openat", {0, 0, 0x40}, VERDICT_EPERM},     /* O_CREAT */
        {"openat", {0, 0, 0x200}, VERDICT_EPERM},    /* O_TRUNC */
        {"openat", {0, 0, 0x410000}, VERDICT_EPERM}, /* O_TMPFILE */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(seccomp_expect(&egress, number_of(cases[i].name), cases[i].args),
                         cases[i].want);
}

static void launcher_leaves_the_kernel_alone(void **state) {
    (void)state;
    check_names(&launcher,
                "init_module finit_module delete_module kexec_load kexec_file_load reboot swapon "
                "swapoff bpf perf_event_open ptrace process_vm_readv process_vm_writev "
                "pidfd_getfd userfaultfd io_uring_setup io_uring_enter io_uring_register keyctl "
                "add_key request_key acct quotactl quotactl_fd settimeofday clock_settime adjtimex "
                "clock_adjtime iopl ioperm open_by_handle_at modify_ldt syslog",
                false);
    check_names(&launcher,
                "clone clone3 execve execveat mount umount2 pivot_root fsopen fsconfig fsmount "
                "open_tree move_mount mount_setattr setns unshare chroot sethostname seccomp "
                "landlock_restrict_self setresuid capset pidfd_open pidfd_send_signal mknodat "
                "close_range ioctl openat2 memfd_create fallocate",
                true);
}

/* Commands of bpf(2): 5 loads, 8 attaches, 13, 15 and 16 look. */
static void launcher_loads_device_rules_only(void **state) {
    (void)state;
    for (uint64_t command = 0; command < 64; command++) {
        const uint64_t args[6] = {command};
        bool wanted =
            command == 5 || command == 8 || command == 13 || command == 15 || command == 16;
        assert_int_equal(seccomp_expect(&launcher, number_of("bpf"), args),
                         wanted ? VERDICT_ALLOW : VERDICT_EPERM);
    }
}

/* A sandbox gets nothing less by its launcher's filter. ptrace is the exception: an option that the
 * launcher gives to none. */
static void sandboxes_lose_nothing(void **state) {
    (void)state;
    static const uint64_t values[] = {0, 1, 2, 5, 8, 17, 0x3d0f00, UINT64_MAX};
    for (unsigned bits = 0; bits < 4; bits++) {
        struct seccomp_options o = {.allow_userns = bits & 1, .deny_setid = bits & 2};
        for (uint32_t nr = 0; nr < 1024; nr++) {
            for (size_t i = 0; i < ARRAY_LEN(values); i++) {
                const uint64_t args[6] = {values[i]};
                if (seccomp_expect(&o, nr, args) == VERDICT_ALLOW &&
                    seccomp_expect(&launcher, nr, args) != VERDICT_ALLOW)
                    fail_msg("call %u is refused by the launcher", nr);
            }
        }
    }
}

static void *nothing(void *user) {
    return user;
}

static int try_as_front(void) {
    struct cay_error err;
    pthread_t thread;
    if (seccomp_confine(&front, &err) < 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return 1;
    if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 2;
    if (syscall(SYS_fork) != -1 || errno != EPERM)
        return 3;
    char *const argv[] = {(char[]){"true"}, NULL};
    if (execv("/bin/true", argv) != -1 || errno != EPERM)
        return 4;
    return kill(getppid(), 0) == -1 && errno == EPERM ? 0 : 5;
}

/* Below the filter of a sandbox: the error stays the sandbox's. */
static int try_as_launcher(void) {
    static const struct seccomp_options sandbox = {0};
    struct cay_error err;
    if (seccomp_confine(&launcher, &err) < 0)
        return 1;
    if (syscall(SYS_keyctl, 0, 0) != -1 || errno != EPERM)
        return 2;
    if (syscall(SYS_bpf, 0, NULL, 0) != -1 || errno != EPERM)
        return 3;
    if (syscall(SYS_bpf, 15, NULL, 0) != -1 || errno == ENOSYS)
        return 4;
    if (seccomp_confine(&sandbox, &err) < 0)
        return 5;
    if (syscall(SYS_keyctl, 0, 0) != -1 || errno != ENOSYS)
        return 6;
    return syscall(SYS_reboot, 0, 0, 0, NULL) == -1 && errno == EPERM ? 0 : 7;
}

static void check_in_child(int (*attempt)(void)) {
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(attempt());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void kernel_agrees_on_the_front(void **state) {
    (void)state;
    check_in_child(try_as_front);
}

static void kernel_agrees_on_the_launcher(void **state) {
    (void)state;
    check_in_child(try_as_launcher);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(front_starts_and_mounts_nothing),
        cmocka_unit_test(front_arguments),
        cmocka_unit_test(egress_reads_and_connects_only),
        cmocka_unit_test(egress_arguments),
        cmocka_unit_test(launcher_leaves_the_kernel_alone),
        cmocka_unit_test(launcher_loads_device_rules_only),
        cmocka_unit_test(sandboxes_lose_nothing),
        cmocka_unit_test(kernel_agrees_on_the_front),
        cmocka_unit_test(kernel_agrees_on_the_launcher),
    };
    return cmocka_run_group_tests_name("seccomp_daemon", tests, NULL, NULL);
}
