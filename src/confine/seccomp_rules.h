/* The conditions of the system-call policy, as data: which arguments of a call pass. Included by
 * seccomp.c only; the table of calls is seccomp_table.h. */
#pragma once

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/netlink.h>
#include <linux/personality.h>
#include <linux/prctl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "confine/seccomp_ioctl.h"
#include "confine/seccomp_row.h"

/* CLONE_NEWTIME is not among clone's flags: that bit belongs to its signal number. */
enum {
    CLONE_NEW_UNSAFE = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC,
    CLONE_NEW_NESTED = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET,
    UNSHARE_NEW_TIME = 0x80,
};

/* Open looks at its mode if it may make a file. O_TMPFILE contains O_DIRECTORY; the rest is the bit
 * that the kernel goes by. */
enum {
    MODE_SETID = S_ISUID | S_ISGID,
    OPEN_MAKES = O_CREAT | (O_TMPFILE & ~O_DIRECTORY),
    OPEN_CHANGES = OPEN_MAKES | O_ACCMODE | O_TRUNC,
};

static const struct seccomp_row none_set[] = {{1, {0}}};

/* Family, type without its flags, protocol. By netlink the C library asks for the addresses of the
 * host. */
static const struct seccomp_row socket_internet[] = {
    {3, {AF_INET, SOCK_STREAM, 0}},
    {3, {AF_INET, SOCK_STREAM, IPPROTO_TCP}},
    {3, {AF_INET, SOCK_DGRAM, 0}},
    {3, {AF_INET, SOCK_DGRAM, IPPROTO_UDP}},
    {3, {AF_INET, SOCK_DGRAM, IPPROTO_ICMP}},
    {3, {AF_INET6, SOCK_STREAM, 0}},
    {3, {AF_INET6, SOCK_STREAM, IPPROTO_TCP}},
    {3, {AF_INET6, SOCK_DGRAM, 0}},
    {3, {AF_INET6, SOCK_DGRAM, IPPROTO_UDP}},
    {3, {AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6}},
    {3, {AF_NETLINK, SOCK_RAW, NETLINK_ROUTE}},
    {3, {AF_NETLINK, SOCK_DGRAM, NETLINK_ROUTE}},
};

/* SEQPACKET is harmless within unix sockets; Chromium's processes talk over it. */
static const struct seccomp_row socket_allowed[] = {
    {2, {AF_UNIX, SOCK_STREAM}},
    {2, {AF_UNIX, SOCK_DGRAM}},
    {2, {AF_UNIX, SOCK_SEQPACKET}},
    {3, {AF_INET, SOCK_STREAM, 0}},
    {3, {AF_INET, SOCK_STREAM, IPPROTO_TCP}},
    {3, {AF_INET, SOCK_DGRAM, 0}},
    {3, {AF_INET, SOCK_DGRAM, IPPROTO_UDP}},
    {3, {AF_INET, SOCK_DGRAM, IPPROTO_ICMP}},
    {3, {AF_INET6, SOCK_STREAM, 0}},
    {3, {AF_INET6, SOCK_STREAM, IPPROTO_TCP}},
    {3, {AF_INET6, SOCK_DGRAM, 0}},
    {3, {AF_INET6, SOCK_DGRAM, IPPROTO_UDP}},
    {3, {AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6}},
    {3, {AF_NETLINK, SOCK_RAW, NETLINK_ROUTE}},
    {3, {AF_NETLINK, SOCK_DGRAM, NETLINK_ROUTE}},
};

/* Linux, 32-bit Linux, their 2.6 version numbers, and asking. None switches off ASLR. */
static const struct seccomp_row personality_allowed[] = {
    {1, {UINT32_MAX}},
    {1, {PER_LINUX}},
    {1, {PER_LINUX32}},
    {1, {UNAME26}},
    {1, {UNAME26 | PER_LINUX32}},
};

/* Memory layout, priority over the host's writeback, the host's core scheduling, page merging
 * across processes. */
static const struct seccomp_row prctl_refused[] = {
    {1, {PR_SET_MM}},
    {1, {PR_SET_IO_FLUSHER}},
    {1, {PR_SCHED_CORE}},
    {1, {67 /* PR_SET_MEMORY_MERGE, newer than some headers */}},
};

/* Files, fifos and sockets; no device, not even overlayfs' 0:0. */
static const struct seccomp_row mknod_allowed[] = {
    {1, {S_IFIFO}},
    {1, {S_IFREG}},
    {1, {0}},
    {1, {S_IFSOCK}},
};

/* The set-id bits of the mode, then whether the flags make it count: most calls have none and are
 * through with the first. */
static const struct seccomp_row open_allowed[] = {
    {1, {0}},
    {2, {S_ISGID, 0}},
    {2, {S_ISUID, 0}},
    {2, {MODE_SETID, 0}},
};

/* The packet-filter tables of ip, arp, bridges and ip6 (level and option; each option has a sister
 * for counters): whoever makes a network namespace in a user namespace may load such tables into
 * the kernel, and that code is a favourite of exploits (CVE-2021-22555). */
static const struct seccomp_row setsockopt_refused[] = {
    {2, {IPPROTO_IP, 64}},
    {2, {IPPROTO_IP, 96}},
    {2, {IPPROTO_IP, 128}},
    {2, {IPPROTO_IPV6, 64}},
};

/* Threads, which need no program and no namespace. */
static const struct seccomp_row clone_thread[] = {{1, {CLONE_THREAD}}};

