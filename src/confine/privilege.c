#include "confine/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"

#define CAP_BIT(cap) (UINT64_C(1) << (cap))

int privilege_set_ids(uid_t uid, gid_t gid, bool change_groups) {
    /* Where uid 0 is root of our own user namespace, leaving it would cost the capabilities that
     * setting the last limits needs. */
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
        return -errno;
    /* Raw calls: the C library's wrappers would try to tell other threads. */
    if (change_groups && syscall(SYS_setgroups, 0, NULL) < 0)
        return -errno;
    if (syscall(SYS_setresgid, gid, gid, gid) < 0 || syscall(SYS_setresuid, uid, uid, uid) < 0)
        return -errno;
    return 0;
}

static const uint64_t init_capabilities =
    CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_KILL);
static const uint64_t build_capabilities =
    CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID) |
    CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_SETFCAP) | CAP_BIT(CAP_KILL);

static int set_all(uint64_t permitted, uint64_t effective, uint64_t inheritable) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    for (int i = 0; i < 2; i++) {
        data[i].permitted = (uint32_t)(permitted >> (32 * i));
        data[i].effective = (uint32_t)(effective >> (32 * i));
        data[i].inheritable = (uint32_t)(inheritable >> (32 * i));
    }
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int set_capabilities(uint64_t permitted, uint64_t inheritable) {
    return set_all(permitted, permitted, inheritable);
}

static int limit_bounding_set(uint64_t keep) {
    for (int cap = 0; cap < 64; cap++) {
        if ((keep & CAP_BIT(cap)) != 0)
            continue;
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return errno == EINVAL ? 0 : -errno; /* beyond the last one that this kernel has */
    }
    return 0;
}

int privilege_clear_capabilities(void) {
    /* Who cannot change the bounding set is an ordinary user. */
    int r = set_capabilities(CAP_BIT(CAP_SETPCAP), 0) == 0 ? limit_bounding_set(0) : 0;
    return r < 0 ? r : set_capabilities(0, 0);
}

static int get_permitted(uint64_t *ret) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    *ret = data[0].permitted | (uint64_t)data[1].permitted << 32;
    return 0;
}

int privilege_keep_capabilities(uint64_t kept, uint64_t effective) {
    uint64_t permitted = 0;
    int r = get_permitted(&permitted);
    if (r == 0 && (permitted & CAP_BIT(CAP_SETPCAP)) != 0) /* not so in some containers */
        r = limit_bounding_set(kept);
    return r < 0 ? r : set_all(permitted & kept, permitted & kept & effective, 0);
}

/* No magic for uid 0, no fix-ups, no keeping, no raising; none of it can be changed back. A build
 * needs the magic: programs there drop their rights by changing the uid and check that they did. */
static int lock_securebits(bool build) {
    unsigned long bits =
        SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    if (!build)
        bits |= SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                SECBIT_NO_SETUID_FIXUP_LOCKED;
    return prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0 ? -errno : 0;
}

/* Ambient capabilities are the only ones that the exec of an ordinary file keeps. They must be
 * inheritable to be raised, which the bounding set limits, and be raised before the securebits
 * forbid it; each step needs CAP_SETPCAP. */
int privilege_limit_capabilities(bool build, bool set_file_capabilities) {
    uint64_t keep = build ? build_capabilities : init_capabilities;
    if (!set_file_capabilities)
        keep &= ~CAP_BIT(CAP_SETFCAP);
    int r = set_capabilities(keep | CAP_BIT(CAP_SETPCAP), keep);
    if (r == 0)
        r = limit_bounding_set(build ? keep : 0);
    for (int cap = 0; cap < 64 && r == 0; cap++)
        if ((keep & CAP_BIT(cap)) != 0 &&
            prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
            r = -errno;
    if (r == 0)
        r = lock_securebits(build);
    return r < 0 ? r : set_capabilities(keep, keep);
}

int privilege_keep_init_capabilities(void) {
    return set_capabilities(init_capabilities, init_capabilities);
}

/* Beyond the maker's hard limit only a privileged maker gets. */
static int set_rlimit(int resource, rlim_t soft, rlim_t hard) {
    struct rlimit now, want = {soft, hard};
    if (setrlimit((unsigned)resource, &want) == 0)
        return 0;
    if (errno != EPERM || getrlimit((unsigned)resource, &now) < 0)
        return -errno;
    want.rlim_max = MIN(hard, now.rlim_max);
    want.rlim_cur = MIN(soft, want.rlim_max);
    return setrlimit((unsigned)resource, &want) < 0 ? -errno : 0;
}

struct own_rlimit {
    int resource;
    rlim_t soft, hard;
};

static int set_rlimits(const struct own_rlimit *limits, size_t count) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = set_rlimit(limits[i].resource, limits[i].soft, limits[i].hard);
    return r;
}

