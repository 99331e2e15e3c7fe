/* Tests of the system-call policy: the table against lists of names and argument cases that are
 * written down here once more, after the threat model and not after the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "confine/seccomp.h"

static const struct seccomp_options all_options[] = {
    {false, false, false}, {true, false, false}, {false, true, false}, {true, true, false},
    {false, false, true},  {true, false, true},  {false, true, true},  {true, true, true},
};

static int number_of(const char *name) {
    for (uint32_t nr = 0; nr < 1024; nr++) {
        const char *n = seccomp_name(nr);
        if (n != NULL && strcmp(n, name) == 0)
            return (int)nr;
    }
    fail_msg("the table lacks %s", name);
    return -1;
}

static enum verdict expect_name(const struct seccomp_options *o, const char *name) {
    const uint64_t args[6] = {0};
    return seccomp_expect(o, (uint32_t)number_of(name), args);
}

/* Denied whatever the options. */
static const char must_deny[] =
    "mount umount2 pivot_root fsopen fsconfig fsmount fspick open_tree open_tree_attr "
    "move_mount mount_setattr setns clone3 bpf perf_event_open userfaultfd io_uring_setup "
    "io_uring_enter io_uring_register keyctl add_key request_key kexec_load kexec_file_load "
    "init_module finit_module delete_module create_module query_module get_kernel_syms "
    "open_by_handle_at name_to_handle_at quotactl quotactl_fd swapon swapoff reboot acct "
    "syslog settimeofday clock_settime clock_adjtime adjtimex iopl ioperm process_vm_readv "
    "process_vm_writev pidfd_getfd kcmp process_madvise process_mrelease fanotify_init "
    "fanotify_mark uselib ustat sysfs lookup_dcookie nfsservctl _sysctl modify_ldt "
    "migrate_pages move_pages vhangup listmount statmount listns lsm_set_self_attr "
    "memfd_secret file_setattr sethostname setdomainname mbind set_mempolicy "
    "set_mempolicy_home_node remap_file_pages vmsplice mincore cachestat io_setup io_submit "
    "io_getevents io_pgetevents io_cancel io_destroy";

/* Ordinary programs break without these. */
static const char must_allow[] =
    "read write open openat close close_range stat fstat newfstatat statx poll ppoll "
    "select pselect6 mmap mprotect munmap mremap madvise brk rt_sigaction rt_sigprocmask "
    "rt_sigreturn sigaltstack futex futex_waitv futex_wake futex_wait futex_requeue clone "
    "fork vfork execve execveat exit exit_group wait4 waitid kill tgkill epoll_create "
    "epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2 "
    "timerfd_create timerfd_settime timerfd_gettime signalfd signalfd4 inotify_init "
    "inotify_init1 inotify_add_watch inotify_rm_watch memfd_create getrandom rseq membarrier "
    "sched_getaffinity sched_setaffinity sched_setscheduler sched_getattr sched_setattr "
    "sched_yield prlimit64 getrlimit setrlimit copy_file_range sendfile splice tee "
    "pidfd_open pidfd_send_signal landlock_create_ruleset landlock_add_rule "
    "landlock_restrict_self seccomp prctl arch_prctl fcntl flock fsync fdatasync "
    "fallocate ftruncate getdents64 getcwd chdir fchdir rename renameat renameat2 mkdir "
    "mkdirat unlink unlinkat link linkat symlink symlinkat readlink readlinkat chmod fchmod "
    "fchmodat fchmodat2 chown fchown fchownat umask access faccessat faccessat2 utimensat "
    "setxattr getxattr listxattr removexattr mknod mknodat dup dup2 dup3 pipe pipe2 connect "
    "accept accept4 bind listen sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg setsockopt "
    "getsockopt shutdown getsockname getpeername getpid gettid getppid setsid setpgid getuid "
    "setuid setgid setresuid setresgid setgroups getgroups capget capset set_tid_address "
    "set_robust_list get_robust_list clock_gettime clock_nanosleep nanosleep gettimeofday "
    "timer_create setitimer alarm pause uname sysinfo times getrusage shmget shmat shmctl "
    "shmdt semget semop semctl msgget mq_open "
    "mlock mlockall pkey_alloc pkey_mprotect preadv2 pwritev2 pread64 pwrite64 "
    "statfs fstatfs sync syncfs sync_file_range fadvise64 readahead getcpu getpriority "
    "setpriority ioprio_set personality mseal map_shadow_stack restart_syscall";

