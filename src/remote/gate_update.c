/* Changes of a sandbox that is there. */
#include <string.h>

#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "remote/gate.h"

enum { BODY_MAX = 1024 * 1024 };

/* ---- labels ---- */

static bool names(const struct json *object, const char *key) {
    struct json one;
    void *iterator = NULL;
    while (json_next(object, &iterator, &one))
        if (str_equal(one.key, key))
            return true;
    return false;
}

static void put_members(struct jsonw *w, const struct json *object, const struct json *without) {
    struct json one;
    void *iterator = NULL;
    while (json_next(object, &iterator, &one)) {
        if (json_kind(&one) != JSON_KIND_STRING || (without != NULL && names(without, one.key)))
            continue;
        jsonw_key(w, one.key);
        json_write(&one, w);
    }
}

/* The remote takes all labels at once: those that it has, those that are set now, and none that is
 * to be taken away. */
static int change_labels(struct gate *g, const struct json *labels, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    _cleanup_(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct jsonw w = JSONW_INIT(&body);
    struct json before = {0};
    int r = far_get(g->world, g->who, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    (void)json_get_object(&root, "labels", JSON_OPTIONAL, &before, NULL);
    jsonw_begin_object(&w);
    jsonw_key(&w, "labels");
    jsonw_begin_object(&w);
    put_members(&w, &before, labels);
    put_members(&w, labels, NULL);
    jsonw_end_object(&w);
    jsonw_end_object(&w);
    if (jsonw_finish(&w) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "there are too many labels");
    const struct far_call call = {
        .method = "PUT", .before = "/sandbox/", .who = g->who, .after = "/labels", .body = &body};
    return far_call(g->world, &call, NULL, err);
}

/* ---- limits and intervals ---- */

static int change_limits(struct gate *g, const struct json *wish, struct cay_error *err) {
    _cleanup_(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct jsonw w = JSONW_INIT(&body);
    jsonw_begin_object(&w);
    int r = gate_put_sizes(&w, wish, err);
    jsonw_end_object(&w);
    const struct far_call call = {
        .method = "POST", .before = "/sandbox/", .who = g->who, .after = "/resize", .body = &body};
    return r < 0 || body.len <= 2 ? r : far_call(g->world, &call, NULL, err);
}

static int change_intervals(struct gate *g, const struct json *wish, struct cay_error *err) {
    static const char *const rows[][2] = {{"autoStopInterval", "/autostop/"},
                                          {"autoArchiveInterval", "/autoarchive/"},
                                          {"autoDeleteInterval", "/autodelete/"}};
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(rows); i++) {
        int64_t minutes = INT64_MIN;
        char after[64];
        r = json_get_integer(wish, rows[i][0], JSON_OPTIONAL, -1, INT32_MAX, &minutes, err);
        if (r < 0 || minutes == INT64_MIN)
            continue;
        (void)snprintf(after, sizeof after, "%s%lld", rows[i][1], (long long)minutes);
        const struct far_call call = {
            .method = "POST", .before = "/sandbox/", .who = g->who, .after = after};
        r = far_call(g->world, &call, NULL, err);
    }
    return r;
}

int gate_update(struct gate *g, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *asked = NULL;
    struct json labels = {0};
    int r = gate_parse(g, &asked, err);
    if (r < 0)
        return r;
    struct json wish = json_root(asked, "");
    r = gate_check_words(&wish, err);
    if (r == 0)
        r = json_get_object(&wish, "labels", JSON_OPTIONAL, &labels, err);
    if (r == 0)
        r = change_limits(g, &wish, err);
    if (r == 0)
        r = change_intervals(g, &wish, err);
    if (r == 0 && labels.value != NULL)
        r = change_labels(g, &labels, err);
    return r < 0 ? r : gate_get(g, err);
}
