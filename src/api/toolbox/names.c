/* Paths, environments, versions and WebSockets, as requests to the toolbox have them. */
#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "api/http/ws.h"
#include "api/shape/daytona_version.h"
#include "api/toolbox/command.h"
#include "base/error.h"
#include "base/json/json.h"
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
    return toolbox_find_offer(call_header(c, "Sec-WebSocket-Protocol"), prefix, rest, size);
}

int toolbox_accept(struct call *c, struct cay_error *err) {
    static const char *const known[] = {"X-Daytona-Pty-Exit-Control", "X-Daytona-SDK-Version~",
                                        "X-Daytona-Pty-Envs~"};
    char rest[4096], answer[4096];
    /* Before anything is made for a connection that would be refused. */
    if (!c->wants_websocket || !ws_is_acceptable(call_header(c, "Sec-WebSocket-Version"),
                                                 call_header(c, "Sec-WebSocket-Key"))) {
        (void)call_add_header(c, "Sec-WebSocket-Version", "13", NULL);
        error_set(err, CAY_INVALID_ARGUMENT, "this path speaks WebSocket only");
        (void)error_remedy(err, "open it by a WebSocket client, version 13");
        return toolbox_fault(c, NULL, 426, err);
    }
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (toolbox_offered(c, known[i], rest, sizeof rest) &&
            str_format(answer, sizeof answer, "%s%s", known[i], rest) == 0)
            return call_add_header(c, "Sec-WebSocket-Protocol", answer, err);
    return 0;
}
