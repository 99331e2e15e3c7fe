/* The rules are sent to the kernel as one batch, which counts as a whole or not at all:
 *
 *     table inet cay { chain out { type filter hook output priority 0; policy accept;
 *         oif lo accept
 *         meta nfproto ipv6 reject
 *         ip daddr SERVER udp dport 53 accept     of each name server, and the same of tcp
 *         ip daddr RANGE reject                   of each range, and of each address of the host
 *     } }
 *
 * Routes would not do: broadcasts and multicasts of a bound socket are sent without one. */
#include "engine/docker/enter/walls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/ranges.h"
#include "base/str.h"
#include "engine/docker/transport/handshake.h"

#define TABLE_NAME "cay"
#define CHAIN_NAME "out"

enum {
    BATCH_MAX = 64 * 1024,
    ANSWER_MAX = 8192,
    ANSWER_S = 10,
    LOOPBACK_INDEX = 1, /* in every network namespace */
    DNS_PORT = 53,
    DESTINATION = 16, /* its place in the header of IPv4, */
    PORT = 2,         /* and in those of UDP and TCP */
    /* Of <linux/netfilter.h>, which does not go together with the C library's headers. */
    ACCEPT = 1,
    FAMILY_INET = 1,
    FAMILY_IPV6 = 10,
    HOOK_OUT = 3,
};

struct batch {
    unsigned char data[BATCH_MAX];
    size_t len;
    bool is_full;
    uint32_t asked; /* messages that will be answered */
};

/* ---- writing messages ---- */

/* Zeros, to the next multiple of four; NULL if the batch is full. */
static void *add(struct batch *b, size_t size) {
    size_t whole = (size + 3) & ~(size_t)3;
    if (b->is_full || whole > sizeof b->data - b->len) {
        b->is_full = true;
        return NULL;
    }
    void *at = b->data + b->len;
    memset(at, 0, whole);
    b->len += whole;
    return at;
}

static void put(struct batch *b, uint16_t type, const void *data, size_t len) {
    struct nlattr head = {.nla_len = (uint16_t)(sizeof head + len), .nla_type = type};
    unsigned char *at = add(b, sizeof head + len);
    if (at == NULL)
        return;
    memcpy(at, &head, sizeof head);
    if (len > 0)
        memcpy(at + sizeof head, data, len);
}

static void put_text(struct batch *b, uint16_t type, const char *text) {
    put(b, type, text, strlen(text) + 1);
}

static void put_number(struct batch *b, uint16_t type, uint32_t number) {
    uint32_t wire = htonl(number);
    put(b, type, &wire, sizeof wire);
}

/* What follows, until it is ended, lies in it. */
static size_t begin(struct batch *b, uint16_t type) {
    size_t at = b->len;
    put(b, type | NLA_F_NESTED, NULL, 0);
    return at;
}

static void end(struct batch *b, size_t at) {
    uint16_t len = (uint16_t)(b->len - at);
    if (!b->is_full)
        memcpy(b->data + at, &len, sizeof len);
}

static size_t begin_message(struct batch *b, unsigned type, unsigned flags, unsigned resource) {
    size_t at = b->len;
    struct nlmsghdr head = {.nlmsg_type = (uint16_t)type,
                            .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags)};
    struct nfgenmsg family = {.nfgen_family = FAMILY_INET, .res_id = htons((uint16_t)resource)};
    unsigned char *to = add(b, sizeof head + sizeof family);
    if (to == NULL)
        return at;
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, &family, sizeof family);
    if ((flags & NLM_F_ACK) != 0)
        b->asked++;
    return at;
}

static void end_message(struct batch *b, size_t at) {
    uint32_t len = (uint32_t)(b->len - at);
    if (!b->is_full)
        memcpy(b->data + at, &len, sizeof len);
}

static size_t begin_new(struct batch *b, unsigned what) {
    return begin_message(b, NFNL_SUBSYS_NFTABLES << 8 | what,
                         NLM_F_CREATE | NLM_F_APPEND | NLM_F_ACK, 0);
}

/* ---- expressions ---- */

struct expression {
    size_t element, data;
};

static struct expression begin_expression(struct batch *b, const char *name) {
    struct expression x = {.element = begin(b, NFTA_LIST_ELEM)};
    put_text(b, NFTA_EXPR_NAME, name);
    x.data = begin(b, NFTA_EXPR_DATA);
    return x;
}

static void end_expression(struct batch *b, struct expression x) {
    end(b, x.data);
    end(b, x.element);
}

static void put_value(struct batch *b, uint16_t type, const void *value, size_t len) {
    size_t at = begin(b, type);
    put(b, NFTA_DATA_VALUE, value, len);
    end(b, at);
}

