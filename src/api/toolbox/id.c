#include "api/toolbox/id.h"

#include <nettle/base64.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/str.h"

static const char encoded[] = "b.";

int toolbox_name_of(const char *id, char name[static WIRE_NAME_MAX + 1], struct cay_error *err) {
    size_t len = strlen(id), prefix = sizeof encoded - 1;
    bool is_plain = wire_call_is_name(id) && !str_starts(id, encoded);
    if (len == 0) {
        error_set(err, CAY_INVALID_ARGUMENT, "the id is empty");
        return error_remedy(err, "give it one");
    }
    if (!is_plain && BASE64_ENCODE_RAW_LENGTH(len) + prefix > WIRE_NAME_MAX) {
        error_set(err, CAY_INVALID_ARGUMENT, "the id is too long");
        return error_remedy(err,
                            "use at most %d letters, digits, '.', '_', '-', or fewer of others",
                            WIRE_NAME_MAX);
    }
    if (is_plain) {
        memcpy(name, id, len + 1);
        return 0;
    }
    struct base64_encode_ctx ctx;
    base64url_encode_init(&ctx);
    memcpy(name, encoded, prefix);
    size_t n = base64_encode_update(&ctx, name + prefix, len, (const uint8_t *)id);
    n += base64_encode_final(&ctx, name + prefix + n);
    while (n > 0 && name[prefix + n - 1] == '=')
        n--; /* not of a name's alphabet */
    name[prefix + n] = '\0';
    return 0;
}

/* What only looks encoded was named so by somebody else, and stays. */
void toolbox_id_of(const char *name, char id[static WIRE_NAME_MAX + 1]) {
    struct base64_decode_ctx ctx;
    size_t len = WIRE_NAME_MAX, prefix = sizeof encoded - 1;
    (void)snprintf(id, WIRE_NAME_MAX + 1, "%s", name);
    if (!str_starts(name, encoded))
        return;
    char text[WIRE_NAME_MAX + 4];
    (void)snprintf(text, sizeof text, "%s", name + prefix);
    while (strlen(text) % 4 != 0 && strlen(text) + 1 < sizeof text)
        memcpy(text + strlen(text), "=", 2);
    base64url_decode_init(&ctx);
    uint8_t raw[WIRE_NAME_MAX + 1];
    if (base64_decode_update(&ctx, &len, raw, strlen(text), text) != 1 ||
        base64_decode_final(&ctx) != 1 || len == 0 || memchr(raw, '\0', len) != NULL ||
        !str_is_utf8((const char *)raw, len))
        return;
    memcpy(id, raw, len);
    id[len] = '\0';
}

bool toolbox_find_offer(const char *offers, const char *prefix, char *rest, size_t size) {
    const char *at = offers;
    size_t skip = strlen(prefix);
    while (at != NULL && *at != '\0') {
        at += strspn(at, ", \t");
        size_t len = strcspn(at, ", \t");
        if (len >= skip && strncasecmp(at, prefix, skip) == 0)
            return str_format(rest, size, "%.*s", (int)(len - skip), at + skip) == 0;
        at += len;
    }
    return false;
}
