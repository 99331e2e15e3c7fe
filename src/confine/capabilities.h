/* The capabilities that root's daemon keeps. Everything else leaves the bounding set, so no program
 * that it starts can get it back. The table in SECURITY.md shows the same sets, and a test compares
 * them with the processes. */
#pragma once

#include <linux/capability.h>
#include <stdint.h>

#define CAPABILITY(name) (UINT64_C(1) << CAP_##name)

/* What making a sandbox takes. CHOWN, DAC_OVERRIDE, FOWNER, FSETID: files of sandboxes and images,
 * which have other owners. SETUID, SETGID, SETPCAP, SETFCAP: id maps, becoming cay-init, giving up
 * the rest. SYS_ADMIN, SYS_CHROOT, MKNOD: namespaces, mounts, loop devices, the nodes of /dev.
 * NET_ADMIN: the loopback, device rules of control groups v2. KILL, SYS_PTRACE: ending sandboxes,
 * and their namespaces in /proc. SYS_RESOURCE: limits, growing disks. */
#define CAPABILITIES_LAUNCHER                                                                      \
    (CAPABILITY(CHOWN) | CAPABILITY(DAC_OVERRIDE) | CAPABILITY(FOWNER) | CAPABILITY(FSETID) |      \
     CAPABILITY(KILL) | CAPABILITY(SETGID) | CAPABILITY(SETUID) | CAPABILITY(SETPCAP) |            \
     CAPABILITY(NET_ADMIN) | CAPABILITY(SYS_CHROOT) | CAPABILITY(SYS_PTRACE) |                     \
     CAPABILITY(SYS_ADMIN) | CAPABILITY(SYS_RESOURCE) | CAPABILITY(MKNOD) | CAPABILITY(SETFCAP))

/* What the supervisor itself uses: files of the front and of the image store, ending processes,
 * measuring them, a port below 1024 after a replacement. */
#define CAPABILITIES_SUPERVISOR                                                                    \
    (CAPABILITY(CHOWN) | CAPABILITY(DAC_OVERRIDE) | CAPABILITY(FOWNER) | CAPABILITY(KILL) |        \
     CAPABILITY(SYS_RESOURCE) | CAPABILITY(NET_BIND_SERVICE))

/* What cay-docker itself uses: files in the state folder, and Docker's socket. Whoever may use
 * Docker is root on its host, so this bounds accidents only. */
#define CAPABILITIES_DOCKER                                                                        \
    (CAPABILITY(CHOWN) | CAPABILITY(DAC_OVERRIDE) | CAPABILITY(FOWNER) | CAPABILITY(FSETID))

/* What the programs that it starts may have. */
#define CAPABILITIES_DAEMON (CAPABILITIES_LAUNCHER | CAPABILITIES_SUPERVISOR)
