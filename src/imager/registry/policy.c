#include "imager/registry/policy.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/ranges.h"

bool registry_is_listed(const struct strv *list, const char *registry) {
    for (size_t i = 0; list != NULL && i < list->len; i++)
        if (!str_equal(list->v[i], "*") && strcasecmp(list->v[i], registry) == 0)
            return true;
    return false;
}

bool registry_is_admitted(const struct strv *list, const char *registry) {
    return list == NULL || list->len == 0 || strv_has(list, "*") ||
           registry_is_listed(list, registry);
}

bool registry_address_is_public(const struct sockaddr *address) {
    struct in6_addr a;
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        a = address_map_v4(&v4.sin_addr);
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        a = v6.sin6_addr;
    } else {
        return false;
    }
    return !ranges_hold(&a, 128, &ranges_closed) && !ranges_hold(&a, 128, &ranges_private);
}

static char hidden[sizeof((struct cay_error *)0)->message];

int registry_hide_reason(const struct reference *ref, struct cay_error *err) {
    char name[REFERENCE_TEXT_SIZE];
    (void)snprintf(hidden, sizeof hidden, "%s", err->message);
    error_set(err, CAY_NOT_FOUND, "image '%s' is not here, and could not be fetched",
              reference_familiar(ref, name));
    return error_remedy(err, "check its name; whoever runs the daemon finds the reason in its log, "
                             "and chooses registries by [images] registries");
}

const char *registry_hidden_reason(void) {
    return hidden;
}
