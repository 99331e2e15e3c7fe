#include "remote/gateway.h"

#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "remote/gate.h"

/* What stands for the name in a path. */
#define WHO "{}"

static int gate_no_events(struct gate *g, struct cay_error *err) {
    (void)g;
    return gate_unsupported(err, "keeps no record of what became of a sandbox",
                            "see 'cay info' and 'cay session logs'");
}

static int gate_no_rename(struct gate *g, struct cay_error *err) {
    (void)g;
    return gate_unsupported(err, "gives no sandbox another name", "label it: cay update --label");
}

static const struct {
    const char *method, *path;
    gate_fn *handle;
} routes[] = {
    {"GET", "/api/cay/status", gate_status},
    {"GET", "/api/cay/sandbox", gate_list},
    {"POST", "/api/cay/sandbox", gate_create},
    {"GET", "/api/cay/sandbox/" WHO, gate_get},
    {"DELETE", "/api/cay/sandbox/" WHO, gate_delete},
    {"POST", "/api/cay/sandbox/" WHO "/start", gate_start},
    {"POST", "/api/cay/sandbox/" WHO "/resume", gate_start},
    {"POST", "/api/cay/sandbox/" WHO "/stop", gate_stop},
    {"POST", "/api/cay/sandbox/" WHO "/pause", gate_pause},
    {"POST", "/api/cay/sandbox/" WHO "/archive", gate_archive},
    {"POST", "/api/cay/sandbox/" WHO "/update", gate_update},
    {"POST", "/api/cay/sandbox/" WHO "/rename", gate_no_rename},
    {"POST", "/api/cay/sandbox/" WHO "/snapshot", gate_snapshot},
    {"GET", "/api/cay/sandbox/" WHO "/stats", gate_stats},
    {"GET", "/api/cay/sandbox/" WHO "/events", gate_no_events},
    {"GET", "/api/cay/sandbox/" WHO "/connect", gate_connect},
    {"GET", "/api/cay/volumes", gate_volume_list},
    {"POST", "/api/cay/volumes", gate_volume_create},
    {"GET", "/api/cay/volumes/" WHO, gate_volume_get},
    {"POST", "/api/cay/volumes/" WHO "/resize", gate_volume_resize},
    {"DELETE", "/api/cay/volumes/" WHO, gate_volume_delete},
};

/* True if the path is the pattern's; what stands for the name goes to who, unescaped. */
static bool matches(const char *path, const char *pattern, char who[static 256]) {
    const char *hole = strstr(pattern, WHO);
    who[0] = '\0';
    if (hole == NULL)
        return str_equal(path, pattern);
    size_t before = (size_t)(hole - pattern);
    if (strncmp(path, pattern, before) != 0)
        return false;
    size_t len = strcspn(path + before, "/");
    if (len == 0 || len > 255 || !str_equal(path + before + len, hole + strlen(WHO)))
        return false;
    memcpy(who, path + before, len);
    who[len] = '\0';
    return http_unescape(who) == 0;
}

static int dispatch(struct gate *g, struct cay_error *err) {
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (str_equal(g->request->method, routes[i].method) &&
            matches(g->request->path, routes[i].path, g->who))
            return routes[i].handle(g, err);
    return gate_unsupported(err, "has nothing like it", "use a daemon of cay");
}

int gate_unsupported(struct cay_error *err, const char *what, const char *remedy) {
    error_set(err, CAY_UNSUPPORTED, "a Daytona %s", what);
    return error_remedy(err, "%s", remedy);
}

void gateway_serve(struct world *w, int fd) {
    struct request request;
    struct cay_error err = {0};
    if (request_read(fd, &request) < 0) {
        request_free(&request);
        return;
    }
    struct gate g = {.world = w, .request = &request, .answer = BUF_INIT((size_t)REQUEST_BODY_MAX)};
    int r = dispatch(&g, &err);
    if (r < 0)
        request_refuse(&request, &err);
    else if (!g.is_over)
        request_answer(&request, g.is_empty ? NULL : &g.answer);
    buf_free(&g.answer);
    request_free(&request);
}
