/* Sandboxes: from their list to their end. */
#include <string.h>

#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "remote/far_shape.h"
#include "remote/gate.h"
#include "remote/toolbox.h"

void gate_report(struct gate *g, const struct json_document *doc) {
    struct json root = json_root(doc, "");
    jsonw_write_object(&g->answer, far_put_sandbox, &root);
}

/* ---- looking ---- */

/* "K=V" of every field "label", as the JSON that the remote wants. */
static int put_labels(const struct request *r, struct buf *b) {
    struct jsonw w = JSONW_INIT(b);
    int count = 0;
    jsonw_begin_object(&w);
    for (const char *p = r->query; *p != '\0'; p += strcspn(p, "&"), p += *p == '&') {
        _cleanup_(freep) char *pair = NULL;
        if (!str_starts(p, "label="))
            continue;
        pair = strndup(p + 6, strcspn(p + 6, "&"));
        char *equals = pair != NULL && http_unescape(pair) == 0 ? strchr(pair, '=') : NULL;
        if (equals == NULL)
            continue;
        *equals = '\0';
        jsonw_put_string(&w, pair, equals + 1);
        count++;
    }
    jsonw_end_object(&w);
    return count;
}

int gate_list(struct gate *g, struct cay_error *err) {
    struct far_list list;
    _cleanup_(buf_free) struct buf labels = BUF_INIT(64 * 1024);
    int count = put_labels(g->request, &labels);
    int r = far_list(g->world, count > 0 ? buf_text(&labels) : NULL, &list, err);
    if (r == 0)
        jsonw_write_array(&g->answer, far_put_sandbox, list.item, list.count, sizeof *list.item);
    far_list_free(&list);
    return r;
}

int gate_status(struct gate *g, struct cay_error *err) {
    struct far_list list;
    struct far_totals totals = {.version = "daytona"};
    int r = far_list(g->world, NULL, &list, err);
    for (size_t i = 0; r == 0 && i < list.count; i++)
        totals.started += str_equal(far_string(&list.item[i], "state", ""), "started");
    totals.sandboxes = list.count;
    if (r == 0)
        jsonw_write_object(&g->answer, far_put_status, &totals);
    far_list_free(&list);
    return r;
}

int gate_get(struct gate *g, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = far_get(g->world, g->who, &doc, err);
    if (r == 0)
        gate_report(g, doc);
    return r;
}

int gate_stats(struct gate *g, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct toolbox t;
    int r = toolbox_open(g->world, g->who, &t, err);
    if (r == 0)
        r = toolbox_json(&t, "GET", "/system/metrics", NULL, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    jsonw_write_object(&g->answer, far_put_stats, &root);
    return 0;
}

/* ---- changing its state ---- */

/* Asks, and waits until it is so: some answer when it is done, others at once. */
static int move_to(struct gate *g, const char *after, const char *state, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    const struct far_call call = {
        .method = "POST", .before = "/sandbox/", .who = g->who, .after = after};
    int r = far_call(g->world, &call, NULL, err);
    if (r == 0)
        r = far_await(g->world, g->who, state, &doc, err);
    if (r == 0)
        gate_report(g, doc);
    return r;
}

/* One that runs already is as good as started. */
int gate_start(struct gate *g, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = far_get(g->world, g->who, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    if (!str_equal(far_string(&root, "state", ""), "started"))
        return move_to(g, "/start", "started", err);
    gate_report(g, doc);
    return 0;
}

int gate_stop(struct gate *g, struct cay_error *err) {
    _cleanup_(freep) char *grace = request_query(g->request, "grace");
    bool at_once = grace != NULL && str_equal(grace, "0ms");
    return move_to(g, at_once ? "/stop?force=true" : "/stop", "stopped", err);
}

int gate_pause(struct gate *g, struct cay_error *err) {
    return move_to(g, "/pause", "paused", err);
}

/* Only one that stands still can be archived there. */
int gate_archive(struct gate *g, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = far_get(g->world, g->who, &doc, err);
    struct json root = r == 0 ? json_root(doc, "") : (struct json){0};
    if (r == 0 && str_equal(far_string(&root, "state", ""), "started")) {
        const struct far_call stop = {
            .method = "POST", .before = "/sandbox/", .who = g->who, .after = "/stop"};
        r = far_call(g->world, &stop, NULL, err);
        if (r == 0)
            r = far_await(g->world, g->who, "stopped", NULL, err);
    }
    return r < 0 ? r : move_to(g, "/archive", "archived", err);
}

int gate_delete(struct gate *g, struct cay_error *err) {
    const struct far_call call = {.method = "DELETE", .before = "/sandbox/", .who = g->who};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    char id[128];
    int r = far_get(g->world, g->who, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = str_copy(id, sizeof id, far_string(&root, "id", "")); /* its name may soon be another's */
    if (r == 0)
        r = far_call(g->world, &call, NULL, err);
    g->is_empty = true;
    return r < 0 ? r : far_await(g->world, id, "destroyed", NULL, err);
}

/* Made of a sandbox, for new ones. */
int gate_snapshot(struct gate *g, struct cay_error *err) {
    const struct far_call call = {.method = "POST",
                                  .before = "/sandbox/",
                                  .who = g->who,
                                  .after = "/snapshot",
                                  .body = &g->request->body};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = far_call(g->world, &call, &doc, err);
    if (r == 0)
        gate_report(g, doc);
    return r;
}