/* Checks each of the space-separated names with each combination of options. */
static void check_names(const char *names, bool allowed) {
    while (*names != '\0') {
        char name[64];
        size_t len = strcspn(names, " ");
        assert_true(len < sizeof name);
        memcpy(name, names, len);
        name[len] = '\0';
        for (size_t i = 0; i < ARRAY_LEN(all_options); i++) {
            if ((expect_name(&all_options[i], name) == VERDICT_ALLOW) != allowed)
                fail_msg("%s is %s", name, allowed ? "denied" : "allowed");
        }
        names += len + strspn(names + len, " ");
    }
}

static void named_calls(void **state) {
    (void)state;
    check_names(must_deny, false);
    check_names(must_allow, true);
}

/* Programs look at which error they get. */
static void errors(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum verdict want;
    } cases[] = {
        {"clone3", VERDICT_ENOSYS},        {"io_uring_setup", VERDICT_ENOSYS},
        {"userfaultfd", VERDICT_ENOSYS},   {"keyctl", VERDICT_ENOSYS},
        {"get_mempolicy", VERDICT_ENOSYS}, {"clock_adjtime", VERDICT_ENOSYS},
        {"mount", VERDICT_EPERM},          {"umount2", VERDICT_EPERM},
        {"chroot", VERDICT_EPERM},         {"unshare", VERDICT_EPERM},
        {"setns", VERDICT_EPERM},          {"ptrace", VERDICT_EPERM},
        {"settimeofday", VERDICT_EPERM},   {"reboot", VERDICT_EPERM},
        {"sethostname", VERDICT_EPERM},
    };
    struct seccomp_options o = {0};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (expect_name(&o, cases[i].name) != cases[i].want)
            fail_msg("%s gives another error", cases[i].name);
    }
}

#define A VERDICT_ALLOW
#define P VERDICT_EPERM
#define F VERDICT_EAFNOSUPPORT
#define N VERDICT_ENOTTY