static void load_meta(struct batch *b, unsigned key) {
    struct expression x = begin_expression(b, "meta");
    put_number(b, NFTA_META_DREG, NFT_REG_1);
    put_number(b, NFTA_META_KEY, key);
    end_expression(b, x);
}

static void load_payload(struct batch *b, unsigned base, unsigned offset, unsigned len) {
    struct expression x = begin_expression(b, "payload");
    put_number(b, NFTA_PAYLOAD_DREG, NFT_REG_1);
    put_number(b, NFTA_PAYLOAD_BASE, base);
    put_number(b, NFTA_PAYLOAD_OFFSET, offset);
    put_number(b, NFTA_PAYLOAD_LEN, len);
    end_expression(b, x);
}

static void mask(struct batch *b, uint32_t bits) {
    static const uint32_t none = 0;
    struct expression x = begin_expression(b, "bitwise");
    put_number(b, NFTA_BITWISE_SREG, NFT_REG_1);
    put_number(b, NFTA_BITWISE_DREG, NFT_REG_1);
    put_number(b, NFTA_BITWISE_LEN, sizeof bits);
    put_value(b, NFTA_BITWISE_MASK, &bits, sizeof bits);
    put_value(b, NFTA_BITWISE_XOR, &none, sizeof none);
    end_expression(b, x);
}

static void compare(struct batch *b, const void *value, size_t len) {
    struct expression x = begin_expression(b, "cmp");
    put_number(b, NFTA_CMP_SREG, NFT_REG_1);
    put_number(b, NFTA_CMP_OP, NFT_CMP_EQ);
    put_value(b, NFTA_CMP_DATA, value, len);
    end_expression(b, x);
}

