#include "confine/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"

#define SELF_NET "/proc/thread-self/ns/net"

int netns_raise_loopback(void) {
    _cleanup_(closep) int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return -errno;
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    return ioctl(sock, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

/* Runs inside the new namespace. The file of its sockets stays bound to it while open. */
static int set_up(int *ret_ns, int *ret_sockets) {
    *ret_ns = open(SELF_NET, O_RDONLY | O_CLOEXEC);
    if (*ret_ns < 0)
        return -errno;
    if (ret_sockets != NULL) {
        *ret_sockets = open("/proc/thread-self/net/sockstat", O_RDONLY | O_CLOEXEC);
        if (*ret_sockets < 0)
            return -errno;
    }
    return netns_raise_loopback();
}

int netns_create(int *ret_sockets, struct cay_error *err) {
    _cleanup_(closep) int home = open(SELF_NET, O_RDONLY | O_CLOEXEC);
    if (home < 0)
        return error_errno(err, "opening " SELF_NET);
    if (unshare(CLONE_NEWNET) < 0) {
        error_errno(err, "making a network namespace");
        return error_remedy(err, "check the sysctl user.max_net_namespaces");
    }
    _cleanup_(closep) int ns = -1;
    _cleanup_(closep) int sockets = -1;
    int r = set_up(&ns, ret_sockets != NULL ? &sockets : NULL);
    /* Being left in the wrong namespace would be worse than any error reported here. */
    if (setns(home, CLONE_NEWNET) < 0)
        return error_errno(err, "returning to the host's network namespace");
    if (r < 0)
        return error_sys(err, -r, "setting up the network namespace");
    if (ret_sockets != NULL)
        *ret_sockets = TAKE_FD(sockets);
    return TAKE_FD(ns);
}

int netns_is_clean(int sockets) {
    char text[1024];
    ssize_t n = fd_read_again(sockets, text, sizeof text);
    if (n < 0)
        return (int)n;
    /* The other figures of that line, "orphan" too, count what the whole host has. */
    return strstr(text, "sockets: used 0\n") != NULL && strstr(text, " tw 0 ") != NULL;
}