/* Numbers are spelt out, so that a wrong header or table cannot agree with itself. */
static const struct {
    const char *name;
    uint64_t args[6];
    enum verdict plain, nested; /* without and with allow_userns */
} argument_cases[] = {
    {"clone", {17}, A, A},
    {"clone", {0x3d0f00}, A, A}, /* pthread_create */
    {"clone", {0x4111}, A, A},   /* vfork of posix_spawn */
    {"clone", {0x91}, A, A},     /* bit 7 is part of the signal, not NEWTIME */
    {"clone", {0x20011}, P, P},
    {"clone", {0x02000011}, P, P},
    {"clone", {0x04000011}, P, P},
    {"clone", {0x08000011}, P, P},
    {"clone", {0x10000011}, P, A},
    {"clone", {0x70000011}, P, A},
    {"clone", {0x70020011}, P, P},
    {"clone", {0xff00000010000011}, P, A},
    {"unshare", {0}, P, A},
    {"unshare", {0x10000000}, P, A},
    {"unshare", {0x70000000}, P, A},
    {"unshare", {0x10020000}, P, P},
    {"unshare", {0x80}, P, P},
    {"chroot", {0}, P, A},
    {"setns", {3, 0x10000000}, P, P},
    {"socket", {1, 1, 0}, A, A},
    {"socket", {1, 2, 0}, A, A},
    {"socket", {1, 5, 0}, A, A},
    {"socket", {1, 3, 0}, F, F},
    {"socket", {1, 0x80801, 0}, A, A},
    {"socket", {1, 0x100001, 0}, F, F},
    {"socket", {2, 1, 0}, A, A},
    {"socket", {2, 0x80001, 6}, A, A},
    {"socket", {2, 1, 132}, F, F}, /* SCTP */
    {"socket", {2, 1, 262}, F, F}, /* MPTCP */
    {"socket", {2, 2, 0}, A, A},
    {"socket", {2, 0x802, 17}, A, A},
    {"socket", {2, 2, 1}, A, A},
    {"socket", {2, 2, 58}, F, F},
    {"socket", {2, 3, 1}, F, F},
    {"socket", {2, 3, 255}, F, F},
    {"socket", {2, 10, 768}, F, F}, /* SOCK_PACKET turns into AF_PACKET */
    {"socket", {2, 5, 0}, F, F},
    {"socket", {10, 1, 6}, A, A},
    {"socket", {10, 2, 58}, A, A},
    {"socket", {10, 3, 58}, F, F},
    {"socket", {16, 3, 0}, A, A},
    {"socket", {16, 0x80802, 0}, A, A},
    {"socket", {16, 3, 12}, F, F}, /* netfilter */
    {"socket", {16, 3, 16}, F, F}, /* generic */
    {"socket", {16, 1, 0}, F, F},
    {"socket", {17, 3, 3}, F, F}, /* AF_PACKET */
    {"socket", {38, 5, 0}, F, F}, /* AF_ALG */
    {"socket", {40, 1, 0}, F, F}, /* AF_VSOCK */
    {"socket", {44, 3, 0}, F, F}, /* AF_XDP */
    {"socket", {0, 1, 0}, F, F},
    {"socket", {0x100000026, 5, 0}, F, F},
    {"socket", {0x2600000001, 1, 0}, A, A},
    {"socketpair", {1, 1, 0}, A, A},
    {"socketpair", {1, 5, 0}, A, A},
    {"socketpair", {38, 5, 0}, F, F},
    {"ioctl", {0, 0x5412}, N, N}, /* TIOCSTI */
    {"ioctl", {0, 0x541c}, N, N}, /* TIOCLINUX */
    {"ioctl", {0, 0x5423}, N, N}, /* TIOCSETD */
    {"ioctl", {0, 0xdead00005412}, N, N},
    {"ioctl", {0, 0xdead00005413}, A, A}, /* the kernel drops the upper half */
    {"ioctl", {0x5413, 0}, N, N},
    {"ioctl", {0x5412, 0x5413}, A, A},
    {"ioctl", {0, 0x8946}, VERDICT_EOPNOTSUPP, VERDICT_EOPNOTSUPP}, /* SIOCETHTOOL */
    {"personality", {0}, A, A},
    {"personality", {8}, A, A},
    {"personality", {0x20000}, A, A},
    {"personality", {0x20008}, A, A},
    {"personality", {0xffffffff}, A, A},
    {"personality", {0x40000}, P, P}, /* ADDR_NO_RANDOMIZE */
    {"personality", {0x400000}, P, P},
    {"personality", {0x100040000}, P, P},
    {"prctl", {38, 1}, A, A}, /* PR_SET_NO_NEW_PRIVS */
    {"prctl", {22, 2}, A, A}, /* PR_SET_SECCOMP */
    {"prctl", {15}, A, A},    /* PR_SET_NAME */
    {"prctl", {35}, P, P},    /* PR_SET_MM */
    {"prctl", {57}, P, P},    /* PR_SET_IO_FLUSHER */
    {"prctl", {62}, P, P},    /* PR_SCHED_CORE */
    {"prctl", {67}, P, P},    /* PR_SET_MEMORY_MERGE */
    {"mknod", {0, 0x11a4}, A, A},
    {"mknod", {0, 0xc1a4}, A, A},
    {"mknod", {0, 0x1a4}, A, A},
    {"mknod", {0, 0x21a4}, P, P},
    {"mknod", {0, 0x61a4}, P, P},
    {"mknodat", {0x21a4, 0, 0x11a4}, A, A},
    {"mknodat", {0, 0, 0x21a4}, P, P},
    {"mknodat", {0, 0, 0x61a4}, P, P},
    {"mknod", {0, 0x89ed}, A, A}, /* set-user-id */
    {"mknodat", {0, 0, 0x89ed}, A, A},
    {"setsockopt", {3, 1, 2}, A, A},
    {"setsockopt", {3, 6, 1}, A, A},
    {"setsockopt", {3, 0, 64}, A, P},
    {"setsockopt", {3, 0, 65}, A, P},
    {"setsockopt", {3, 0, 96}, A, P},
    {"setsockopt", {3, 0, 129}, A, P},
    {"setsockopt", {3, 41, 64}, A, P},
    {"setsockopt", {3, 41, 67}, A, A},
    {"setsockopt", {3, 1, 64}, A, A},
};

