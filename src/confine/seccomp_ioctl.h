/* The requests of ioctl(2) that a sandbox may make, as data. Included by seccomp_rules.h only.
 *
 * The list is what ordinary programs ask of terminals, pipes, sockets, files and network
 * interfaces. Absent on purpose: typing into a terminal (TIOCSTI), the console (TIOCLINUX), line
 * disciplines (TIOCSETD), block and loop devices, changes to interfaces and routes, and what file
 * systems offer besides reading and writing (flags, projects, encryption, verity, defragmentation,
 * extents). Whatever is absent answers ENOTTY, as the kernel does for a request that a file does
 * not know, so that programs have a way to go on. */
#pragma once

#include <linux/fs.h>
#include <linux/random.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "confine/seccomp_row.h"

/* Of <asm/termbits.h>, which contradicts the C library's <termios.h>. glibc 2.42 and later use
 * these instead of TCGETS and its kind. */
#define OWN_TCGETS2  0x802c542a
#define OWN_TCSETS2  0x402c542b
#define OWN_TCSETSW2 0x402c542c
#define OWN_TCSETSF2 0x402c542d
/* Newer than some headers, or not in all of them. */
#define OWN_TIOCGPTLCK  0x80045439
#define OWN_TIOCGEXCL   0x80045440
#define OWN_TIOCGPTPEER 0x5441
#define OWN_FIOQSIZE    0x5460

#define PASS(request)                                                                              \
    {                                                                                              \
        .count = 1, .values = {(uint32_t)(request) }                                               \
    }

/* In ascending order, by which the filter searches. */
static const struct seccomp_row ioctl_allowed[] = {
    PASS(FIGETBSZ),
    /* Terminals: modes, flow, job control, size, packets of a pseudo terminal's master. */
    PASS(TCGETS),
    PASS(TCSETS),
    PASS(TCSETSW),
    PASS(TCSETSF),
    PASS(TCGETA),
    PASS(TCSETA),
    PASS(TCSETAW),
    PASS(TCSETAF),
    PASS(TCSBRK),
    PASS(TCXONC),
    PASS(TCFLSH),
    PASS(TIOCEXCL),
    PASS(TIOCNXCL),
    PASS(TIOCSCTTY),
    PASS(TIOCGPGRP),
    PASS(TIOCSPGRP),
    PASS(TIOCOUTQ), /* of sockets: SIOCOUTQ */
    PASS(TIOCGWINSZ),
    PASS(TIOCSWINSZ),
    PASS(FIONREAD), /* of sockets: SIOCINQ */
    PASS(TIOCPKT),
    PASS(FIONBIO),
    PASS(TIOCNOTTY),
    PASS(TIOCGETD),
    PASS(TCSBRKP),
    PASS(TIOCSBRK),
    PASS(TIOCCBRK),
    PASS(TIOCGSID),
    PASS(OWN_TIOCGPTPEER),
    /* Any descriptor. */
    PASS(FIONCLEX),
    PASS(FIOCLEX),
    PASS(FIOASYNC),
    PASS(OWN_FIOQSIZE),
    /* Sockets: owner of signals, urgent data, time of the last packet. */
    PASS(FIOSETOWN),
    PASS(SIOCSPGRP),
    PASS(FIOGETOWN),
    PASS(SIOCGPGRP),
    PASS(SIOCATMARK),
    PASS(0x8906 /* SIOCGSTAMP, as programs of 64 bits were always compiled with it */),
    PASS(0x8907 /* SIOCGSTAMPNS */),
    /* Network interfaces: questions only. */
    PASS(SIOCGIFNAME),
    PASS(SIOCGIFCONF),
    PASS(SIOCGIFFLAGS),
    PASS(SIOCGIFADDR),
    PASS(SIOCGIFDSTADDR),
    PASS(SIOCGIFBRDADDR),
    PASS(SIOCGIFNETMASK),
    PASS(SIOCGIFMETRIC),
    PASS(SIOCGIFMTU),
    PASS(SIOCGIFHWADDR),
    PASS(SIOCGIFINDEX),
    PASS(SIOCGIFTXQLEN),
    /* Speed of an interface. psutil takes this error for "unknown" and others for failures. */
    {.count = 1, .values = {SIOCETHTOOL}, .verdict = VERDICT_EOPNOTSUPP},
    PASS(SIOCOUTQNSD),
    PASS(SIOCGIFMAP),
    /* Pseudo terminals and copies of files, whose numbers carry direction and size. */
    PASS(TIOCSPTLCK),
    PASS(TIOCSIG),
    PASS(FICLONE),
    PASS(FICLONERANGE),
    PASS(OWN_TCSETS2),
    PASS(OWN_TCSETSW2),
    PASS(OWN_TCSETSF2),
    PASS(RNDGETENTCNT),
    PASS(TIOCGPTN),
    PASS(TIOCGDEV),
    PASS(TIOCGPKT),
    PASS(OWN_TIOCGPTLCK),
    PASS(OWN_TIOCGEXCL),
    PASS(FS_IOC_GETFLAGS),
    PASS(FS_IOC_FSGETXATTR),
    PASS(OWN_TCGETS2),
};

#undef PASS