int privilege_set_common_rlimits(void) {
    static const struct own_rlimit limits[] = {
        {RLIMIT_CORE, 0, 0},
        {RLIMIT_RTPRIO, 0, 0},
        {RLIMIT_NICE, 0, 0},
        {RLIMIT_STACK, 8 * 1024 * 1024, RLIM_INFINITY},
        /* What the control group bounds. */
        {RLIMIT_AS, RLIM_INFINITY, RLIM_INFINITY},
        {RLIMIT_DATA, RLIM_INFINITY, RLIM_INFINITY},
        {RLIMIT_RSS, RLIM_INFINITY, RLIM_INFINITY},
        {RLIMIT_CPU, RLIM_INFINITY, RLIM_INFINITY},
        {RLIMIT_RTTIME, RLIM_INFINITY, RLIM_INFINITY},
        {RLIMIT_FSIZE, RLIM_INFINITY, RLIM_INFINITY},
        {RLIMIT_LOCKS, RLIM_INFINITY, RLIM_INFINITY},
    };
    return set_rlimits(limits, ARRAY_LEN(limits));
}

enum { NOFILE_SOFT = 1024, NOFILE_HARD = 65536 }; /* soft: what programs expect */

/* Only raising needs privilege, so that is done while there is some. */
static void raise_descriptor_limit(void) {
    struct rlimit now;
    if (getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_max < NOFILE_HARD)
        (void)setrlimit(RLIMIT_NOFILE, &(struct rlimit){now.rlim_cur, NOFILE_HARD});
}

int privilege_limit_descriptors(void) {
    return set_rlimit(RLIMIT_NOFILE, NOFILE_SOFT, NOFILE_HARD);
}

int privilege_set_own_rlimits(uint32_t pids) {
    static const struct own_rlimit limits[] = {
        {RLIMIT_MEMLOCK, 64 * 1024, 64 * 1024},
        {RLIMIT_MSGQUEUE, 819200, 819200},
        {RLIMIT_SIGPENDING, 4096, 4096},
    };
    raise_descriptor_limit();
    int r = set_rlimits(limits, ARRAY_LEN(limits));
    rlim_t processes = pids == 0 ? RLIM_INFINITY : pids;
    return r < 0 ? r : set_rlimit(RLIMIT_NPROC, processes, processes);
}

static int reset_io_priority(void) {
    enum { WHO_PROCESS = 1, CLASS_SHIFT = 13, CLASS_REALTIME = 1 };
    long now = syscall(SYS_ioprio_get, WHO_PROCESS, 0);
    if (now < 0)
        return errno == ENOSYS ? 0 : -errno;
    if (now >> CLASS_SHIFT != CLASS_REALTIME)
        return 0;
    return syscall(SYS_ioprio_set, WHO_PROCESS, 0, 0) < 0 ? -errno : 0;
}

int privilege_reset_priority(void) {
    const struct sched_param ordinary = {0};
    /* Raw calls: musl does not make these two. */
    int policy = (int)syscall(SYS_sched_getscheduler, 0) & ~SCHED_RESET_ON_FORK;
    bool urgent = policy != SCHED_OTHER && policy != SCHED_BATCH && policy != SCHED_IDLE;
    if (urgent && syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &ordinary) < 0)
        return -errno;
    if (getpriority(PRIO_PROCESS, 0) < 0 && setpriority(PRIO_PROCESS, 0, 0) < 0)
        return -errno;
    return reset_io_priority();
}

int privilege_reset_oom_score(void) {
    char text[16];
    ssize_t n = fd_read_file_at(AT_FDCWD, "/proc/self/oom_score_adj", text, sizeof text);
    if (n < 0)
        return (int)n;
    return text[0] == '-' ? fd_write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", "0") : 0;
}

/* The kernel's own call and structure: C libraries keep some signals for themselves, and refuse to
 * change them, but a caller may have had them ignored all the same. */
void privilege_reset_signals(void) {
    enum { LAST_SIGNAL = 64, MASK_SIZE = 8 };
    static const struct { void *handler, *flags, *restorer, *mask; } by_default = {SIG_DFL};
    for (int i = 1; i <= LAST_SIGNAL; i++) /* fails for SIGKILL and SIGSTOP, which nobody ignores */
        (void)syscall(SYS_rt_sigaction, i, &by_default, NULL, MASK_SIZE);
}

void privilege_unblock_signals(void) {
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

int privilege_exec_init(int program) {
    static const char *const argv[] = {"cay-init", NULL};
    static const char *const env[] = {NULL};
    (void)syscall(SYS_execveat, program, "", argv, env, AT_EMPTY_PATH);
    return -errno;
}