static void arguments(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(argument_cases); i++) {
        uint32_t nr = (uint32_t)number_of(argument_cases[i].name);
        for (int nested = 0; nested < 2; nested++) {
            struct seccomp_options o = {.allow_userns = nested};
            enum verdict want = nested ? argument_cases[i].nested : argument_cases[i].plain;
            enum verdict got = seccomp_expect(&o, nr, argument_cases[i].args);
            if (got != want)
                fail_msg("case %zu, %s(%#llx, …): %d, not %d", i, argument_cases[i].name,
                         (unsigned long long)argument_cases[i].args[0], got, want);
        }
    }
}

/* What programs ask of terminals, sockets, files and interfaces, as numbers of the kernel. */
static const uint32_t ioctl_needed[] = {
    2 /* FIGETBSZ */,
    /* TCGETS to TIOCOUTQ */
    0x5401,
    0x5402,
    0x5403,
    0x5404,
    0x5405,
    0x5406,
    0x5407,
    0x5408,
    0x5409,
    0x540a,
    0x540b,
    0x540c,
    0x540d,
    0x540e,
    0x540f,
    0x5410,
    0x5411,
    /* TIOCGWINSZ, TIOCSWINSZ, FIONREAD, TIOCPKT, FIONBIO, TIOCNOTTY, TIOCGETD */
    0x5413,
    0x5414,
    0x541b,
    0x5420,
    0x5421,
    0x5422,
    0x5424,
    /* TCSBRKP, TIOCSBRK, TIOCCBRK, TIOCGSID, TIOCGPTPEER */
    0x5425,
    0x5427,
    0x5428,
    0x5429,
    0x5441,
    /* FIONCLEX, FIOCLEX, FIOASYNC, FIOQSIZE */
    0x5450,
    0x5451,
    0x5452,
    0x5460,
    /* FIOSETOWN, SIOCSPGRP, FIOGETOWN, SIOCGPGRP, SIOCATMARK, SIOCGSTAMP, SIOCGSTAMPNS */
    0x8901,
    0x8902,
    0x8903,
    0x8904,
    0x8905,
    0x8906,
    0x8907,
    /* SIOCGIF…: name, conf, flags, addr, dstaddr, brdaddr, netmask, metric, mtu, hwaddr, index,
     * txqlen, map */
    0x8910,
    0x8912,
    0x8913,
    0x8915,
    0x8917,
    0x8919,
    0x891b,
    0x891d,
    0x8921,
    0x8927,
    0x8933,
    0x8942,
    0x8970,
    0x894b /* SIOCOUTQNSD */,
    0x80045200 /* RNDGETENTCNT */,
    /* FICLONE, FICLONERANGE, FS_IOC_GETFLAGS, FS_IOC_FSGETXATTR */
    0x40049409,
    0x4020940d,
    0x80086601,
    0x801c581f,
    /* TIOCGPTN, TIOCSPTLCK, TIOCGDEV, TIOCSIG, TIOCGPKT, TIOCGPTLCK, TIOCGEXCL */
    0x80045430,
    0x40045431,
    0x80045432,
    0x40045436,
    0x80045438,
    0x80045439,
    0x80045440,
    /* TCGETS2, TCSETS2, TCSETSW2, TCSETSF2 */
    0x802c542a,
    0x402c542b,
    0x402c542c,
    0x402c542d,
};

