/* The system-call policy of sandboxes as data: what seccomp.c compiles into a filter and what
 * seccomp_expect() answers from. Included by seccomp.c only.
 *
 * It is a list of what is allowed: a number that is missing here, or is newer than this file, is
 * answered with ENOSYS, which every program must expect from an older kernel. */
#pragma once

#include <stdint.h>

#include "confine/seccomp_rules.h"

struct seccomp_call {
    uint16_t nr;
    uint16_t rule; /* enum rule, before the options are known */
    const char *name;
};

#define CALL(number, text, verdict)                                                                \
    { .nr = (number), .rule = RULE_##verdict, .name = #text }

/* ALLOW   passes
 * ABSENT  ENOSYS, as if the kernel did not have it: programs fall back
 * REFUSE  EPERM, where the kernel itself says so to the unprivileged and programs tell their users;
 *         or where ENOSYS would be taken for a broken system (mount, unshare, ptrace)
 * others  depend on arguments or options: the condition of that name in seccomp_rules.h */
static const struct seccomp_call seccomp_calls[] = {
    CALL(0, read, ALLOW), CALL(1, write, ALLOW), CALL(2, open, OPEN), CALL(3, close, ALLOW),
    CALL(4, stat, ALLOW), CALL(5, fstat, ALLOW), CALL(6, lstat, ALLOW), CALL(7, poll, ALLOW),
    CALL(8, lseek, ALLOW), CALL(9, mmap, ALLOW), CALL(10, mprotect, ALLOW), CALL(11, munmap, ALLOW),
    CALL(12, brk, ALLOW), CALL(13, rt_sigaction, ALLOW), CALL(14, rt_sigprocmask, ALLOW),
    CALL(15, rt_sigreturn, ALLOW), CALL(16, ioctl, IOCTL), CALL(17, pread64, ALLOW),
    CALL(18, pwrite64, ALLOW), CALL(19, readv, ALLOW), CALL(20, writev, ALLOW),
    CALL(21, access, ALLOW), CALL(22, pipe, ALLOW), CALL(23, select, ALLOW),
    CALL(24, sched_yield, ALLOW), CALL(25, mremap, ALLOW), CALL(26, msync, ALLOW),
    CALL(27, mincore, ABSENT), CALL(28, madvise, ALLOW), CALL(29, shmget, ALLOW),
    CALL(30, shmat, ALLOW), CALL(31, shmctl, ALLOW), CALL(32, dup, ALLOW), CALL(33, dup2, ALLOW),
    CALL(34, pause, ALLOW), CALL(35, nanosleep, ALLOW), CALL(36, getitimer, ALLOW),
    CALL(37, alarm, ALLOW), CALL(38, setitimer, ALLOW), CALL(39, getpid, ALLOW),
    CALL(40, sendfile, ALLOW), CALL(41, socket, SOCKET), CALL(42, connect, ALLOW),
    CALL(43, accept, ALLOW), CALL(44, sendto, ALLOW), CALL(45, recvfrom, ALLOW),
    CALL(46, sendmsg, ALLOW), CALL(47, recvmsg, ALLOW), CALL(48, shutdown, ALLOW),
    CALL(49, bind, ALLOW), CALL(50, listen, ALLOW), CALL(51, getsockname, ALLOW),
    CALL(52, getpeername, ALLOW), CALL(53, socketpair, SOCKET), CALL(54, setsockopt, SETSOCKOPT),
    CALL(55, getsockopt, ALLOW), CALL(56, clone, CLONE), CALL(57, fork, ALLOW),
    CALL(58, vfork, ALLOW), CALL(59, execve, ALLOW), CALL(60, exit, ALLOW), CALL(61, wait4, ALLOW),
    CALL(62, kill, ALLOW), CALL(63, uname, ALLOW), CALL(64, semget, ALLOW), CALL(65, semop, ALLOW),
    CALL(66, semctl, ALLOW), CALL(67, shmdt, ALLOW), CALL(68, msgget, ALLOW),
    CALL(69, msgsnd, ALLOW), CALL(70, msgrcv, ALLOW), CALL(71, msgctl, ALLOW),
    CALL(72, fcntl, ALLOW), CALL(73, flock, ALLOW), CALL(74, fsync, ALLOW),
    CALL(75, fdatasync, ALLOW), CALL(76, truncate, ALLOW), CALL(77, ftruncate, ALLOW),
    CALL(78, getdents, ALLOW), CALL(79, getcwd, ALLOW), CALL(80, chdir, ALLOW),
    CALL(81, fchdir, ALLOW), CALL(82, rename, ALLOW), CALL(83, mkdir, MODE_SECOND),
    CALL(84, rmdir, ALLOW), CALL(85, creat, MODE_SECOND), CALL(86, link, ALLOW),
    CALL(87, unlink, ALLOW), CALL(88, symlink, ALLOW), CALL(89, readlink, ALLOW),
    CALL(90, chmod, MODE_SECOND), CALL(91, fchmod, MODE_SECOND), CALL(92, chown, ALLOW),
    CALL(93, fchown, ALLOW), CALL(94, lchown, ALLOW), CALL(95, umask, ALLOW),
    CALL(96, gettimeofday, ALLOW), CALL(97, getrlimit, ALLOW), CALL(98, getrusage, ALLOW),
    CALL(99, sysinfo, ALLOW), CALL(100, times, ALLOW), CALL(101, ptrace, PTRACE),
    CALL(102, getuid, ALLOW), CALL(103, syslog, REFUSE), CALL(104, getgid, ALLOW),
    CALL(105, setuid, ALLOW), CALL(106, setgid, ALLOW), CALL(107, geteuid, ALLOW),
    CALL(108, getegid, ALLOW), CALL(109, setpgid, ALLOW), CALL(110, getppid, ALLOW),
    CALL(111, getpgrp, ALLOW), CALL(112, setsid, ALLOW), CALL(113, setreuid, ALLOW),
    CALL(114, setregid, ALLOW), CALL(115, getgroups, ALLOW), CALL(116, setgroups, ALLOW),
    CALL(117, setresuid, ALLOW), CALL(118, getresuid, ALLOW), CALL(119, setresgid, ALLOW),
    CALL(120, getresgid, ALLOW), CALL(121, getpgid, ALLOW), CALL(122, setfsuid, ALLOW),
    CALL(123, setfsgid, ALLOW), CALL(124, getsid, ALLOW), CALL(125, capget, ALLOW),
    CALL(126, capset, ALLOW), CALL(127, rt_sigpending, ALLOW), CALL(128, rt_sigtimedwait, ALLOW),
    CALL(129, rt_sigqueueinfo, ALLOW), CALL(130, rt_sigsuspend, ALLOW),
    CALL(131, sigaltstack, ALLOW), CALL(132, utime, ALLOW), CALL(133, mknod, MKNOD),
    CALL(134, uselib, ABSENT), CALL(135, personality, PERSONALITY), CALL(136, ustat, ABSENT),
    CALL(137, statfs, ALLOW), CALL(138, fstatfs, ALLOW), CALL(139, sysfs, ABSENT),
    CALL(140, getpriority, ALLOW), CALL(141, setpriority, ALLOW), CALL(142, sched_setparam, ALLOW),
    CALL(143, sched_getparam, ALLOW), CALL(144, sched_setscheduler, ALLOW),
    CALL(145, sched_getscheduler, ALLOW), CALL(146, sched_get_priority_max, ALLOW),
    CALL(147, sched_get_priority_min, ALLOW), CALL(148, sched_rr_get_interval, ALLOW),
    CALL(149, mlock, ALLOW), CALL(150, munlock, ALLOW), CALL(151, mlockall, ALLOW),
    CALL(152, munlockall, ALLOW), CALL(153, vhangup, ABSENT),
    /* 16-bit segments, another root, dead code: nothing in user code needs them. */
    CALL(154, modify_ldt, ABSENT), CALL(155, pivot_root, ABSENT), CALL(156, _sysctl, ABSENT),
    CALL(157, prctl, PRCTL), CALL(158, arch_prctl, ALLOW),
    /* ENOSYS is what a time daemon's probe takes for "no clock to discipline". */
    CALL(159, adjtimex, ABSENT), CALL(160, setrlimit, ALLOW), CALL(161, chroot, CHROOT),
    CALL(162, sync, ALLOW),
    /* Global state of the host. Programs know EPERM from every unprivileged system. */
    CALL(163, acct, REFUSE), CALL(164, settimeofday, REFUSE), CALL(165, mount, REFUSE),
    CALL(166, umount2, REFUSE), CALL(167, swapon, REFUSE), CALL(168, swapoff, REFUSE),
    CALL(169, reboot, REFUSE), CALL(170, sethostname, REFUSE), CALL(171, setdomainname, REFUSE),
    /* Hardware ports, kernel code, and numbers without a call behind them. */
    CALL(172, iopl, ABSENT), CALL(173, ioperm, ABSENT), CALL(174, create_module, ABSENT),
    CALL(175, init_module, ABSENT), CALL(176, delete_module, ABSENT),
    CALL(177, get_kernel_syms, ABSENT), CALL(178, query_module, ABSENT),
    CALL(179, quotactl, ABSENT), CALL(180, nfsservctl, ABSENT), CALL(181, getpmsg, ABSENT),
    CALL(182, putpmsg, ABSENT), CALL(183, afs_syscall, ABSENT), CALL(184, tuxcall, ABSENT),
    CALL(185, security, ABSENT), CALL(186, gettid, ALLOW), CALL(187, readahead, ALLOW),
    CALL(188, setxattr, ALLOW), CALL(189, lsetxattr, ALLOW), CALL(190, fsetxattr, ALLOW),
    CALL(191, getxattr, ALLOW), CALL(192, lgetxattr, ALLOW), CALL(193, fgetxattr, ALLOW),
    CALL(194, listxattr, ALLOW), CALL(195, llistxattr, ALLOW), CALL(196, flistxattr, ALLOW),
    CALL(197, removexattr, ALLOW), CALL(198, lremovexattr, ALLOW), CALL(199, fremovexattr, ALLOW),
    CALL(200, tkill, ALLOW), CALL(201, time, ALLOW), CALL(202, futex, ALLOW),
    CALL(203, sched_setaffinity, ALLOW), CALL(204, sched_getaffinity, ALLOW),
    /* Thread areas are for 32-bit code. */
    CALL(205, set_thread_area, ABSENT), CALL(206, io_setup, ABSENT), CALL(207, io_destroy, ABSENT),
    CALL(208, io_getevents, ABSENT), CALL(209, io_submit, ABSENT), CALL(210, io_cancel, ABSENT),
    CALL(211, get_thread_area, ABSENT), CALL(212, lookup_dcookie, ABSENT),
    CALL(213, epoll_create, ALLOW), CALL(214, epoll_ctl_old, ABSENT),
    CALL(215, epoll_wait_old, ABSENT),
    /* An emulated leftover with a history of races. */
    CALL(216, remap_file_pages, ABSENT), CALL(217, getdents64, ALLOW),
    CALL(218, set_tid_address, ALLOW), CALL(219, restart_syscall, ALLOW),
    CALL(220, semtimedop, ALLOW), CALL(221, fadvise64, ALLOW), CALL(222, timer_create, ALLOW),
    CALL(223, timer_settime, ALLOW), CALL(224, timer_gettime, ALLOW),
    CALL(225, timer_getoverrun, ALLOW), CALL(226, timer_delete, ALLOW),
    CALL(227, clock_settime, REFUSE), CALL(228, clock_gettime, ALLOW),
    CALL(229, clock_getres, ALLOW), CALL(230, clock_nanosleep, ALLOW), CALL(231, exit_group, ALLOW),
    CALL(232, epoll_wait, ALLOW), CALL(233, epoll_ctl, ALLOW), CALL(234, tgkill, ALLOW),
    CALL(235, utimes, ALLOW), CALL(236, vserver, ABSENT),
    /* Placement on the host's memory nodes; libnuma takes ENOSYS as "no NUMA here". */
    CALL(237, mbind, ABSENT), CALL(238, set_mempolicy, ABSENT), CALL(239, get_mempolicy, ABSENT),
    CALL(240, mq_open, ALLOW), CALL(241, mq_unlink, ALLOW), CALL(242, mq_timedsend, ALLOW),
    CALL(243, mq_timedreceive, ALLOW), CALL(244, mq_notify, ALLOW), CALL(245, mq_getsetattr, ALLOW),
    /* A new kernel; keyrings are not namespaced. */
    CALL(246, kexec_load, ABSENT), CALL(247, waitid, ALLOW), CALL(248, add_key, ABSENT),
    CALL(249, request_key, ABSENT), CALL(250, keyctl, ABSENT), CALL(251, ioprio_set, ALLOW),
    CALL(252, ioprio_get, ALLOW), CALL(253, inotify_init, ALLOW),
    CALL(254, inotify_add_watch, ALLOW), CALL(255, inotify_rm_watch, ALLOW),
    CALL(256, migrate_pages, ABSENT), CALL(257, openat, OPENAT), CALL(258, mkdirat, MODE_THIRD),
    CALL(259, mknodat, MKNODAT), CALL(260, fchownat, ALLOW), CALL(261, futimesat, ALLOW),
    CALL(262, newfstatat, ALLOW), CALL(263, unlinkat, ALLOW), CALL(264, renameat, ALLOW),
    CALL(265, linkat, ALLOW), CALL(266, symlinkat, ALLOW), CALL(267, readlinkat, ALLOW),
    CALL(268, fchmodat, MODE_THIRD), CALL(269, faccessat, ALLOW), CALL(270, pselect6, ALLOW),
    CALL(271, ppoll, ALLOW), CALL(272, unshare, UNSHARE), CALL(273, set_robust_list, ALLOW),
    CALL(274, get_robust_list, ALLOW), CALL(275, splice, ALLOW), CALL(276, tee, ALLOW),
    CALL(277, sync_file_range, ALLOW),
    /* Gives user pages to the kernel and is hardly used. */
    CALL(278, vmsplice, ABSENT), CALL(279, move_pages, ABSENT), CALL(280, utimensat, ALLOW),
    CALL(281, epoll_pwait, ALLOW), CALL(282, signalfd, ALLOW), CALL(283, timerfd_create, ALLOW),
    CALL(284, eventfd, ALLOW), CALL(285, fallocate, ALLOW), CALL(286, timerfd_settime, ALLOW),
    CALL(287, timerfd_gettime, ALLOW), CALL(288, accept4, ALLOW), CALL(289, signalfd4, ALLOW),
    CALL(290, eventfd2, ALLOW), CALL(291, epoll_create1, ALLOW), CALL(292, dup3, ALLOW),
    CALL(293, pipe2, ALLOW), CALL(294, inotify_init1, ALLOW), CALL(295, preadv, ALLOW),
    CALL(296, pwritev, ALLOW), CALL(297, rt_tgsigqueueinfo, ALLOW),
    /* JIT and side channels. */
    CALL(298, perf_event_open, ABSENT), CALL(299, recvmmsg, ALLOW),
    /* Other users' file events. */
    CALL(300, fanotify_init, ABSENT), CALL(301, fanotify_mark, ABSENT), CALL(302, prlimit64, ALLOW),
    /* Handles open any inode of a file system, whatever the mount tree says. */
    CALL(303, name_to_handle_at, ABSENT), CALL(304, open_by_handle_at, ABSENT),
    CALL(305, clock_adjtime, ABSENT), CALL(306, syncfs, ALLOW), CALL(307, sendmmsg, ALLOW),
    CALL(308, setns, REFUSE), CALL(309, getcpu, ALLOW),
    /* Memory and descriptors of other processes. ptrace, where it is allowed, is enough. */
    CALL(310, process_vm_readv, ABSENT), CALL(311, process_vm_writev, ABSENT),
    CALL(312, kcmp, ABSENT), CALL(313, finit_module, ABSENT), CALL(314, sched_setattr, ALLOW),
    CALL(315, sched_getattr, ALLOW), CALL(316, renameat2, ALLOW), CALL(317, seccomp, ALLOW),
    CALL(318, getrandom, ALLOW), CALL(319, memfd_create, ALLOW), CALL(320, kexec_file_load, ABSENT),
    CALL(321, bpf, ABSENT), CALL(322, execveat, ALLOW), CALL(323, userfaultfd, ABSENT),
    CALL(324, membarrier, ALLOW), CALL(325, mlock2, ALLOW), CALL(326, copy_file_range, ALLOW),
    CALL(327, preadv2, ALLOW), CALL(328, pwritev2, ALLOW), CALL(329, pkey_mprotect, ALLOW),
    CALL(330, pkey_alloc, ALLOW), CALL(331, pkey_free, ALLOW), CALL(332, statx, ALLOW),
    CALL(333, io_pgetevents, ABSENT), CALL(334, rseq, ALLOW),
    /* Newer kernels let these pass whatever a filter says; they fail outside of a probe. */
    CALL(335, uretprobe, ALLOW), CALL(336, uprobe, ALLOW), CALL(424, pidfd_send_signal, ALLOW),
    /* Large, and its operations bypass this filter. */
    CALL(425, io_uring_setup, ABSENT), CALL(426, io_uring_enter, ABSENT),
    CALL(427, io_uring_register, ABSENT),
    /* The new mount API. */
    CALL(428, open_tree, ABSENT), CALL(429, move_mount, ABSENT), CALL(430, fsopen, ABSENT),
    CALL(431, fsconfig, ABSENT), CALL(432, fsmount, ABSENT), CALL(433, fspick, ABSENT),
    CALL(434, pidfd_open, ALLOW),
    /* Its flags are behind a pointer; C libraries fall back to clone on ENOSYS, not on EPERM. */
    CALL(435, clone3, ABSENT), CALL(436, close_range, ALLOW),
    /* Its mode is behind a pointer. */
    CALL(437, openat2, OPENAT2), CALL(438, pidfd_getfd, ABSENT), CALL(439, faccessat2, ALLOW),
    CALL(440, process_madvise, ABSENT), CALL(441, epoll_pwait2, ALLOW),
    CALL(442, mount_setattr, ABSENT), CALL(443, quotactl_fd, ABSENT),
    CALL(444, landlock_create_ruleset, ALLOW), CALL(445, landlock_add_rule, ALLOW),
    CALL(446, landlock_restrict_self, ALLOW),
    /* Memory that the host cannot swap. */
    CALL(447, memfd_secret, ABSENT), CALL(448, process_mrelease, ABSENT),
    CALL(449, futex_waitv, ALLOW), CALL(450, set_mempolicy_home_node, ABSENT),
    CALL(451, cachestat, ABSENT), CALL(452, fchmodat2, MODE_THIRD),
    CALL(453, map_shadow_stack, ALLOW), CALL(454, futex_wake, ALLOW), CALL(455, futex_wait, ALLOW),
    CALL(456, futex_requeue, ALLOW),
    /* Host paths in the mount table. */
    CALL(457, statmount, ABSENT), CALL(458, listmount, ABSENT),
    /* The host's security modules. */
    CALL(459, lsm_get_self_attr, ABSENT), CALL(460, lsm_set_self_attr, ABSENT),
    CALL(461, lsm_list_modules, ABSENT), CALL(462, mseal, ALLOW), CALL(463, setxattrat, ALLOW),
    CALL(464, getxattrat, ALLOW), CALL(465, listxattrat, ALLOW), CALL(466, removexattrat, ALLOW),
    CALL(467, open_tree_attr, ABSENT), CALL(468, file_getattr, ALLOW),
    /* Project ids decide whose quota pays. */
    CALL(469, file_setattr, ABSENT),
    /* Namespaces of others. */
    CALL(470, listns, ABSENT), CALL(471, rseq_slice_yield, ALLOW)};

#undef CALL
