#include "engine/native/netns.h"

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

int netns_create(struct cay_error *err) {
    _cleanup_(closep) int home = open(SELF_NET, O_RDONLY | O_CLOEXEC);
    if (home < 0)
        return error_errno(err, "opening " SELF_NET);
    if (unshare(CLONE_NEWNET) < 0) {
        error_errno(err, "making a network namespace");
        return error_remedy(err, "check the sysctl user.max_net_namespaces");
    }
    int fd = open(SELF_NET, O_RDONLY | O_CLOEXEC);
    int open_error = errno;
    int lo = fd < 0 ? 0 : netns_raise_loopback();
    /* Being left in the wrong namespace would be worse than any error reported here. */
    if (setns(home, CLONE_NEWNET) < 0) {
        fd_close(&fd);
        return error_errno(err, "returning to the host's network namespace");
    }
    if (fd < 0)
        return error_sys(err, open_error, "opening the new network namespace");
    if (lo < 0) {
        fd_close(&fd);
        return error_sys(err, -lo, "raising loopback");
    }
    return fd;
}

int netns_is_clean(int ns) {
    _cleanup_(closep) int home = open(SELF_NET, O_RDONLY | O_CLOEXEC);
    char text[1024] = "";
    if (home < 0 || setns(ns, CLONE_NEWNET) < 0)
        return -errno;
    ssize_t n = fd_read_file_at(AT_FDCWD, "/proc/thread-self/net/sockstat", text, sizeof text);
    if (setns(home, CLONE_NEWNET) < 0)
        return -errno;
    if (n < 0)
        return (int)n;
    /* "TCP: inuse 0 orphan 0 tw 0 …": connections that outlive their process show up there */
    return strstr(text, "sockets: used 0") != NULL && strstr(text, " orphan 0 tw 0") != NULL;
}