/* Where requests of the kernel begin: plain ones, and those with a direction and a size. */
static const uint32_t ioctl_prefixes[] = {
    0,          0x20000000, 0x40040000, 0x40080000, 0x401c0000, 0x40200000, 0x402c0000,
    0x40300000, 0x80040000, 0x80080000, 0x801c0000, 0x802c0000, 0xc0180000, 0xc0200000};

/* The list is exactly this one: nothing else passes, whatever the options. */
static void ioctl_is_a_list(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all_options); i++) {
        size_t passed = 0;
        for (size_t k = 0; k < ARRAY_LEN(ioctl_needed); k++) {
            const uint64_t args[6] = {0, ioctl_needed[k]};
            if (seccomp_expect(&all_options[i], (uint32_t)number_of("ioctl"), args) != A)
                fail_msg("ioctl %#x does not pass", ioctl_needed[k]);
        }
        for (size_t k = 0; k < ARRAY_LEN(ioctl_prefixes); k++) {
            for (uint32_t low = 0; low <= UINT16_MAX; low++) {
                const uint64_t args[6] = {0, ioctl_prefixes[k] | low};
                passed += seccomp_expect(&all_options[i], 16, args) == A;
            }
        }
        assert_int_equal(passed, ARRAY_LEN(ioctl_needed));
    }
}

/* As numbers again: 0800 and 0400 hexadecimal are 04000 and 02000, 40 is O_CREAT, 400000 the bit of
 * O_TMPFILE. Without the option all of them pass. */
static const struct {
    const char *name;
    uint64_t args[6];
    enum verdict want; /* with deny_setid */
} setid_cases[] = {
    {"chmod", {0, 0x1ed}, A},
    {"chmod", {0, 0x3ff}, A}, /* sticky */
    {"chmod", {0, 0x9ed}, P},
    {"chmod", {0, 0x5ed}, P},
    {"chmod", {0, 0xfff}, P},
    {"chmod", {0, 0xdead00000800}, P},
    {"chmod", {0, 0x8000001ed}, A},
    {"chmod", {0x800, 0x1ed, 0x800}, A},
    {"fchmod", {3, 0x1ed}, A},
    {"fchmod", {3, 0x9ed}, P},
    {"fchmod", {3, 0x400}, P},
    {"fchmodat", {3, 0, 0x1ed}, A},
    {"fchmodat", {3, 0xc00, 0x1ed}, A},
    {"fchmodat", {3, 0, 0x9ed}, P},
    {"fchmodat2", {3, 0, 0x1ed, 0x800}, A},
    {"fchmodat2", {3, 0, 0x9ed, 0x100}, P},
    {"fchmodat2", {3, 0, 0x5ed}, P},
    {"creat", {0, 0x1a4}, A},
    {"creat", {0, 0x9a4}, P},
    {"mkdir", {0, 0x1ff}, A},
    {"mkdir", {0, 0x3ff}, A},
    {"mkdir", {0, 0x5ed}, P},
    {"mkdirat", {3, 0, 0x1ff}, A},
    {"mkdirat", {3, 0, 0x5ed}, P},
    {"mknod", {0, 0x81a4}, A},
    {"mknod", {0, 0x89ed}, P},
    {"mknod", {0, 0x9ed}, P},
    {"mknod", {0, 0x15ed}, P},
    {"mknod", {0, 0x21a4}, P},
    {"mknodat", {3, 0, 0x81a4}, A},
    {"mknodat", {3, 0, 0x89ed}, P},
    {"mknodat", {3, 0, 0xc9ed}, P},
    {"open", {0, 0, 0}, A},
    {"open", {0, 0, 0xdeadbeef}, A}, /* no file is made: whatever the register held */
    {"open", {0, 0x10000, 0xfff}, A},
    {"open", {0, 0x241, 0x1b6}, A},
    {"open", {0, 0x241, 0x9b6}, P},
    {"open", {0, 0x41, 0x5b6}, P},
    {"open", {0, 0x41, 0xdb6}, P},
    {"open", {0, 0x410002, 0x180}, A},
    {"open", {0, 0x410002, 0x980}, P},
    {"open", {0, 0x400002, 0x980}, P},
    {"open", {0, 0x410042, 0x980}, P},
    {"open", {0, 0xff00000041, 0xff00000980}, P},
    {"open", {0, 0x4000000001, 0x980}, A},
    {"openat", {0x40, 0, 0, 0xfff}, A},
    {"openat", {3, 0, 0x80241, 0x1b6}, A},
    {"openat", {3, 0, 0x80241, 0x9b6}, P},
    {"openat", {3, 0, 0x80241, 0x5b6}, P},
    {"openat", {3, 0, 0x490001, 0x9b6}, P},
    {"openat", {3, 0xc40, 0x80001, 0x9b6}, A},
    {"openat2", {3}, VERDICT_ENOSYS},
    {"setxattr", {0}, A},
    {"chown", {0, 0x800, 0x800}, A},
    {"umask", {0xc00}, A},
};

