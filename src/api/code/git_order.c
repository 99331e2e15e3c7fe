#include "api/code/git_order.h"

#include <stdlib.h>

#include "api/call.h"
#include "base/error.h"
#include "base/str.h"

void git_order_free(struct git_order **o) {
    if (*o == NULL)
        return;
    json_free((*o)->doc);
    free(*o);
}

void git_add(struct git_order *o, const char *word) {
    if (o->result < 0)
        return;
    if (o->count == GIT_WORDS_MAX) {
        error_set(o->err, CAY_INVALID_ARGUMENT, "more than %d files", GIT_WORDS_MAX);
        o->result = error_remedy(o->err, "name their folder instead");
        return;
    }
    o->words[o->count++] = word;
}

const char *git_text(struct git_order *o, const char *key, enum json_need need) {
    const char *value = NULL;
    if (o->result == 0)
        o->result = json_get_string(&o->root, key, need, &value, o->err);
    if (o->result == 0 && value != NULL && value[0] == '\0' && need == JSON_REQUIRED) {
        error_set(o->err, CAY_INVALID_ARGUMENT, "%s: is empty", key);
        o->result = error_remedy(o->err, "give it a value");
    }
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* What git could take for an option is none of the names that it knows. */
const char *git_name(struct git_order *o, const char *key, enum json_need need) {
    const char *value = git_text(o, key, need);
    if (o->result == 0 && value != NULL && value[0] == '-') {
        error_set(o->err, CAY_INVALID_ARGUMENT, "%s: '%.40s' begins with a '-'", key, value);
        o->result = error_remedy(o->err, "give another name");
    }
    return value;
}

bool git_flag(struct git_order *o, const char *key) {
    bool value = false;
    if (o->result == 0)
        o->result = json_get_bool(&o->root, key, JSON_OPTIONAL, &value, o->err);
    return value;
}

size_t git_add_files(struct git_order *o, enum json_need need) {
    struct json files = {0}, file;
    if (o->result == 0)
        o->result = json_get_array(&o->root, "files", need, &files, o->err);
    size_t n = o->result == 0 && files.value != NULL ? json_count(&files) : 0;
    if (n > 0)
        git_add(o, "--");
    for (size_t i = 0; i < n && o->result == 0; i++) {
        const char *value = NULL;
        (void)json_item(&files, i, &file);
        o->result = json_as_string(&file, &value, o->err);
        git_add(o, value);
    }
    return n;
}

int git_order_new(struct call *c, struct git_order **ret, struct cay_error *err) {
    struct git_order *o = calloc(1, sizeof *o);
    if (o == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    *ret = o;
    o->call = c;
    o->err = err;
    return 0;
}

/* One with the body read, which names the repository. */
int git_order_read(struct call *c, struct git_order **ret, struct cay_error *err) {
    int r = git_order_new(c, ret, err);
    if (r < 0)
        return r;
    struct git_order *o = *ret;
    r = json_parse("request body", buf_text(&c->body), c->body.len, &o->doc, err);
    if (r < 0)
        return r;
    o->root = json_root(o->doc, "");
    return json_as_object(&o->root, err);
}

int git_order_read_path(struct call *c, struct git_order **ret, struct cay_error *err) {
    int r = git_order_read(c, ret, err);
    if (r == 0) {
        (*ret)->job.path = git_text(*ret, "path", JSON_REQUIRED);
        r = (*ret)->result;
    }
    return r;
}

/* One from the query of a GET. */
int git_order_query(struct call *c, struct git_order **ret, struct cay_error *err) {
    int r = git_order_new(c, ret, err);
    if (r < 0)
        return r;
    const char *path = target_query(&c->target, "path");
    if (path == NULL || path[0] == '\0') {
        error_set(err, CAY_INVALID_ARGUMENT, "path: is missing");
        return error_remedy(err, "say which repository: ?path=FOLDER");
    }
    (*ret)->job.path = path;
    return 0;
}

void git_order_login(struct git_order *o) {
    o->job.username = git_text(o, "username", JSON_OPTIONAL);
    o->job.password = git_text(o, "password", JSON_OPTIONAL);
}

/* Runs the words so far, and forgets them. */
int git_order_run(struct git_order *o, struct buf *out) {
    if (o->result < 0)
        return o->result;
    o->words[o->count] = NULL;
    o->job.args = o->words;
    o->result = git_run(o->call, &o->job, out, o->err);
    o->count = 0;
    return o->result;
}

int git_order_words(struct git_order *o, struct buf *out, const char *const *words) {
    for (; *words != NULL; words++)
        git_add(o, *words);
    return git_order_run(o, out);
}
