/* Confining the two processes that unpack a layer. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "confine/landlock.h"
#include "confine/privilege.h"
#include "confine/syscalls.h"
#include "imager/unpack/internal.h"

#ifndef __x86_64__
#error "the filter names the architecture; another one needs its own"
#endif

#define CAP_BIT(cap) (UINT64_C(1) << (cap))

/* Over the owners, modes and capabilities of files, inside the user namespace only. */
static const uint64_t applier_capabilities = CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) |
                                             CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID) |
                                             CAP_BIT(CAP_SETFCAP);

/* ---- descriptors ---- */

/* Closes everything from 3 on but the kept ones, which are few. */
static int close_others(const int *keep, size_t count) {
    unsigned from = 3;
    for (;;) {
        int next = -1;
        for (size_t i = 0; i < count; i++)
            if (keep[i] >= (int)from && (next < 0 || keep[i] < next))
                next = keep[i];
        unsigned last = next < 0 ? ~0U : (unsigned)next - 1;
        if (next != (int)from && close_range(from, last, 0) < 0)
            return -errno;
        if (next < 0)
            return 0;
        from = (unsigned)next + 1;
    }
}

/* What a library may print, on its way to abort, goes nowhere. */
static int silence(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return -errno;
    for (int fd = 0; fd < 3; fd++)
        if (null != fd && dup2(null, fd) < 0)
            return -errno;
    return 0;
}

/* ---- privilege ---- */

static int set_limits(const struct unpack_job *job) {
    const struct {
        int resource;
        rlim_t value;
    } limits[] = {
        {RLIMIT_CORE, 0},
        {RLIMIT_NOFILE, 1024 + UNPACK_DEPTH_MAX}, /* removing a tree takes two for each level */
        {RLIMIT_FSIZE, job->limits.bytes},
        {RLIMIT_DATA, job->memory},
        {RLIMIT_NPROC, 0},
        {RLIMIT_CPU, 3600},
        {RLIMIT_MEMLOCK, 0},
        {RLIMIT_MSGQUEUE, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        struct rlimit now;
        if (getrlimit((unsigned)limits[i].resource, &now) < 0)
            return -errno;
        rlim_t value = MIN(limits[i].value, now.rlim_max);
        if (setrlimit((unsigned)limits[i].resource, &(struct rlimit){value, value}) < 0)
            return -errno;
    }
    return 0;
}

static int set_capabilities(uint64_t keep) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    for (int i = 0; i < 2; i++)
        data[i].permitted = data[i].effective = (uint32_t)(keep >> (32 * i));
    for (int cap = 0; cap < 64; cap++) /* beyond the last one it fails */
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
            return -errno;
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

/* ---- system calls ---- */

/* What malloc needs, and to end. */
#define CALLS_OF_MEMORY                                                                            \
    SYS_mmap, SYS_munmap, SYS_mremap, SYS_brk, SYS_madvise, SYS_mprotect, SYS_futex,               \
        SYS_getrandom, SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_restart_syscall,            \
        SYS_sched_yield, SYS_getpid, SYS_gettid

static const uint32_t reader_calls[] = {SYS_read, SYS_lseek, SYS_write, CALLS_OF_MEMORY};

static const uint32_t applier_calls[] = {
    SYS_read,      SYS_write,      CALLS_OF_MEMORY,  SYS_pwrite64, SYS_lseek,    SYS_ftruncate,
    SYS_close,     SYS_fcntl,      SYS_openat,       SYS_openat2,  SYS_fstat,    SYS_newfstatat,
    SYS_statx,     SYS_getdents64, SYS_mkdirat,      SYS_unlinkat, SYS_renameat, SYS_linkat,
    SYS_symlinkat, SYS_mknodat,    SYS_fchown,       SYS_fchownat, SYS_fchmod,   SYS_utimensat,
    SYS_fsetxattr, SYS_flistxattr, SYS_fremovexattr,
};

enum { FILTER_MAX = 2 * ARRAY_LEN(applier_calls) + 8 };

/* These numbers pass, everything else is a call that this kernel does not have; a foreign ABI's
 * numbers, which mean something else, end the process. */
static int load_filter(const uint32_t *calls, size_t count) {
    struct sock_filter code[FILTER_MAX];
    unsigned short n = 0;
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
    const struct sock_fprog program = {.len = n, .filter = code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

/* ---- all of it ---- */

static int prepare_process(const struct unpack_job *job) {
    privilege_reset_signals();
    privilege_unblock_signals();
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
        return -errno;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    if (getppid() != job->parent) /* it died before we could ask to be told */
        return -ESRCH;
    (void)umask(0);
    (void)uselocale(job->locale);
    return 0;
}

static int change_root(int root) {
    if (unshare(CLONE_NEWNET | CLONE_NEWIPC) < 0)
        return -errno;
    return fchdir(root) < 0 || chroot(".") < 0 || chdir("/") < 0 ? -errno : 0;
}

/* The reader opens nothing, the applier what is in its root. */
static int restrict_files(bool reads) {
    int abi = landlock_abi();
    if (abi == 0)
        return 0;
    _cleanup_(closep) int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    const struct landlock_place place = {root, LANDLOCK_FILL};
    return landlock_restrict_to(abi, &place, reads ? 0 : 1);
}

int unpack_confine(const struct unpack_job *job, enum unpack_role role, const int *keep,
                   size_t count, struct cay_error *err) {
    bool reads = role == UNPACK_READER;
    int r = prepare_process(job);
    if (r == 0)
        r = silence();
    if (r == 0)
        r = change_root(job->root);
    if (r == 0)
        r = restrict_files(reads);
    if (r == 0)
        r = close_others(keep, count);
    if (r == 0)
        r = set_limits(job);
    if (r == 0)
        r = set_capabilities(reads ? 0 : applier_capabilities);
    if (r == 0)
        r = reads ? load_filter(reader_calls, ARRAY_LEN(reader_calls))
                  : load_filter(applier_calls, ARRAY_LEN(applier_calls));
    if (r == 0)
        return 0;
    error_sys(err, -r, "unpacking a layer: confining its process");
    return error_remedy(err, "this needs root in a user namespace; see cay doctor");
}