static void setid_is_an_option(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(setid_cases); i++) {
        uint32_t nr = (uint32_t)number_of(setid_cases[i].name);
        bool node = strncmp(setid_cases[i].name, "mknod", 5) == 0;
        for (size_t k = 0; k < ARRAY_LEN(all_options); k++) {
            enum verdict want = setid_cases[i].want;
            if (!all_options[k].deny_setid && node)
                continue; /* devices are refused always: in the cases above */
            if (!all_options[k].deny_setid)
                want = VERDICT_ALLOW;
            enum verdict got = seccomp_expect(&all_options[k], nr, setid_cases[i].args);
            if (got != want)
                fail_msg("case %zu, %s, options %zu: %d, not %d", i, setid_cases[i].name, k, got,
                         want);
        }
    }
}

static void ptrace_is_an_option(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all_options); i++)
        assert_int_equal(expect_name(&all_options[i], "ptrace"),
                         all_options[i].allow_ptrace ? VERDICT_ALLOW : VERDICT_EPERM);
}

/* Names and numbers as the C library's headers have them. */
static void numbers_agree_with_the_header(void **state) {
    (void)state;
    _cleanup_(fclosep) FILE *f = fopen("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "re");
    if (f == NULL) {
        print_message("skipped: no asm/unistd_64.h on this machine\n");
        skip();
    }
    char line[256], name[64];
    unsigned nr, seen = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "#define __NR_%63s %u", name, &nr) != 2)
            continue;
        const char *have = seccomp_name(nr);
        if (have == NULL || strcmp(have, name) != 0)
            fail_msg("%u is %s, in the table %s", nr, name, have == NULL ? "nothing" : have);
        seen++;
    }
    assert_true(seen > 300);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_calls),
        cmocka_unit_test(errors),
        cmocka_unit_test(arguments),
        cmocka_unit_test(ioctl_is_a_list),
        cmocka_unit_test(setid_is_an_option),
        cmocka_unit_test(ptrace_is_an_option),
        cmocka_unit_test(numbers_agree_with_the_header),
    };
    return cmocka_run_group_tests_name("seccomp_policy", tests, NULL, NULL);
}
