/* Paths, environments, ids, versions and subprotocols, as requests to the toolbox have them. */
#include <ctype.h>
#include <limits.h>
#include <nettle/base64.h>
#include <string.h>
#include <strings.h>

#include "api/daytona_era.h"
#include "api/toolbox_command.h"
#include "base/error.h"
#include "base/json.h"
#include "base/path.h"

void toolbox_hand_over(struct toolbox *t, struct call *c) {
    c->answer.connection = TAKE_FD(t->wire.fd);
    c->answer.operation = TAKE_PTR(t->operation);
}

int toolbox_path(const struct toolbox *t, const char *what, const char *path, char *out,
                 size_t size, struct cay_error *err) {
    char joined[PATH_MAX];
    const char *base = t->record.work_dir[0] != '\0' ? t->record.work_dir : "/";
    if (path == NULL || path[0] == '\0')
        path = base;
    if (path[0] != '/' && path_join(joined, sizeof joined, base, path) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "%s is too long", what);
    return path_normalize(what, path[0] == '/' ? path : joined, out, size, err);
}

static bool is_variable(const char *name) {
    if (!isalpha((unsigned char)name[0]) && name[0] != '_')
        return false;
    for (; *name != '\0'; name++)
        if (!isalnum((unsigned char)*name) && *name != '_')
            return false;
    return true;
}

int toolbox_read_env(const struct json *at, const char *key, struct strv *ret,
                     struct cay_error *err) {
    struct json all, one;
    void *iterator = NULL;
    int r = json_get_object(at, key, JSON_OPTIONAL, &all, err);
    while (r == 0 && all.value != NULL && json_next(&all, &iterator, &one)) {
        const char *value = "";
        r = json_as_string(&one, &value, err);
        if (r == 0 && !is_variable(one.key)) {
            (void)json_refuse(&one, err, "this is no name of an environment variable");
            r = error_remedy(err, "use letters, digits and '_', and begin with no digit");
        }
        if (r == 0 && strv_pushf(ret, "%s=%s", one.key, value) < 0)
            r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    return r;
}

/* ---- names ---- */

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

/* ---- the SDK's version ---- */

/* A browser cannot send the header, but can offer a subprotocol. */
static int sdk_version(const struct call *c) {
    char text[32];
    const char *header = call_header(c, "X-Daytona-SDK-Version");
    if (header == NULL && toolbox_offered(c, "X-Daytona-SDK-Version~", text, sizeof text))
        header = text;
    return daytona_version(header);
}

bool toolbox_has_sdk(const struct call *c) {
    return sdk_version(c) >= 0;
}

bool toolbox_sdk_is_before(const struct call *c, int version) {
    int given = sdk_version(c);
    return given >= 0 && given < version;
}

/* ---- WebSockets ---- */

bool toolbox_offered(const struct call *c, const char *prefix, char *rest, size_t size) {
    const char *at = call_header(c, "Sec-WebSocket-Protocol");
    while (at != NULL && *at != '\0') {
        at += strspn(at, ", \t");
        size_t len = strcspn(at, ", \t"), skip = strlen(prefix);
        if (len >= skip && strncasecmp(at, prefix, skip) == 0)
            return str_format(rest, size, "%.*s", (int)(len - skip), at + skip) == 0;
        at += len;
    }
    return false;
}

int toolbox_accept(struct call *c, struct cay_error *err) {
    static const char *const known[] = {"X-Daytona-Pty-Exit-Control", "X-Daytona-SDK-Version~",
                                        "X-Daytona-Pty-Envs~"};
    char rest[4096], answer[4096];
    if (!c->wants_websocket) {
        error_set(err, CAY_INVALID_ARGUMENT, "this path speaks WebSocket only");
        (void)error_remedy(err, "open it by a WebSocket client");
        return toolbox_fault(c, NULL, 426, err);
    }
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (toolbox_offered(c, known[i], rest, sizeof rest) &&
            str_format(answer, sizeof answer, "%s%s", known[i], rest) == 0)
            return call_add_header(c, "Sec-WebSocket-Protocol", answer, err);
    return 0;
}
