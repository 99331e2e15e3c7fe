/* Volumes. */
#include "base/error.h"
#include "base/str.h"
#include "remote/far_shape.h"
#include "remote/gate.h"

static void report(struct gate *g, const struct json *at) {
    jsonw_write_object(&g->answer, far_put_volume, at);
}

int gate_volume_list(struct gate *g, struct cay_error *err) {
    const struct far_call call = {.method = "GET", .before = "/volumes"};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = far_call(g->world, &call, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    size_t count = json_count(&root);
    _cleanup_(freep) struct json *all = calloc(count + 1, sizeof *all);
    if (all == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    for (size_t i = 0; i < count; i++)
        (void)json_item(&root, i, &all[i]); /* what is none shows as empty */
    jsonw_write_array(&g->answer, far_put_volume, all, count, sizeof *all);
    return 0;
}

static int refuse_size(struct cay_error *err) {
    error_set(err, CAY_UNSUPPORTED, "volumes of a Daytona have no size that can be chosen");
    return error_remedy(err, "omit the size");
}

int gate_volume_resize(struct gate *g, struct cay_error *err) {
    (void)g;
    return refuse_size(err);
}

static int check_create(const struct buf *body, struct cay_error *err) {
    struct json value;
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = json_parse("the request", buf_text(body), body->len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    return json_child(&root, "size", &value) ? refuse_size(err) : 0;
}

int gate_volume_create(struct gate *g, struct cay_error *err) {
    const struct far_call call = {
        .method = "POST", .before = "/volumes", .body = &g->request->body};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = check_create(&g->request->body, err);
    if (r == 0)
        r = far_call(g->world, &call, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    report(g, &root);
    return 0;
}

/* By its name, or its id. */
static int find(struct gate *g, struct json_document **ret, struct cay_error *err) {
    const struct far_call by_name = {.method = "GET", .before = "/volumes/by-name/", .who = g->who};
    const struct far_call by_id = {.method = "GET", .before = "/volumes/", .who = g->who};
    int r = far_call(g->world, &by_name, ret, err);
    return r == -CAY_NOT_FOUND ? far_call(g->world, &by_id, ret, err) : r;
}

int gate_volume_get(struct gate *g, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = find(g, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    report(g, &root);
    return 0;
}

int gate_volume_delete(struct gate *g, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    int r = find(g, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    const struct far_call call = {
        .method = "DELETE", .before = "/volumes/", .who = far_string(&root, "id", "")};
    g->is_empty = true;
    return far_call(g->world, &call, NULL, err);
}
