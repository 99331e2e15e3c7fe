#include "egress/network.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/ranges.h"
#include "base/str.h"

enum { LABEL_MAX = 63 };

/* ---- names ---- */

bool network_take_name(const char *text, size_t len, char name[static NETWORK_NAME_SIZE]) {
    size_t label = 0;
    if (len > 0 && text[len - 1] == '.')
        len--;
    if (len == 0 || len >= NETWORK_NAME_SIZE)
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        bool is_dot = c == '.';
        if (!isascii(c) || !(isalnum(c) || c == '-' || c == '_' || is_dot))
            return false;
        if (is_dot ? label == 0 : ++label > LABEL_MAX)
            return false;
        if (is_dot)
            label = 0;
        name[i] = (char)tolower(c);
    }
    name[len] = '\0';
    return label > 0;
}

/* ---- reading the list ---- */

static int refuse(const char *entry, size_t len, const char *why, struct cay_error *err) {
    char text[128], shown[160];
    (void)snprintf(text, sizeof text, "%.*s", (int)MIN(len, (size_t)120), entry);
    error_set(err, CAY_INVALID_ARGUMENT, "network: '%s' %s", str_escape(shown, sizeof shown, text),
              why);
    return error_remedy(err, "write allow= and a list such as a.com,*.b.org:8443,10.1.0.0/16");
}

/* Cuts ":PORT" or ":*" off; false if what follows the colon is no port. */
static bool take_port(char *text, int *ret) {
    uint64_t port;
    char *bracket = strchr(text, ']'), *first = strchr(text, ':');
    char *colon = bracket != NULL ? strchr(bracket, ':') : first;
    if (bracket == NULL && first != NULL && strchr(first + 1, ':') != NULL)
        return true; /* an address of IPv6 without brackets has no port */
    if (colon == NULL)
        return true;
    *colon = '\0';
    if (str_equal(colon + 1, "*")) {
        *ret = NETWORK_PORTS_ALL;
        return true;
    }
    if (str_to_u64(colon + 1, UINT16_MAX, &port) < 0 || port == 0)
        return false;
    *ret = (int)port;
    return true;
}

/* "[x]" becomes x. */
static char *strip_brackets(char *text) {
    size_t len = strlen(text);
    if (len < 2 || text[0] != '[' || text[len - 1] != ']')
        return text;
    text[len - 1] = '\0';
    return text + 1;
}

/* 1 if it is a range, 0 if it is none, -1 if it is a wrong one. */
static int take_range(char *text, struct network_entry *ret) {
    unsigned before;
    uint64_t bits;
    char *slash = strchr(text, '/');
    if (slash != NULL)
        *slash = '\0';
    struct in6_addr address;
    if (!address_read(text, &address, &before))
        return slash != NULL ? -1 : 0;
    memcpy(ret->address, &address, sizeof ret->address);
    ret->is_range = true;
    ret->bits = 128;
    if (slash == NULL)
        return 1;
    if (str_to_u64(slash + 1, 128 - before, &bits) < 0)
        return -1;
    ret->bits = before + (unsigned)bits;
    return 1;
}

static int take_domain(const char *text, struct network_entry *ret) {
    if (str_equal(text, "*"))
        return 0;
    ret->below = str_starts(text, "*.");
    if (ret->below)
        text += 2;
    return network_take_name(text, strlen(text), ret->name) ? 0 : -1;
}

static int take_entry(const char *entry, size_t len, struct network_entry *ret,
                      struct cay_error *err) {
    char text[NETWORK_NAME_SIZE + 16];
    *ret = (struct network_entry){.ports = NETWORK_PORTS_WEB};
    if (len >= sizeof text)
        return refuse(entry, len, "is too long", err);
    memcpy(text, entry, len);
    text[len] = '\0';
    int port = NETWORK_PORTS_WEB;
    if (!take_port(text, &port))
        return refuse(entry, len, "has no port from 1 to 65535 behind its colon", err);
    char *body = strip_brackets(text);
    int r = take_range(body, ret);
    if (r < 0)
        return refuse(entry, len, "is no range of addresses", err);
    ret->ports = r == 1 && port == NETWORK_PORTS_WEB ? NETWORK_PORTS_ALL : port;
    if (r == 0 && (body != text || take_domain(body, ret) < 0))
        return refuse(entry, len, "is neither a domain nor a range of addresses", err);
    if (r == 1 && ranges_hold(ret->address, ret->bits, &ranges_closed))
        return refuse(entry, len, "is never opened: loopback, link-local, metadata or multicast",
                      err);
    return 0;
}

bool network_is_range(const char *entry, size_t len) {
    struct network_entry e;
    return take_entry(entry, len, &e, NULL) == 0 && e.is_range;
}

