/* The conditions of the system-call policy, as data: which arguments of a call pass. Included by
 * seccomp.c only; the table of calls is seccomp_table.h. */
#pragma once

#include "engine/native/seccomp.h"

#include <linux/netlink.h>
#include <linux/personality.h>
#include <linux/prctl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/auto.h"

/* One comparison: (argument & mask) == value, on the low 32 bits. All arguments compared here are
 * 32-bit in the kernel, which drops the upper half: comparing it would let a caller hide in it. */
struct seccomp_test {
    uint32_t mask;
    uint32_t value;
    uint8_t arg;
};

/* All `count` tests hold. */
struct seccomp_match {
    struct seccomp_test tests[3];
    uint8_t count;
};

/* `hit` if any of the matches holds, else `miss`. Without matches it is plainly `miss`. */
struct seccomp_condition {
    const struct seccomp_match *matches;
    uint8_t count;
    enum verdict hit;
    enum verdict miss;
};

#define IS(a, v)                                                                                   \
    { .arg = (a), .mask = UINT32_MAX, .value = (v) }
#define HAS(a, m, v)                                                                               \
    { .arg = (a), .mask = (m), .value = (v) }
#define ONE(t)                                                                                     \
    { .tests = {t}, .count = 1 }
#define TWO(t, u)                                                                                  \
    { .tests = {t, u}, .count = 2 }
#define THREE(t, u, w)                                                                             \
    { .tests = {t, u, w}, .count = 3 }

/* CLONE_NEWTIME is not among clone's flags: that bit belongs to its signal number. */
enum {
    CLONE_NEW_UNSAFE = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC,
    CLONE_NEW_NESTED = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET,
    CLONE_NEW_TIME = 0x80,
};

static const struct seccomp_match clone_plain[] = {
    ONE(HAS(0, CLONE_NEW_UNSAFE | CLONE_NEW_NESTED, 0)),
};

/* What Chromium's own sandbox asks for. */
static const struct seccomp_match clone_nested[] = {
    ONE(HAS(0, CLONE_NEW_UNSAFE, 0)),
};

static const struct seccomp_match unshare_nested[] = {
    ONE(HAS(0, CLONE_NEW_UNSAFE | CLONE_NEW_TIME, 0)),
};

#define FAMILY(f)   IS(0, f)
#define TYPE(t)     HAS(1, ~(uint32_t)(SOCK_NONBLOCK | SOCK_CLOEXEC), t)
#define PROTOCOL(p) IS(2, p)

/* SEQPACKET stays within unix sockets; Chromium's processes talk over it. */
static const struct seccomp_match socket_allowed[] = {
    TWO(FAMILY(AF_UNIX), TYPE(SOCK_STREAM)),
    TWO(FAMILY(AF_UNIX), TYPE(SOCK_DGRAM)),
    TWO(FAMILY(AF_UNIX), TYPE(SOCK_SEQPACKET)),
    THREE(FAMILY(AF_INET), TYPE(SOCK_STREAM), PROTOCOL(0)),
    THREE(FAMILY(AF_INET), TYPE(SOCK_STREAM), PROTOCOL(IPPROTO_TCP)),
    THREE(FAMILY(AF_INET), TYPE(SOCK_DGRAM), PROTOCOL(0)),
    THREE(FAMILY(AF_INET), TYPE(SOCK_DGRAM), PROTOCOL(IPPROTO_UDP)),
    THREE(FAMILY(AF_INET), TYPE(SOCK_DGRAM), PROTOCOL(IPPROTO_ICMP)),
    THREE(FAMILY(AF_INET6), TYPE(SOCK_STREAM), PROTOCOL(0)),
    THREE(FAMILY(AF_INET6), TYPE(SOCK_STREAM), PROTOCOL(IPPROTO_TCP)),
    THREE(FAMILY(AF_INET6), TYPE(SOCK_DGRAM), PROTOCOL(0)),
    THREE(FAMILY(AF_INET6), TYPE(SOCK_DGRAM), PROTOCOL(IPPROTO_UDP)),
    THREE(FAMILY(AF_INET6), TYPE(SOCK_DGRAM), PROTOCOL(IPPROTO_ICMPV6)),
    THREE(FAMILY(AF_NETLINK), TYPE(SOCK_RAW), PROTOCOL(NETLINK_ROUTE)),
    THREE(FAMILY(AF_NETLINK), TYPE(SOCK_DGRAM), PROTOCOL(NETLINK_ROUTE)),
};

/* Input into another's terminal, the console's clipboard, and line disciplines: drivers that nobody
 * uses on a pseudo terminal and that brought kernel bugs. */
static const struct seccomp_match ioctl_refused[] = {
    ONE(IS(1, TIOCSTI)),
    ONE(IS(1, TIOCLINUX)),
    ONE(IS(1, TIOCSETD)),
};

