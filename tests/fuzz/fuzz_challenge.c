/* Any text as the headers of a registry: what is taken from them is bounded and usable. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/host.h"
#include "imager/registry/challenge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static void check_challenge(const char *text) {
    struct challenge c = {0}, again = {0};
    challenge_parse(text, &c);
    require(c.kind <= CHALLENGE_BEARER);
    require(c.kind != CHALLENGE_BEARER || c.realm[0] != '\0');
    require(strnlen(c.realm, sizeof c.realm) < sizeof c.realm);
    require(strnlen(c.service, sizeof c.service) < sizeof c.service);
    require(strnlen(c.scope, sizeof c.scope) < sizeof c.scope);
    again = c;
    challenge_parse(text, &again); /* nothing in it is better than its best */
    require(memcmp(&c, &again, sizeof c) == 0);
}

static void check_range(const char *text) {
    struct content_range r;
    if (content_range_parse(text, &r) == 0)
        require(r.first <= r.last && r.last < r.total);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_(freep) char *text = strndup((const char *)data, size);
    require(text != NULL);
    check_challenge(text);
    check_range(text);
    (void)host_is_loopback(text);
    return 0;
}