static int take_list(const char *list, struct network *ret, struct cay_error *err) {
    for (const char *at = list;;) {
        at += strspn(at, " \t");
        size_t len = strcspn(at, ","), used = len;
        while (used > 0 && (at[used - 1] == ' ' || at[used - 1] == '\t'))
            used--;
        if (ret->count == NETWORK_ENTRIES_MAX) {
            error_set(err, CAY_INVALID_ARGUMENT, "network: more than %d entries",
                      NETWORK_ENTRIES_MAX);
            return error_remedy(err, "join them, as in *.a.com");
        }
        if (used == 0)
            return refuse(list, strlen(list), "has an empty entry", err);
        int r = take_entry(at, used, &ret->entries[ret->count], err);
        if (r < 0)
            return r;
        ret->count++;
        if (at[len] == '\0')
            return 0;
        at += len + 1;
    }
}

bool network_is_bridge(const char *text) {
    return str_equal(text, "bridge");
}

int network_parse(const char *text, struct network *ret, struct cay_error *err) {
    static const char prefix[] = "allow=";
    ret->count = 0;
    ret->is_bridge = text != NULL && network_is_bridge(text);
    if (text == NULL || text[0] == '\0' || str_equal(text, "none") || ret->is_bridge)
        return 0;
    if (!str_starts(text, prefix)) {
        char shown[80];
        error_set(err, CAY_INVALID_ARGUMENT, "no network '%s'",
                  str_escape(shown, sizeof shown, text));
        return error_remedy(err,
                            "use 'none', 'allow=' and a list such as a.com,*.b.org, or 'bridge'");
    }
    if (strlen(text) >= NETWORK_TEXT_SIZE) {
        error_set(err, CAY_INVALID_ARGUMENT, "network: the list is longer than %d bytes",
                  NETWORK_TEXT_SIZE - 1);
        return error_remedy(err, "join entries, as in *.a.com");
    }
    return take_list(text + sizeof prefix - 1, ret, err);
}

/* ---- asking it ---- */

static bool has_port(const struct network_entry *e, unsigned port) {
    if (e->ports == NETWORK_PORTS_WEB)
        return port == 80 || port == 443;
    return e->ports == NETWORK_PORTS_ALL || (unsigned)e->ports == port;
}

static bool has_name(const struct network_entry *e, const char *name) {
    if (e->is_range)
        return false;
    if (e->name[0] == '\0')
        return true;
    if (!e->below)
        return str_equal(e->name, name);
    size_t len = strlen(name), tail = strlen(e->name);
    return len > tail + 1 && name[len - tail - 1] == '.' && str_ends(name, e->name);
}

bool network_has_name(const struct network *n, const char *name, unsigned port) {
    for (size_t i = 0; i < n->count; i++)
        if (has_name(&n->entries[i], name) && has_port(&n->entries[i], port))
            return true;
    return false;
}

bool network_has_name_elsewhere(const struct network *n, const char *name) {
    for (size_t i = 0; i < n->count; i++)
        if (has_name(&n->entries[i], name))
            return true;
    return false;
}

bool network_has_ranges(const struct network *n) {
    for (size_t i = 0; i < n->count; i++)
        if (n->entries[i].is_range)
            return true;
    return false;
}

static bool is_private(const struct network_entry *e) {
    return e->is_range && ranges_hold(e->address, e->bits, &ranges_private);
}

enum network_reach network_reach(const struct network *n) {
    for (size_t i = 0; i < n->count; i++)
        if (is_private(&n->entries[i]))
            return NETWORK_REACH_PRIVATE;
    return n->count > 0 || n->is_bridge ? NETWORK_REACH_PUBLIC : NETWORK_REACH_NONE;
}

static bool is_listed(const struct network *n, const void *a, unsigned port, bool as_private) {
    for (size_t i = 0; i < n->count; i++) {
        const struct network_entry *e = &n->entries[i];
        bool same_kind = address_is_v4(a) == address_is_v4(e->address);
        if (e->is_range && same_kind && address_is_in(a, e->address, e->bits) &&
            has_port(e, port) && (!as_private || is_private(e)))
            return true;
    }
    return false;
}

enum network_verdict network_judge(const struct network *n, const struct sockaddr *address,
                                   bool by_name) {
    struct in6_addr a;
    unsigned port;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        a = address_map_v4(&v4->sin_addr);
        port = ntohs(v4->sin_port);
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
        a = v6->sin6_addr;
        port = ntohs(v6->sin6_port);
    } else {
        return NETWORK_CLOSED;
    }
    if (ranges_hold(&a, 128, &ranges_closed))
        return NETWORK_CLOSED;
    bool as_private = ranges_hold(&a, 128, &ranges_private);
    if (is_listed(n, &a, port, as_private))
        return NETWORK_OPEN;
    if (as_private)
        return NETWORK_PRIVATE;
    return by_name ? NETWORK_OPEN : NETWORK_UNLISTED;
}
