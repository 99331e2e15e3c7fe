/* Temporary credentials for uploads of contexts, which are computed and not kept. */
#include <stdio.h>
#include <string.h>

#include "api/build/contexts_internal.h"
#include "base/id.h"
#include "base/str.h"

enum { GRANT_MS = 3600 * 1000 };

#define PREFIX "CAY"
#define NOBODY "0000000000000000" /* who has no key of his own; no key has this id */

static void derive(const struct contexts *c, const char *what, const char *access,
                   char out[static HASH_TEXT_SIZE]) {
    char text[S3_ACCESS_SIZE + 16];
    unsigned char mac[HASH_SIZE];
    (void)snprintf(text, sizeof text, "%s:%s", what, access);
    hash_sign(c->master, sizeof c->master, text, strlen(text), mac);
    hash_text(mac, out);
    explicit_bzero(mac, sizeof mac);
}

static void fill(const struct contexts *c, struct context_grant *g) {
    derive(c, "secret", g->access, g->secret);
    derive(c, "token", g->access, g->token);
}

/* "CAY", the time of its end in seconds as 10 hex digits, and the owner. */
void contexts_grant(const struct contexts *c, const char *owner, int64_t now_ms,
                    struct context_grant *ret) {
    *ret = (struct context_grant){.expires_ms = (now_ms + GRANT_MS) / 1000 * 1000};
    (void)snprintf(ret->owner, sizeof ret->owner, "%s", owner);
    (void)snprintf(ret->access, sizeof ret->access, PREFIX "%010llX%s",
                   (unsigned long long)ret->expires_ms / 1000, owner[0] != '\0' ? owner : NOBODY);
    fill(c, ret);
}

static bool read_access(const char *access, struct context_grant *ret) {
    uint64_t seconds = 0;
    const char *owner = access + strlen(PREFIX) + 10;
    if (strlen(access) != strlen(PREFIX) + 10 + ID_LEN || !str_starts(access, PREFIX) ||
        !id_is_valid(owner))
        return false;
    for (const char *p = access + strlen(PREFIX); p < owner; p++) {
        int digit = str_hex_digit(*p);
        if (digit < 0)
            return false;
        seconds = seconds << 4 | (uint64_t)digit;
    }
    ret->expires_ms = (int64_t)seconds * 1000;
    (void)snprintf(ret->owner, sizeof ret->owner, "%s", str_equal(owner, NOBODY) ? "" : owner);
    (void)snprintf(ret->access, sizeof ret->access, "%s", access);
    return true;
}

bool contexts_granted(const struct contexts *c, const char *access, int64_t now_ms,
                      struct context_grant *ret) {
    *ret = (struct context_grant){0};
    if (!read_access(access, ret) || ret->expires_ms <= now_ms ||
        ret->expires_ms > now_ms + GRANT_MS)
        return false;
    fill(c, ret);
    return true;
}
