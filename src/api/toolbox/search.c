/* Finding and replacing text in files, and finding files by their names. */
#include "api/toolbox/files.h"
#include "base/error.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"

enum { FOUND_MAX = 10 * 1000, REPLACE_MAX = 10 * 1000 };

/* ---- finding ---- */

static int begin_query(struct call *c, struct toolbox_job *j, struct wire_query *ret,
                       struct cay_error *err) {
    *ret = (struct wire_query){.path = j->path, .max_entries = FOUND_MAX};
    int r = toolbox_need_query(c, "pattern", &ret->pattern, err);
    return r < 0 ? r : toolbox_job_begin(c, "path", j, err);
}

/* What was left out is told: who asks would take it for all otherwise. */
static int report_truncated(struct call *c, bool truncated, struct cay_error *err) {
    return truncated ? call_add_header(c, "X-Cay-Truncated", "true", err) : 0;
}

static int write_match(void *arg, const struct wire_match *m, struct cay_error *err) {
    (void)err;
    struct jsonw *w = arg;
    jsonw_begin_object(w);
    jsonw_put_string(w, "file", m->path);
    jsonw_put_unsigned(w, "line", m->line);
    jsonw_put_string(w, "content", m->text);
    jsonw_end_object(w);
    return 0;
}

static int find(struct call *c, struct cay_error *err) {
    bool truncated = false;
    struct wire_query q;
    _cleanup_(toolbox_job_end) struct toolbox_job j = TOOLBOX_JOB_INIT;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    int r = begin_query(c, &j, &q, err);
    if (r < 0)
        return r;
    jsonw_begin_array(&w);
    r = wire_search(&j.toolbox.wire, &q, write_match, &w, &truncated, err);
    jsonw_end_array(&w);
    return r < 0 ? toolbox_file_result(c, r, err) : report_truncated(c, truncated, err);
}

static int write_name(void *arg, const struct wire_file *f, struct cay_error *err) {
    (void)err;
    jsonw_string(arg, f->path);
    return 0;
}

static int search(struct call *c, struct cay_error *err) {
    bool truncated = false;
    struct wire_query q;
    _cleanup_(toolbox_job_end) struct toolbox_job j = TOOLBOX_JOB_INIT;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    int r = begin_query(c, &j, &q, err);
    if (r < 0)
        return r;
    jsonw_begin_object(&w);
    jsonw_key(&w, "files");
    jsonw_begin_array(&w);
    r = wire_find(&j.toolbox.wire, &q, write_name, &w, &truncated, err);
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    return r < 0 ? toolbox_file_result(c, r, err) : report_truncated(c, truncated, err);
}

/* ---- replacing ---- */

struct replacement {
    const char *pattern, *text;
    struct strv given, paths; /* as the client has them, and whole */
    struct jsonw json;
    size_t done;
};

static int read_files(const struct json *files, const struct toolbox *t, struct replacement *ret,
                      struct cay_error *err) {
    struct json item;
    char whole[PATH_MAX];
    int r = 0;
    if (json_count(files) == 0 || json_count(files) > REPLACE_MAX)
        return json_refuse(files, err, "expected 1 to %d paths", REPLACE_MAX);
    for (size_t i = 0; r == 0 && json_item(files, i, &item); i++) {
        const char *path = "";
        r = json_as_string(&item, &path, err);
        if (r == 0)
            r = toolbox_absolute(t, path, whole, err);
        if (r == 0 && (strv_push(&ret->given, path) < 0 || strv_push(&ret->paths, whole) < 0))
            r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    return r;
}

static int read_replacement(const struct json *root, const struct toolbox *t,
                            struct replacement *ret, struct cay_error *err) {
    struct json files;
    int r = json_get_array(root, "files", JSON_REQUIRED, &files, err);
    if (r == 0)
        r = json_get_string(root, "pattern", JSON_REQUIRED, &ret->pattern, err);
    if (r == 0)
        r = json_get_string(root, "newValue", JSON_REQUIRED, &ret->text, err);
    return r < 0 ? r : read_files(&files, t, ret, err);
}

static int write_replaced(void *arg, const struct wire_replaced *done, struct cay_error *err) {
    (void)err;
    struct replacement *p = arg;
    struct jsonw *w = &p->json;
    jsonw_begin_object(w);
    jsonw_put_string(w, "file", p->given.v[p->done++]);
    jsonw_put_bool(w, "success", done->failure == NULL);
    if (done->failure != NULL)
        jsonw_put_string(w, "error", done->failure->message);
    jsonw_end_object(w);
    return 0;
}

static int run_replacement(struct call *c, const struct json *root, struct replacement *p,
                           struct cay_error *err) {
    _cleanup_(toolbox_job_end) struct toolbox_job j = TOOLBOX_JOB_INIT;
    int r = toolbox_begin(c, &j.toolbox, err);
    if (r == 0)
        r = read_replacement(root, &j.toolbox, p, err);
    if (r < 0)
        return r;
    toolbox_hurry(&j.toolbox);
    jsonw_begin_array(&p->json);
    r = wire_replace(&j.toolbox.wire, (const char *const *)p->paths.v, p->paths.len, p->pattern,
                     p->text, write_replaced, p, err);
    jsonw_end_array(&p->json);
    return toolbox_file_result(c, r, err);
}

static int replace(struct call *c, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct replacement p = {.json = JSONW_INIT(&c->answer.body)};
    int r = json_parse("request body", buf_text(&c->body), c->body.len, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    r = run_replacement(c, &root, &p, err);
    strv_free(&p.given);
    strv_free(&p.paths);
    return r;
}

static const struct route routes[] = {
    {"GET", "/toolbox/{who}/files/find", find, NEED_USE},
    {"GET", "/toolbox/{who}/files/search", search, NEED_USE},
    {"POST", "/toolbox/{who}/files/replace", replace},
};

const struct route_table toolbox_search_routes = {routes, ARRAY_LEN(routes)};