/* Device rules of control groups v2 are programs: to load, attach, list and compare them. */
static const struct seccomp_row bpf_allowed[] = {
    {1, {BPF_PROG_LOAD}},          {1, {BPF_PROG_ATTACH}}, {1, {BPF_PROG_GET_FD_BY_ID}},
    {1, {BPF_OBJ_GET_INFO_BY_FD}}, {1, {BPF_PROG_QUERY}},
};

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
    RULE_MKNOD_PLAIN,
    RULE_MKNODAT_PLAIN,
    RULE_MODE_SECOND,
    RULE_MODE_THIRD,
    RULE_OPEN,
    RULE_OPENAT,
    RULE_OPENAT2,
    RULE_SETSOCKOPT,
    RULE_THREAD,
    RULE_BPF,
    RULE_SOCKET_INTERNET,
    RULE_OPEN_READ,
    RULE_OPENAT_READ,
    RULE_COUNT
};

#define ROWS(list) .rows = (list), .count = ARRAY_LEN(list)
#define HITS(v)    .hit = VERDICT_##v
#define ELSE(v)    .miss = VERDICT_##v

/* CHROOT, PTRACE and OPENAT2 are decided by the options alone. */
static const struct seccomp_condition seccomp_conditions[RULE_COUNT] = {
    [RULE_ALLOW] = {ELSE(ALLOW)},
    [RULE_ABSENT] = {ELSE(ENOSYS)},
    [RULE_REFUSE] = {ELSE(EPERM)},
    [RULE_KILL] = {ELSE(KILL)},
    [RULE_CHROOT] = {ELSE(EPERM)},
    [RULE_PTRACE] = {ELSE(EPERM)},
    [RULE_OPENAT2] = {ELSE(ENOSYS)},
    [RULE_CLONE] = {{{0, CLONE_NEW_UNSAFE | CLONE_NEW_NESTED}},
                    ROWS(none_set),
                    HITS(ALLOW),
                    ELSE(EPERM)},
    [RULE_CLONE_NESTED] = {{{0, CLONE_NEW_UNSAFE}}, ROWS(none_set), HITS(ALLOW), ELSE(EPERM)},
    [RULE_UNSHARE] = {{{0, CLONE_NEW_UNSAFE | UNSHARE_NEW_TIME}},
                      ROWS(none_set),
                      HITS(ALLOW),
                      ELSE(EPERM)},
    [RULE_SOCKET] = {{{0, UINT32_MAX},
                      {1, ~(uint32_t)(SOCK_NONBLOCK | SOCK_CLOEXEC)},
                      {2, UINT32_MAX}},
                     ROWS(socket_allowed),
                     HITS(ALLOW),
                     ELSE(EAFNOSUPPORT)},
    [RULE_IOCTL] =
        {{{1, UINT32_MAX}}, ROWS(ioctl_allowed), .sorted = true, HITS(ALLOW), ELSE(ENOTTY)},
    [RULE_PERSONALITY] = {{{0, UINT32_MAX}}, ROWS(personality_allowed), HITS(ALLOW), ELSE(EPERM)},
    [RULE_PRCTL] = {{{0, UINT32_MAX}}, ROWS(prctl_refused), HITS(EPERM), ELSE(ALLOW)},
    [RULE_MKNOD] = {{{1, S_IFMT}}, ROWS(mknod_allowed), HITS(ALLOW), ELSE(EPERM)},
    [RULE_MKNODAT] = {{{2, S_IFMT}}, ROWS(mknod_allowed), HITS(ALLOW), ELSE(EPERM)},
    [RULE_MKNOD_PLAIN] = {{{1, S_IFMT | MODE_SETID}},
                          ROWS(mknod_allowed),
                          HITS(ALLOW),
                          ELSE(EPERM)},
    [RULE_MKNODAT_PLAIN] = {{{2, S_IFMT | MODE_SETID}},
                            ROWS(mknod_allowed),
                            HITS(ALLOW),
                            ELSE(EPERM)},
    [RULE_MODE_SECOND] = {{{1, MODE_SETID}}, ROWS(none_set), HITS(ALLOW), ELSE(EPERM)},
    [RULE_MODE_THIRD] = {{{2, MODE_SETID}}, ROWS(none_set), HITS(ALLOW), ELSE(EPERM)},
    [RULE_OPEN] = {{{2, MODE_SETID}, {1, OPEN_MAKES}},
                   ROWS(open_allowed),
                   HITS(ALLOW),
                   ELSE(EPERM)},
    [RULE_OPENAT] = {{{3, MODE_SETID}, {2, OPEN_MAKES}},
                     ROWS(open_allowed),
                     HITS(ALLOW),
                     ELSE(EPERM)},
    [RULE_SETSOCKOPT] = {{{1, UINT32_MAX}, {2, ~UINT32_C(1)}},
                         ROWS(setsockopt_refused),
                         HITS(EPERM),
                         ELSE(ALLOW)},
    [RULE_THREAD] = {{{0, CLONE_NEW_UNSAFE | CLONE_NEW_NESTED | CLONE_THREAD}},
                     ROWS(clone_thread),
                     HITS(ALLOW),
                     ELSE(EPERM)},
    [RULE_SOCKET_INTERNET] = {{{0, UINT32_MAX},
                               {1, ~(uint32_t)(SOCK_NONBLOCK | SOCK_CLOEXEC)},
                               {2, UINT32_MAX}},
                              ROWS(socket_internet),
                              HITS(ALLOW),
                              ELSE(EAFNOSUPPORT)},
    [RULE_OPEN_READ] = {{{1, OPEN_CHANGES}}, ROWS(none_set), HITS(ALLOW), ELSE(EPERM)},
    [RULE_OPENAT_READ] = {{{2, OPEN_CHANGES}}, ROWS(none_set), HITS(ALLOW), ELSE(EPERM)},
    [RULE_BPF] = {{{0, UINT32_MAX}}, ROWS(bpf_allowed), HITS(ALLOW), ELSE(EPERM)},
};
