#include "base/host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

static bool address_is_loopback(const char *host) {
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

bool host_is_loopback(const char *host) {
    char name[256];
    bool bracket = host[0] == '[';
    size_t len = strcspn(host + bracket, bracket ? "]" : ":");
    if (len >= sizeof name)
        return false;
    memcpy(name, host + bracket, len);
    name[len] = '\0';
    return strcasecmp(name, "localhost") == 0 || address_is_loopback(name);
}
