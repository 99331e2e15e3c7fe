#include "client/create.h"

#include <string.h>

#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "egress/network.h"

static int check_pairs(const char *const *pairs, const char *flag, struct cay_error *err) {
    for (; pairs != NULL && *pairs != NULL; pairs++) {
        char shown[64];
        if (strchr(*pairs, '=') != NULL && **pairs != '=')
            continue;
        error_set(err, CAY_INVALID_ARGUMENT, "%s '%s' has no '='", flag,
                  str_escape(shown, sizeof shown, *pairs));
        return error_remedy(err, "write %s KEY=VALUE", flag);
    }
    return 0;
}

/* True if a later pair has the same key: that one counts. */
static bool is_overridden(const char *const *pair) {
    size_t len = strcspn(*pair, "=") + 1;
    for (const char *const *later = pair + 1; *later != NULL; later++)
        if (strncmp(*later, *pair, len) == 0)
            return true;
    return false;
}

static void put_pair(struct jsonw *w, const char *pair, struct buf *key) {
    const char *equals = strchr(pair, '=');
    buf_clear(key);
    (void)buf_append(key, pair, (size_t)(equals - pair));
    w->failed = w->failed || key->failed;
    jsonw_put_string(w, buf_text(key), equals + 1);
}

static void put_pairs(struct jsonw *w, const char *name, const char *const *pairs) {
    if (pairs == NULL || *pairs == NULL)
        return;
    _cleanup_(buf_free) struct buf key = BUF_INIT(CREATE_BODY_MAX);
    jsonw_key(w, name);
    jsonw_begin_object(w);
    for (; *pairs != NULL; pairs++)
        if (!is_overridden(pairs))
            put_pair(w, *pairs, &key);
    jsonw_end_object(w);
}

static void put_list(struct jsonw *w, const char *name, const char *const *list) {
    if (list == NULL || *list == NULL)
        return;
    jsonw_key(w, name);
    jsonw_begin_array(w);
    for (; *list != NULL; list++)
        jsonw_string(w, *list);
    jsonw_end_array(w);
}

static void put_text(struct jsonw *w, const char *name, const char *text) {
    if (text != NULL)
        jsonw_put_string(w, name, text);
}

static void put_count(struct jsonw *w, const char *name, uint64_t n) {
    if (n != 0)
        jsonw_put_unsigned(w, name, n);
}

static void put_minutes(struct jsonw *w, const char *name, int64_t minutes) {
    if (minutes != CAY_AS_CONFIGURED)
        jsonw_put_integer(w, name, minutes);
}

static void put_spec(struct jsonw *w, const struct cay_spec *s) {
    put_text(w, "name", s->name);
    put_text(w, "image", s->image);
    put_text(w, "user", s->user);
    put_text(w, "tier", s->tier);
    put_text(w, "profile", s->profile);
    put_text(w, "network", s->network);
    if (s->read_only)
        jsonw_put_bool(w, "readOnly", true);
    put_count(w, "memory", s->memory_bytes);
    put_count(w, "disk", s->disk_bytes);
    put_count(w, "pids", s->pids);
    if (s->cpus > 0)
        jsonw_put_number(w, "cpus", s->cpus);
    put_list(w, "volumes", s->volumes);
}

int create_body(const struct cay_create *c, struct buf *body, struct cay_error *err) {
    int r = check_pairs(c->env, "--env", err);
    if (r == 0)
        r = check_pairs(c->labels, "--label", err);
    struct network list;
    if (r == 0) /* before a daemon is started for it */
        r = network_parse(c->spec.network, &list, err);
    if (r < 0)
        return r;
    struct jsonw w = JSONW_INIT(body);
    jsonw_begin_object(&w);
    put_spec(&w, &c->spec);
    put_text(&w, "workDir", c->work_dir);
    put_text(&w, "onFailure", c->on_failure);
    put_text(&w, "engine", c->engine);
    put_minutes(&w, "autoStopInterval", c->auto_stop_minutes);
    put_minutes(&w, "autoArchiveInterval", c->auto_archive_minutes);
    put_minutes(&w, "autoDeleteInterval", c->auto_delete_minutes);
    put_pairs(&w, "env", c->env);
    put_pairs(&w, "labels", c->labels);
    jsonw_end_object(&w);
    return jsonw_finish(&w) < 0 ? error_set(err, CAY_INVALID_ARGUMENT, "the request is too large")
                                : 0;
}