/* Linux, 32-bit Linux, their 2.6 version numbers, and asking. None switches off ASLR. */
static const struct seccomp_match personality_allowed[] = {
    ONE(IS(0, UINT32_MAX)),
    ONE(IS(0, PER_LINUX)),
    ONE(IS(0, PER_LINUX32)),
    ONE(IS(0, UNAME26)),
    ONE(IS(0, UNAME26 | PER_LINUX32)),
};

/* Memory layout, priority over the host's writeback, the host's core scheduling, page merging
 * across processes. */
static const struct seccomp_match prctl_refused[] = {
    ONE(IS(0, PR_SET_MM)),
    ONE(IS(0, PR_SET_IO_FLUSHER)),
    ONE(IS(0, PR_SCHED_CORE)),
    ONE(IS(0, 67 /* PR_SET_MEMORY_MERGE */)),
};

/* Files, fifos and sockets; no device, not even overlayfs' 0:0. */
static const struct seccomp_match mknod_allowed[] = {
    ONE(HAS(1, S_IFMT, S_IFIFO)),
    ONE(HAS(1, S_IFMT, S_IFREG)),
    ONE(HAS(1, S_IFMT, 0)),
    ONE(HAS(1, S_IFMT, S_IFSOCK)),
};
static const struct seccomp_match mknodat_allowed[] = {
    ONE(HAS(2, S_IFMT, S_IFIFO)),
    ONE(HAS(2, S_IFMT, S_IFREG)),
    ONE(HAS(2, S_IFMT, 0)),
    ONE(HAS(2, S_IFMT, S_IFSOCK)),
};

/* The packet-filter tables of ip, ip6, arp and bridges (options 64, 96 and 128, each with a sister
 * for counters): whoever makes a network namespace in a user namespace may load such tables into
 * the kernel, and that code is a favourite of exploits (CVE-2021-22555). */
#define LEVEL(l)  IS(1, l)
#define TABLES(o) HAS(2, ~UINT32_C(1), o)
static const struct seccomp_match setsockopt_refused[] = {
    TWO(LEVEL(IPPROTO_IP), TABLES(64)),
    TWO(LEVEL(IPPROTO_IP), TABLES(96)),
    TWO(LEVEL(IPPROTO_IP), TABLES(128)),
    TWO(LEVEL(IPPROTO_IPV6), TABLES(64)),
};

#define CONDITION(list, h, m)                                                                      \
    { .matches = (list), .count = ARRAY_LEN(list), .hit = (h), .miss = (m) }

enum rule {
    RULE_ALLOW,
    RULE_ABSENT,
    RULE_REFUSE,
    RULE_KILL,
    RULE_CLONE,
    RULE_CLONE_NESTED,
    RULE_UNSHARE,
    RULE_CHROOT,
    RULE_PTRACE,
    RULE_SOCKET,
    RULE_IOCTL,
    RULE_PERSONALITY,
    RULE_PRCTL,
    RULE_MKNOD,
    RULE_MKNODAT,
    RULE_SETSOCKOPT,
    RULE_COUNT
};

/* CHROOT and PTRACE are decided by the options alone: refused until one allows them. */
static const struct seccomp_condition seccomp_conditions[RULE_COUNT] = {
    [RULE_ALLOW] = {.miss = VERDICT_ALLOW},
    [RULE_ABSENT] = {.miss = VERDICT_ENOSYS},
    [RULE_REFUSE] = {.miss = VERDICT_EPERM},
    [RULE_KILL] = {.miss = VERDICT_KILL},
    [RULE_CLONE] = CONDITION(clone_plain, VERDICT_ALLOW, VERDICT_EPERM),
    [RULE_CLONE_NESTED] = CONDITION(clone_nested, VERDICT_ALLOW, VERDICT_EPERM),
    [RULE_UNSHARE] = CONDITION(unshare_nested, VERDICT_ALLOW, VERDICT_EPERM),
    [RULE_CHROOT] = {.miss = VERDICT_EPERM},
    [RULE_PTRACE] = {.miss = VERDICT_EPERM},
    [RULE_SOCKET] = CONDITION(socket_allowed, VERDICT_ALLOW, VERDICT_EAFNOSUPPORT),
    [RULE_IOCTL] = CONDITION(ioctl_refused, VERDICT_EPERM, VERDICT_ALLOW),
    [RULE_PERSONALITY] = CONDITION(personality_allowed, VERDICT_ALLOW, VERDICT_EPERM),
    [RULE_PRCTL] = CONDITION(prctl_refused, VERDICT_EPERM, VERDICT_ALLOW),
    [RULE_MKNOD] = CONDITION(mknod_allowed, VERDICT_ALLOW, VERDICT_EPERM),
    [RULE_MKNODAT] = CONDITION(mknodat_allowed, VERDICT_ALLOW, VERDICT_EPERM),
    [RULE_SETSOCKOPT] = CONDITION(setsockopt_refused, VERDICT_EPERM, VERDICT_ALLOW),
};