static void accept_it(struct batch *b) {
    struct expression x = begin_expression(b, "immediate");
    put_number(b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    size_t data = begin(b, NFTA_IMMEDIATE_DATA), verdict = begin(b, NFTA_DATA_VERDICT);
    put_number(b, NFTA_VERDICT_CODE, ACCEPT);
    end(b, verdict);
    end(b, data);
    end_expression(b, x);
}

/* With an answer, so that programs hear of it at once. */
static void reject_it(struct batch *b) {
    static const unsigned char prohibited = NFT_REJECT_ICMPX_ADMIN_PROHIBITED;
    struct expression x = begin_expression(b, "reject");
    put_number(b, NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
    put(b, NFTA_REJECT_ICMP_CODE, &prohibited, sizeof prohibited);
    end_expression(b, x);
}

/* ---- rules ---- */

struct rule {
    size_t message, list;
};

static struct rule begin_rule(struct batch *b) {
    struct rule r = {.message = begin_new(b, NFT_MSG_NEWRULE)};
    put_text(b, NFTA_RULE_TABLE, TABLE_NAME);
    put_text(b, NFTA_RULE_CHAIN, CHAIN_NAME);
    r.list = begin(b, NFTA_RULE_EXPRESSIONS);
    return r;
}

static void end_rule(struct batch *b, struct rule r) {
    end(b, r.list);
    end_message(b, r.message);
}

static void put_chain(struct batch *b) {
    size_t at = begin_new(b, NFT_MSG_NEWTABLE);
    put_text(b, NFTA_TABLE_NAME, TABLE_NAME);
    end_message(b, at);
    at = begin_new(b, NFT_MSG_NEWCHAIN);
    put_text(b, NFTA_CHAIN_TABLE, TABLE_NAME);
    put_text(b, NFTA_CHAIN_NAME, CHAIN_NAME);
    size_t hook = begin(b, NFTA_CHAIN_HOOK);
    put_number(b, NFTA_HOOK_HOOKNUM, HOOK_OUT);
    put_number(b, NFTA_HOOK_PRIORITY, 0);
    end(b, hook);
    put_number(b, NFTA_CHAIN_POLICY, ACCEPT);
    put_text(b, NFTA_CHAIN_TYPE, "filter");
    end_message(b, at);
}

static void open_loopback(struct batch *b) {
    static const uint32_t loopback = LOOPBACK_INDEX;
    struct rule r = begin_rule(b);
    load_meta(b, NFT_META_OIF);
    compare(b, &loopback, sizeof loopback);
    accept_it(b);
    end_rule(b, r);
}

/* All of it: what follows may take a packet for one of IPv4. */
static void close_v6(struct batch *b) {
    static const unsigned char family = FAMILY_IPV6;
    struct rule r = begin_rule(b);
    load_meta(b, NFT_META_NFPROTO);
    compare(b, &family, sizeof family);
    reject_it(b);
    end_rule(b, r);
}

static void open_server(struct batch *b, uint32_t address, unsigned char protocol) {
    uint16_t port = htons(DNS_PORT);
    struct rule r = begin_rule(b);
    load_payload(b, NFT_PAYLOAD_NETWORK_HEADER, DESTINATION, sizeof address);
    compare(b, &address, sizeof address);
    load_meta(b, NFT_META_L4PROTO);
    compare(b, &protocol, sizeof protocol);
    load_payload(b, NFT_PAYLOAD_TRANSPORT_HEADER, PORT, sizeof port);
    compare(b, &port, sizeof port);
    accept_it(b);
    end_rule(b, r);
}

static void close_range_of(struct batch *b, uint32_t address, unsigned bits) {
    uint32_t all = bits == 0 ? 0 : htonl(~UINT32_C(0) << (32 - bits));
    struct rule r = begin_rule(b);
    load_payload(b, NFT_PAYLOAD_NETWORK_HEADER, DESTINATION, sizeof address);
    mask(b, all);
    address &= all;
    compare(b, &address, sizeof address);
    reject_it(b);
    end_rule(b, r);
}

static void close_ranges(struct batch *b, const struct address_ranges *ranges) {
    for (size_t i = 0; i < ranges->count; i++) {
        struct in6_addr a;
        unsigned before;
        uint32_t v4;
        if (!address_read(ranges->v[i].text, &a, &before) || before != ADDRESS_V4_BITS)
            continue; /* all of IPv6 is closed already */
        memcpy(&v4, a.s6_addr + ADDRESS_V4_BITS / 8, sizeof v4);
        close_range_of(b, v4, ranges->v[i].bits);
    }
}

static void put_batch(struct batch *b, const struct docker_walls *w) {
    size_t at = begin_message(b, NFNL_MSG_BATCH_BEGIN, 0, NFNL_SUBSYS_NFTABLES);
    end_message(b, at);
    put_chain(b);
    open_loopback(b);
    close_v6(b);
    for (uint32_t i = 0; i < w->server_count; i++) {
        open_server(b, w->servers[i], IPPROTO_UDP);
        open_server(b, w->servers[i], IPPROTO_TCP);
    }
    close_ranges(b, &ranges_closed);
    close_ranges(b, &ranges_private);
    for (uint32_t i = 0; i < w->own_count; i++)
        close_range_of(b, w->own[i], 32);
    at = begin_message(b, NFNL_MSG_BATCH_END, 0, NFNL_SUBSYS_NFTABLES);
    end_message(b, at);
}

/* ---- asking the kernel ---- */

/* Each message that asked for it is answered, with 0 or an error; all of them, or it is none. */
static int read_answers(int sock, uint32_t left) {
    _Alignas(struct nlmsghdr) unsigned char data[ANSWER_MAX];
    while (left > 0) {
        ssize_t n = recv(sock, data, sizeof data, 0);
        if (n < 0)
            return -errno;
        struct nlmsghdr *h = (struct nlmsghdr *)data; /* the macros take no const */
        for (size_t rest = (size_t)n; NLMSG_OK(h, rest) && left > 0; h = NLMSG_NEXT(h, rest)) {
            const struct nlmsgerr *e = NLMSG_DATA(h);
            if (h->nlmsg_type != NLMSG_ERROR || h->nlmsg_len < NLMSG_LENGTH(sizeof *e))
                return -EPROTO;
            if (e->error != 0)
                return e->error;
            left--;
        }
    }
    return 0;
}

static int send_batch(const struct batch *b) {
    const struct timeval patience = {.tv_sec = ANSWER_S};
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    _cleanup_(closep) int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    if (sock < 0 || setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0)
        return -errno;
    ssize_t n = sendto(sock, b->data, b->len, 0, (const struct sockaddr *)&kernel, sizeof kernel);
    if (n < 0)
        return -errno;
    return n == (ssize_t)b->len ? read_answers(sock, b->asked) : -EIO;
}

/* Interfaces that the kernel makes in every namespace are down. */
static int check_alone(void) {
    struct if_nameindex *all = if_nameindex();
    _cleanup_(closep) int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (all == NULL || sock < 0)
        return -errno;
    int r = 0;
    for (const struct if_nameindex *i = all; r == 0 && i->if_index != 0; i++) {
        struct ifreq q = {0};
        if (str_copy(q.ifr_name, sizeof q.ifr_name, i->if_name) < 0 ||
            ioctl(sock, SIOCGIFFLAGS, &q) < 0)
            r = -errno;
        else if ((q.ifr_flags & IFF_UP) != 0 && (q.ifr_flags & IFF_LOOPBACK) == 0)
            r = -ENOTUNIQ;
    }
    if_freenameindex(all);
    return r;
}

int walls_put_up(const struct docker_walls *w) {
    static struct batch b;
    if (w->wanted == 0)
        return check_alone();
    put_batch(&b, w);
    return b.is_full ? -ENOBUFS : send_batch(&b);
}
