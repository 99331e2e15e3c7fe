#include "base/ranges.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/auto.h"

/* Those that carry an address of IPv4 in them would lead around the rest. */
static const struct address_range closed[] = {
    {"0.0.0.0", 8},       {"127.0.0.0", 8},        {"169.254.0.0", 16},
    {"224.0.0.0", 4},     {"240.0.0.0", 4},        {"168.63.129.16", 32},
    {"192.0.0.192", 32},  {"100.100.100.200", 32}, {"::", 96},
    {"64:ff9b::", 96},    {"64:ff9b:1::", 48},     {"2002::", 16},
    {"::ffff:0:0:0", 96}, /* of IPv4 by SIIT, RFC 2765 */
    {"2001::", 32},       {"fe80::", 10},          {"ff00::", 8},
    {"fd00:ec2::", 32},   {"fd20:ce::254", 128},   {"fd00:42::42", 128},
};

static const struct address_range private[] = {
    {"10.0.0.0", 8},     {"172.16.0.0", 12},  {"192.168.0.0", 16}, {"100.64.0.0", 10},
    {"198.18.0.0", 15},  {"192.0.0.0", 24},   {"192.0.2.0", 24},   {"198.51.100.0", 24},
    {"203.0.113.0", 24}, {"192.88.99.0", 24}, {"fc00::", 7},       {"fec0::", 10},
    {"100::", 64},       {"2001:db8::", 32},
};

const struct address_ranges ranges_closed = {closed, ARRAY_LEN(closed)};
const struct address_ranges ranges_private = {private, ARRAY_LEN(private)};

struct in6_addr address_map_v4(const struct in_addr *v4) {
    struct in6_addr a = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(a.s6_addr + 12, v4, sizeof *v4);
    return a;
}

bool address_is_v4(const void *address) {
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(address, mapped, sizeof mapped) == 0;
}

bool address_read(const char *text, struct in6_addr *ret, unsigned *ret_before) {
    struct in_addr v4;
    *ret_before = 0;
    if (inet_pton(AF_INET, text, &v4) == 1) {
        *ret = address_map_v4(&v4);
        *ret_before = ADDRESS_V4_BITS;
        return true;
    }
    return inet_pton(AF_INET6, text, ret) == 1;
}

bool address_is_in(const void *a, const void *range, unsigned bits) {
    unsigned bytes = bits / 8, rest = bits % 8;
    const unsigned char *x = a, *y = range;
    if (memcmp(a, range, bytes) != 0)
        return false;
    unsigned char mask = (unsigned char)(0xff00U >> rest);
    return rest == 0 || ((x[bytes] ^ y[bytes]) & mask) == 0;
}

bool ranges_hold(const void *a, unsigned bits, const struct address_ranges *ranges) {
    for (size_t i = 0; i < ranges->count; i++) {
        const struct address_range *one = &ranges->v[i];
        struct in6_addr range;
        unsigned before;
        if (address_read(one->text, &range, &before) && bits >= before + one->bits &&
            address_is_in(a, &range, before + one->bits))
            return true;
    }
    return false;
}
