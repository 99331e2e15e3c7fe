/* The system-call policies of the daemon's own processes, as what they change of the sandboxes'
 * table. Included by seccomp.c only. */
#pragma once

#include <stdint.h>
#include <sys/syscall.h>

#include "engine/native/seccomp_rules.h"

/* Of call nr, this rule instead of the table's. */
struct seccomp_change {
    uint16_t nr;
    uint16_t rule; /* enum rule */
};

/* The front serves the network: what it may is a list, the one of sandboxes. It starts no program
 * and no process but its threads, signals nobody, and has given up its ids before. */
static const struct seccomp_change front_changes[] = {
    {SYS_execve, RULE_REFUSE},
    {SYS_execveat, RULE_REFUSE},
    {SYS_fork, RULE_REFUSE},
    {SYS_vfork, RULE_REFUSE},
    {SYS_clone, RULE_THREAD},
    {SYS_kill, RULE_REFUSE},
    {SYS_tkill, RULE_REFUSE},
    {SYS_rt_sigqueueinfo, RULE_REFUSE},
    {SYS_rt_tgsigqueueinfo, RULE_REFUSE},
    {SYS_pidfd_open, RULE_REFUSE},
    {SYS_pidfd_send_signal, RULE_REFUSE},
    {SYS_setuid, RULE_REFUSE},
    {SYS_setgid, RULE_REFUSE},
    {SYS_setreuid, RULE_REFUSE},
    {SYS_setregid, RULE_REFUSE},
    {SYS_setresuid, RULE_REFUSE},
    {SYS_setresgid, RULE_REFUSE},
    {SYS_setfsuid, RULE_REFUSE},
    {SYS_setfsgid, RULE_REFUSE},
    {SYS_setgroups, RULE_REFUSE},
    {SYS_capset, RULE_REFUSE},
    {SYS_personality, RULE_REFUSE},
    {SYS_mknod, RULE_REFUSE},
    {SYS_mknodat, RULE_REFUSE},
    /* SysV ipc, message queues and asynchronous files: kernel code that nothing in it uses. */
    {SYS_shmget, RULE_ABSENT},
    {SYS_shmat, RULE_ABSENT},
    {SYS_shmctl, RULE_ABSENT},
    {SYS_shmdt, RULE_ABSENT},
    {SYS_semget, RULE_ABSENT},
    {SYS_semop, RULE_ABSENT},
    {SYS_semctl, RULE_ABSENT},
    {SYS_semtimedop, RULE_ABSENT},
    {SYS_msgget, RULE_ABSENT},
    {SYS_msgsnd, RULE_ABSENT},
    {SYS_msgrcv, RULE_ABSENT},
    {SYS_msgctl, RULE_ABSENT},
    {SYS_mq_open, RULE_ABSENT},
    {SYS_mq_unlink, RULE_ABSENT},
    {SYS_mq_timedsend, RULE_ABSENT},
    {SYS_mq_timedreceive, RULE_ABSENT},
    {SYS_mq_notify, RULE_ABSENT},
    {SYS_mq_getsetattr, RULE_ABSENT},
    {SYS_io_setup, RULE_ABSENT},
    {SYS_io_destroy, RULE_ABSENT},
    {SYS_io_getevents, RULE_ABSENT},
    {SYS_io_submit, RULE_ABSENT},
    {SYS_io_cancel, RULE_ABSENT},
};

/* What the launcher loads comes below the filter of every sandbox: so it refuses what no sandbox
 * may do either, and where both refuse, the kernel answers with the sandbox's error. EPERM and not
 * the end, for that reason too. */
static const struct seccomp_change launcher_changes[] = {
    /* The kernel itself: its code, its end, its clock, its hardware. */
    {SYS_init_module, RULE_REFUSE},
    {SYS_finit_module, RULE_REFUSE},
    {SYS_delete_module, RULE_REFUSE},
    {SYS_kexec_load, RULE_REFUSE},
    {SYS_kexec_file_load, RULE_REFUSE},
    {SYS_bpf, RULE_BPF},
    {SYS_reboot, RULE_REFUSE},
    {SYS_settimeofday, RULE_REFUSE},
    {SYS_clock_settime, RULE_REFUSE},
    {SYS_adjtimex, RULE_REFUSE},
    {SYS_clock_adjtime, RULE_REFUSE},
    {SYS_iopl, RULE_REFUSE},
    {SYS_ioperm, RULE_REFUSE},
    {SYS_modify_ldt, RULE_REFUSE},
    {SYS_syslog, RULE_REFUSE},
    /* Its accounts. */
    {SYS_acct, RULE_REFUSE},
    {SYS_swapon, RULE_REFUSE},
    {SYS_swapoff, RULE_REFUSE},
    {SYS_quotactl, RULE_REFUSE},
    {443 /* quotactl_fd, newer than some headers */, RULE_REFUSE},
    /* Other processes: their memory, descriptors, keys and files. */
    {SYS_ptrace, RULE_REFUSE},
    {SYS_process_vm_readv, RULE_REFUSE},
    {SYS_process_vm_writev, RULE_REFUSE},
    {SYS_process_madvise, RULE_REFUSE},
    {SYS_pidfd_getfd, RULE_REFUSE},
    {SYS_kcmp, RULE_REFUSE},
    {SYS_migrate_pages, RULE_REFUSE},
    {SYS_move_pages, RULE_REFUSE},
    {SYS_add_key, RULE_REFUSE},
    {SYS_request_key, RULE_REFUSE},
    {SYS_keyctl, RULE_REFUSE},
    {SYS_open_by_handle_at, RULE_REFUSE},
    {SYS_fanotify_init, RULE_REFUSE},
    /* Favourites of exploits. */
    {SYS_perf_event_open, RULE_REFUSE},
    {SYS_userfaultfd, RULE_REFUSE},
    {SYS_io_uring_setup, RULE_REFUSE},
    {SYS_io_uring_enter, RULE_REFUSE},
    {SYS_io_uring_register, RULE_REFUSE},
    {SYS_vmsplice, RULE_REFUSE},
    {SYS_remap_file_pages, RULE_REFUSE},
};
