#include "engine/native/privilege.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

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

static const uint64_t init_capabilities = CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID) |
                                          CAP_BIT(CAP_KILL);
static const uint64_t build_capabilities =
    CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID) |
    CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_SETFCAP) | CAP_BIT(CAP_KILL);

static int set_capabilities(uint64_t permitted, uint64_t inheritable) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    for (int i = 0; i < 2; i++) {
        data[i].permitted = data[i].effective = (uint32_t)(permitted >> (32 * i));
        data[i].inheritable = (uint32_t)(inheritable >> (32 * i));
    }
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
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

/* No magic for uid 0, no fix-ups, no keeping, no raising; none of it can be changed back. A build
 * needs the magic: programs there drop their rights by changing the uid and check that they did. */
static int lock_securebits(bool build) {
    unsigned long bits = SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
                         SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    if (!build)
        bits |= SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                SECBIT_NO_SETUID_FIXUP_LOCKED;
    return prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0 ? -errno : 0;
}

/* Ambient capabilities are the only ones that the exec of an ordinary file keeps. They must be
 * inheritable to be raised, which the bounding set limits, and be raised before the securebits
 * forbid it; each step needs CAP_SETPCAP. */
int privilege_limit_capabilities(bool build) {
    uint64_t keep = build ? build_capabilities : init_capabilities;
    int r = set_capabilities(keep | CAP_BIT(CAP_SETPCAP), keep);
    if (r == 0)
        r = limit_bounding_set(build ? keep : 0);
    for (int cap = 0; cap < 64 && r == 0; cap++)
        if ((keep & CAP_BIT(cap)) != 0 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
            r = -errno;
    if (r == 0)
        r = lock_securebits(build);
    return r < 0 ? r : set_capabilities(keep, keep);
}

int privilege_set_rlimits(uint32_t pids) {
    static const struct {
        int resource;
        rlim_t limit;
    } limits[] = {
        {RLIMIT_CORE, 0},
        {RLIMIT_NOFILE, 65536},
        {RLIMIT_MEMLOCK, 64 * 1024},
        {RLIMIT_MSGQUEUE, 819200},
        {RLIMIT_RTPRIO, 0},
        {RLIMIT_NICE, 20},
    };
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        struct rlimit now, want;
        if (getrlimit((unsigned)limits[i].resource, &now) < 0)
            return -errno;
        /* A hard limit that is lower already cannot be raised, and need not be. */
        want.rlim_cur = want.rlim_max = MIN(limits[i].limit, now.rlim_max);
        if (limits[i].resource == RLIMIT_NOFILE)
            want.rlim_cur = MIN((rlim_t)1024, want.rlim_max); /* what programs expect */
        if (setrlimit((unsigned)limits[i].resource, &want) < 0)
            return -errno;
    }
    if (pids == 0)
        return 0;
    struct rlimit processes = {pids, pids};
    return setrlimit(RLIMIT_NPROC, &processes) < 0 ? -errno : 0;
}

void privilege_reset_signals(void) {
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (int i = 1; i < 32; i++)
        if (i != SIGKILL && i != SIGSTOP)
            (void)sigaction(i, &action, NULL); /* cannot fail for these */
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}
