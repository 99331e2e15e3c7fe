/* What a program in a sandbox can reach. Prints one word: "open" or "answer", "silence", or the
 * name of an error.
 *
 *     net_probe tcp ADDRESS PORT             of IPv4, or of IPv6
 *     net_probe ping ADDRESS
 *     net_probe udp ADDRESS PORT [bound]     asks a name server for a.com; from an own address
 *     net_probe unwall                       tries to remove the rules that keep it in */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TCP_MS = 20000, UDP_MS = 20000, FAMILY_INET = 1 };

static int say(const char *word) {
    (void)puts(word);
    return 0;
}

static int say_error(void) {
    return say(strerrorname_np(errno));
}

static struct sockaddr_in address(const char *text, const char *port) {
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};
    if (inet_pton(AF_INET, text, &a.sin_addr) != 1)
        exit(2);
    return a;
}

static int wait_for(int fd, short what, int ms) {
    struct pollfd p = {.fd = fd, .events = what};
    return poll(&p, 1, ms);
}

static int await_connection(int fd, const void *to, socklen_t size) {
    socklen_t len = sizeof errno;
    if (connect(fd, to, size) < 0 && errno != EINPROGRESS)
        return say_error();
    if (wait_for(fd, POLLOUT, TCP_MS) <= 0)
        return say("silence");
    int sys = 0;
    (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &len);
    errno = sys;
    return sys == 0 ? say("open") : say_error();
}

static int try_tcp(const char *where, const char *port) {
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons((uint16_t)strtoul(port, NULL, 10))};
    if (inet_pton(AF_INET6, where, &v6.sin6_addr) == 1)
        return await_connection(socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0), &v6, sizeof v6);
    struct sockaddr_in v4 = address(where, port);
    return await_connection(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), &v4, sizeof v4);
}

/* By the sockets that need no capability. */
static int try_ping(const char *where) {
    struct sockaddr_in to = address(where, "0");
    struct icmphdr echo = {.type = ICMP_ECHO};
    char answer[512];
    int fd = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
    if (fd < 0 || sendto(fd, &echo, sizeof echo, 0, (struct sockaddr *)&to, sizeof to) < 0)
        return say_error();
    if (wait_for(fd, POLLIN, UDP_MS) <= 0)
        return say("silence");
    return recv(fd, answer, sizeof answer, 0) < 0 ? say_error() : say("answer");
}

/* The address that packets to somewhere public come from; packets of a socket that is bound to it
 * need no route to be sent to everybody. */
static void bind_own(int fd) {
    struct sockaddr_in far = address("11.0.0.2", "53"), own;
    socklen_t len = sizeof own;
    int other = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
    if (connect(other, (struct sockaddr *)&far, sizeof far) < 0 ||
        getsockname(other, (struct sockaddr *)&own, &len) < 0)
        exit(3);
    own.sin_port = 0;
    if (bind(fd, (struct sockaddr *)&own, sizeof own) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof on) < 0)
        exit(4);
}

static int try_udp(const struct sockaddr_in *to, int is_bound) {
    static const char query[] = "\x12\x34\1\0\0\1\0\0\0\0\0\0\1a\3com\0\0\1\0\1";
    char answer[512];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (is_bound)
        bind_own(fd);
    if (sendto(fd, query, sizeof query - 1, 0, (const struct sockaddr *)to, sizeof *to) < 0)
        return say_error();
    if (wait_for(fd, POLLIN, UDP_MS) <= 0)
        return say("silence");
    return recv(fd, answer, sizeof answer, 0) < 0 ? say_error() : say("answer");
}

static int try_unwall(void) {
    struct {
        struct nlmsghdr begin_head;
        struct nfgenmsg begin;
        struct nlmsghdr head;
        struct nfgenmsg family;
        struct nlmsghdr end_head;
        struct nfgenmsg end;
    } m = {
        .begin_head = {sizeof m.begin_head + sizeof m.begin, NFNL_MSG_BATCH_BEGIN, NLM_F_REQUEST, 0,
                       0},
        .begin = {.res_id = htons(NFNL_SUBSYS_NFTABLES)},
        .head = {sizeof m.head + sizeof m.family, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_DELTABLE,
                 NLM_F_REQUEST | NLM_F_ACK, 0, 0},
        .family = {.nfgen_family = FAMILY_INET},
        .end_head = {sizeof m.end_head + sizeof m.end, NFNL_MSG_BATCH_END, NLM_F_REQUEST, 0, 0},
        .end = {.res_id = htons(NFNL_SUBSYS_NFTABLES)},
    };
    struct {
        struct nlmsghdr head;
        struct nlmsgerr err;
        char rest[256];
    } a = {0};
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);
    if (fd < 0 || send(fd, &m, sizeof m, 0) < 0 || recv(fd, &a, sizeof a, 0) < 0)
        return say_error();
    errno = -a.err.error;
    return errno == 0 ? say("removed") : say_error();
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "unwall") == 0)
        return try_unwall();
    if (argc == 3 && strcmp(argv[1], "ping") == 0)
        return try_ping(argv[2]);
    if (argc < 4)
        return 2;
    if (strcmp(argv[1], "tcp") == 0)
        return try_tcp(argv[2], argv[3]);
    struct sockaddr_in to = address(argv[2], argv[3]);
    return try_udp(&to, argc > 4);
}
