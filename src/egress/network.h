/* What a sandbox may reach: "none", "allow=" and a list, or "bridge": everything public, by a
 * network of its engine's instead of the proxy. Pure functions, used by whoever takes such a text
 * from a user and by the proxy that keeps to it.
 *
 * An entry is a domain ("a.com", "*.a.com" for all below it, "*" for all), or a range of addresses
 * ("10.0.0.0/8", "2001:db8::/32", "1.2.3.4"). ":PORT" or ":*" may follow, behind brackets if it is
 * an address of IPv6. A domain without a port has 80 and 443, a range has all. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cay_error;
struct sockaddr;

enum {
    NETWORK_TEXT_SIZE = 2048,
    NETWORK_ENTRIES_MAX = 64,
    NETWORK_NAME_SIZE = 254, /* of a host, with its NUL */
};

enum network_ports { NETWORK_PORTS_ALL = 0, NETWORK_PORTS_WEB = -1 }; /* or the only one */

struct network_entry {
    char name[NETWORK_NAME_SIZE]; /* in lower case, without "*."; "": all, or a range */
    bool is_range;
    bool below; /* "*.name" */
    int ports;
    unsigned char address[16]; /* of IPv6; those of IPv4 are mapped */
    unsigned bits;             /* of 128 */
};

struct network {
    bool is_bridge; /* without entries */
    size_t count;   /* 0: nothing at all, by the proxy */
    struct network_entry entries[NETWORK_ENTRIES_MAX];
};

/* How much is asked for, least first. */
enum network_reach {
    NETWORK_REACH_NONE,
    NETWORK_REACH_PUBLIC,  /* names and public addresses */
    NETWORK_REACH_PRIVATE, /* private ranges too */
};

/* Parses and checks; NULL and "" are "none". */
int network_parse(const char *text, struct network *ret, struct cay_error *err);
/* True for the text "bridge". */
bool network_is_bridge(const char *text);
enum network_reach network_reach(const struct network *n);

/* True if this entry of a list is a range of addresses, or a single one. */
bool network_is_range(const char *entry, size_t len);

/* Lower case, without the dot at the end; false if it is no name of a host. */
bool network_take_name(const char *text, size_t len, char name[static NETWORK_NAME_SIZE]);

/* True if the list has this name with this port. */
bool network_has_name(const struct network *n, const char *name, unsigned port);
/* True if the list has this name with any port. */
bool network_has_name_elsewhere(const struct network *n, const char *name);
/* True if the list has any range: then a name may be resolved to see whether it leads there. */
bool network_has_ranges(const struct network *n);

enum network_verdict {
    NETWORK_OPEN,
    NETWORK_UNLISTED, /* no range has it */
    NETWORK_PRIVATE,  /* no range has it, and it is private: a name does not open it */
    NETWORK_CLOSED,   /* loopback, link-local, metadata, multicast: nothing opens it */
};

/* Whether this address, with the port in it, may be reached; by_name: by a name on the list, which
 * opens public addresses. */
enum network_verdict network_judge(const struct network *n, const struct sockaddr *address,
                                   bool by_name);
