#include "remote/toolbox.h"

#include <string.h>

#include "base/error.h"
#include "base/host.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "client/daemon.h"

enum { PATH_URL_MAX = 64 * 1024, EXECUTE_SECONDS = 15 * 60 };

/* ---- where it is ---- */

/* The key goes there: never in the clear to another machine, unless that was the user's choice. */
static int check_url(const struct world *w, const char *url, struct cay_error *err) {
    bool tls = str_starts(url, "https://");
    if (tls || (str_starts(url, "http://") && (w->plain || host_is_loopback(url + 7))))
        return 0;
    error_set(err, CAY_UNAVAILABLE, "%s names a toolbox that is not reached by HTTPS", w->host);
    return error_remedy(err, "nothing was sent there; ask whoever runs it");
}

static int ask_url(struct toolbox *t, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    const struct far_call call = {
        .method = "GET", .before = "/sandbox/", .who = t->id, .after = "/toolbox-proxy-url"};
    int r = far_call(t->world, &call, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    return str_copy(t->url, sizeof t->url, far_string(&root, "url", ""));
}

static int check_state(const struct json *root, const char *who, struct cay_error *err) {
    const char *state = far_string(root, "state", "");
    if (str_equal(state, "started"))
        return 0;
    error_set(err, CAY_CONFLICT, "sandbox '%.100s' is %.40s", who, state);
    (void)error_remedy(err, "start it: cay start %.100s", who);
    error_sanitize(err);
    return -(int)err->code;
}

int toolbox_open(struct world *w, const char *who, struct toolbox *ret, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    *ret = (struct toolbox){.world = w};
    int r = far_get(w, who, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = check_state(&root, who, err);
    if (r < 0)
        return r;
    const char *id = far_string(&root, "id", "");
    bool bad = str_copy(ret->id, sizeof ret->id, id) < 0 ||
               str_copy(ret->name, sizeof ret->name, far_string(&root, "name", id)) < 0 ||
               str_copy(ret->url, sizeof ret->url, far_string(&root, "toolboxProxyUrl", "")) < 0;
    if (!bad && ret->url[0] == '\0' && (r = ask_url(ret, err)) < 0)
        return r;
    if (bad)
        return error_set(err, CAY_UNAVAILABLE, "%s answered against the protocol", w->host);
    size_t len = strlen(ret->url);
    while (len > 0 && ret->url[len - 1] == '/')
        ret->url[--len] = '\0';
    return check_url(w, ret->url, err);
}

int toolbox_find_work_dir(struct toolbox *t, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = toolbox_json(t, "GET", "/work-dir", NULL, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    const char *dir = far_string(&root, "dir", "/");
    return str_copy(t->work_dir, sizeof t->work_dir, dir[0] == '/' ? dir : "/") < 0
               ? error_set(err, CAY_UNAVAILABLE, "the work folder of the sandbox is too long")
               : 0;
}

/* ---- asking ---- */

static int put_url(const struct toolbox *t, const char *path, struct buf *url,
                   struct cay_error *err) {
    (void)buf_printf(url, "%s/%s%s", t->url, t->id, path);
    return url->failed ? error_set(err, CAY_INVALID_ARGUMENT, "the path is too long") : 0;
}

int toolbox_json(const struct toolbox *t, const char *method, const char *path,
                 const struct buf *body, struct json_document **ret, struct cay_error *err) {
    _cleanup_(buf_free) struct buf url = BUF_INIT(PATH_URL_MAX);
    int r = put_url(t, path, &url, err);
    const struct rest_request req = {
        .method = method, .url = buf_text(&url), .body = body, .seconds = EXECUTE_SECONDS};
    if (r < 0)
        return r;
    return ret != NULL ? rest_call_json(t->world, &req, ret, err) : rest_call(t->world, &req, err);
}

int toolbox_execute(const struct toolbox *t, const char *command, struct buf *output,
                    struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    _cleanup_(buf_free) struct buf body = BUF_INIT(1024 * 1024);
    struct jsonw w = JSONW_INIT(&body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "command", command);
    jsonw_end_object(&w);
    int r = toolbox_json(t, "POST", "/process/execute", &body, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    if (output != NULL)
        (void)buf_puts(output, far_string(&root, "result", ""));
    int64_t code = far_integer(&root, "exitCode", 255);
    return code >= 0 && code <= 255 ? (int)code : 255;
}

/* ---- files ---- */

static int move_file(const struct toolbox *t, const char *method, const char *route,
                     const char *path, struct rest_request *req, struct cay_error *err) {
    _cleanup_(buf_free) struct buf at = BUF_INIT(PATH_URL_MAX);
    _cleanup_(buf_free) struct buf url = BUF_INIT(PATH_URL_MAX);
    (void)buf_puts(&at, route);
    daemon_put_escaped(&at, path);
    int r = at.failed ? error_set(err, CAY_INVALID_ARGUMENT, "the path is too long")
                      : put_url(t, buf_text(&at), &url, err);
    req->method = method;
    req->url = buf_text(&url);
    return r < 0 ? r : rest_call(t->world, req, err);
}

int toolbox_download(const struct toolbox *t, const char *path, rest_sink_fn *sink, void *arg,
                     struct cay_error *err) {
    struct rest_request req = {.sink = sink, .arg = arg};
    return move_file(t, "GET", "/files/download?path=", path, &req, err);
}

int toolbox_upload(const struct toolbox *t, const char *path, rest_source_fn *source, void *arg,
                   struct cay_error *err) {
    struct rest_request req = {.source = source, .arg = arg};
    return move_file(t, "POST", "/files/upload?path=", path, &req, err);
}

void toolbox_put_quoted(struct buf *b, const char *word) {
    (void)buf_putc(b, '\'');
    for (const char *p = word; *p != '\0'; p++)
        (void)(*p == '\'' ? buf_puts(b, "'\\''") : buf_putc(b, *p));
    (void)buf_putc(b, '\'');
}
