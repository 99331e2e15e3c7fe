/* A new sandbox. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "remote/gate.h"

enum { BODY_MAX = 4 * 1024 * 1024 };

static const double gib = 1024.0 * 1024 * 1024;

/* ---- what both say ---- */

int gate_check_words(const struct json *wish, struct cay_error *err) {
    static const struct {
        const char *key, *what;
    } absent[] = {
        {"pids", "has no limit of processes"},          {"onFailure", "has no --on-failure"},
        {"tier", "has no tiers of isolation"},          {"profile", "has no profiles"},
        {"readOnly", "has no read-only sandboxes"},     {"workDir", "has its own work folder"},
        {"network", "has network settings of its own"}, {"engine", "has an engine of its own"},
    };
    struct json value;
    for (size_t i = 0; i < ARRAY_LEN(absent); i++)
        if (json_child(wish, absent[i].key, &value))
            return gate_unsupported(err, absent[i].what, "leave the option away");
    return 0;
}

static int put_size(struct jsonw *w, const struct json *wish, const char *from, const char *to,
                    double unit, struct cay_error *err) {
    double n = 0;
    int r = json_get_number(wish, from, JSON_OPTIONAL, &n, err);
    if (r == 0 && n > 0 && n < 1e15)
        jsonw_put_integer(w, to, (int64_t)ceil(n / unit));
    return r;
}

int gate_put_sizes(struct jsonw *w, const struct json *wish, struct cay_error *err) {
    int r = put_size(w, wish, "cpus", "cpu", 1, err);
    if (r == 0)
        r = put_size(w, wish, "memory", "memory", gib, err);
    return r < 0 ? r : put_size(w, wish, "disk", "disk", gib, err);
}

static void put_same(struct jsonw *w, const struct json *wish, const char *key) {
    struct json value;
    if (!json_child(wish, key, &value))
        return;
    jsonw_key(w, key);
    json_write(&value, w);
}

/* ---- a new one ---- */

/* What is known there as a snapshot is one; else it is an image, named by a recipe of one line. */
static int put_image(struct gate *g, struct jsonw *w, const struct json *wish,
                     struct cay_error *err) {
    const char *image = NULL;
    char recipe[1024];
    int r = json_get_string(wish, "image", JSON_OPTIONAL, &image, err);
    if (r < 0 || image == NULL)
        return r;
    const struct far_call call = {.method = "GET", .before = "/snapshots/", .who = image};
    r = far_call(g->world, &call, NULL, err);
    if (r == 0) {
        jsonw_put_string(w, "snapshot", image);
        return 0;
    }
    if (r != -CAY_NOT_FOUND)
        return r;
    if (strpbrk(image, " \t\r\n\\") != NULL ||
        str_format(recipe, sizeof recipe, "FROM %s\n", image) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "'%.100s' is no name of an image", image);
    jsonw_key(w, "buildInfo");
    jsonw_begin_object(w);
    jsonw_put_string(w, "dockerfileContent", recipe);
    jsonw_end_object(w);
    return 0;
}

/* "NAME:PATH" */
static int put_volume(struct gate *g, struct jsonw *w, const char *text, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    char name[256];
    const char *colon = strchr(text, ':');
    if (text[0] == '/' || text[0] == '.')
        return gate_unsupported(err, "does not see folders of this machine",
                                "make a volume: cay volume create");
    if (colon == NULL || str_ends(text, ":ro") ||
        str_format(name, sizeof name, "%.*s", (int)(colon - text), text) < 0)
        return gate_unsupported(err, "knows volumes as NAME:PATH only", "write it so");
    const struct far_call call = {.method = "GET", .before = "/volumes/by-name/", .who = name};
    int r = far_call(g->world, &call, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    jsonw_begin_object(w);
    jsonw_put_string(w, "volumeId", far_string(&root, "id", ""));
    jsonw_put_string(w, "mountPath", colon + 1);
    jsonw_end_object(w);
    return 0;
}

static int put_volumes(struct gate *g, struct jsonw *w, const struct json *wish,
                       struct cay_error *err) {
    struct json list = {0}, one;
    int r = json_get_array(wish, "volumes", JSON_OPTIONAL, &list, err);
    if (r < 0 || list.value == NULL)
        return r;
    jsonw_key(w, "volumes");
    jsonw_begin_array(w);
    for (size_t i = 0; r == 0 && json_item(&list, i, &one); i++) {
        const char *text = "";
        r = json_as_string(&one, &text, err);
        if (r == 0)
            r = put_volume(g, w, text, err);
    }
    jsonw_end_array(w);
    return r;
}

static int translate(struct gate *g, const struct json *wish, struct buf *body,
                     struct cay_error *err) {
    static const char *const same[] = {"name",
                                       "user",
                                       "env",
                                       "labels",
                                       "public",
                                       "autoStopInterval",
                                       "autoArchiveInterval",
                                       "autoDeleteInterval"};
    struct jsonw w = JSONW_INIT(body);
    int r = gate_check_words(wish, err);
    jsonw_begin_object(&w);
    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        put_same(&w, wish, same[i]);
    if (g->world->order.target[0] != '\0')
        jsonw_put_string(&w, "target", g->world->order.target);
    if (r == 0)
        r = put_image(g, &w, wish, err);
    if (r == 0)
        r = gate_put_sizes(&w, wish, err);
    if (r == 0)
        r = put_volumes(g, &w, wish, err);
    jsonw_end_object(&w);
    if (r == 0 && jsonw_finish(&w) < 0)
        r = error_set(err, CAY_INVALID_ARGUMENT, "the request is too large");
    return r;
}

int gate_parse(const struct gate *g, struct json_document **ret, struct cay_error *err) {
    const struct buf *body = &g->request->body;
    return json_parse("request body", buf_text(body), body->len, ret, err);
}

int gate_create(struct gate *g, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *asked = NULL, *made = NULL, *done = NULL;
    _cleanup_(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    _cleanup_(freep) char *wait = request_query(g->request, "wait");
    int r = gate_parse(g, &asked, err);
    if (r < 0)
        return r;
    struct json wish = json_root(asked, "");
    r = translate(g, &wish, &body, err);
    const struct far_call call = {.method = "POST", .before = "/sandbox", .body = &body};
    if (r == 0)
        r = far_call(g->world, &call, &made, err);
    if (r < 0)
        return r;
    struct json root = json_root(made, "");
    bool waits = wait == NULL || !str_equal(wait, "false");
    if (waits)
        r = far_await(g->world, far_string(&root, "id", ""), "started", &done, err);
    if (r == 0)
        gate_report(g, waits ? done : made);
    return r;
}
