/* Addresses of IPv4 and IPv6, all as those of IPv6 (the others are mapped), and the ranges of them
 * that are not the public internet: what no sandbox reaches, whatever it may reach else. One table
 * for the proxy (egress) and for the walls of containers (engine/docker). */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

enum { ADDRESS_V4_BITS = 96 }; /* of a mapped address, before its own */

struct in6_addr address_map_v4(const struct in_addr *v4);
bool address_is_v4(const void *address);
/* Fills the address, and how many bits it has before its own; false if the text is none. */
bool address_read(const char *text, struct in6_addr *ret, unsigned *ret_before);
/* True if both begin with the same bits. */
bool address_is_in(const void *a, const void *range, unsigned bits);

struct address_range {
    const char *text;
    unsigned bits; /* of its own 32 or 128 */
};

struct address_ranges {
    const struct address_range *v;
    size_t count;
};

/* Loopback, link-local, metadata services, multicast, and what carries an address of IPv4 in one of
 * IPv6: nothing opens these. */
extern const struct address_ranges ranges_closed;
/* Private, and for documentation and tests: opened by a range that lies within them, and by nothing
 * else. */
extern const struct address_ranges ranges_private;

/* True if all of a/bits (of 128) lies in one of the ranges. */
bool ranges_hold(const void *a, unsigned bits, const struct address_ranges *ranges);
