/* cay_manager: sandboxes that stay, asked of the daemon. */
#include "client/manage.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "client/create.h"
#include "client/info.h"
#include "client/reply.h"

enum { PATH_SIZE_MAX = 64 * 1024 };

/* ---- opening ---- */

static void manager_freep(cay_manager **m) {
    free(*m);
}

int cay_manager_open(const struct cay_manager_options *options, cay_manager **ret,
                     struct cay_error *err) {
    static const struct cay_manager_options none;
    const struct cay_manager_options *o = options != NULL ? options : &none;
    _cleanup_(manager_freep) cay_manager *m = calloc(1, sizeof *m);
    if (m == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (o->config != NULL && str_copy(m->config, sizeof m->config, o->config) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the configuration's path is too long");
    const struct daemon_choice choice = {
        .host = o->host,
        .key = o->key,
        .key_file = o->key_file,
        .state_dir = o->state_dir,
        .config = o->config != NULL ? m->config : NULL,
        .no_start = o->no_start,
    };
    int r = daemon_open(&choice, &m->daemon, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(m);
    return 0;
}

void cay_manager_close(cay_manager *m) {
    if (m != NULL)
        daemon_close(&m->daemon);
    free(m);
}

/* ---- asking ---- */

struct question {
    const char *method;
    const char *before, *who, *after; /* the path; who is escaped, NULL if it is about none */
    const struct buf *body;
};

static int put_path(const struct question *q, struct buf *path, struct cay_error *err) {
    int r = q->who == NULL ? 0 : daemon_check_name(q->who, err);
    if (r < 0)
        return r;
    (void)buf_puts(path, q->before);
    if (q->who != NULL)
        daemon_put_escaped(path, q->who);
    (void)buf_puts(path, q->after != NULL ? q->after : "");
    return path->failed
               ? error_set(err, CAY_INVALID_ARGUMENT, "the name is longer than any sandbox's")
               : 0;
}

static int call(const cay_manager *m, const struct question *q, struct buf *answer,
                struct cay_error *err) {
    _cleanup_(buf_free) struct buf path = BUF_INIT(PATH_SIZE_MAX);
    int r = put_path(q, &path, err);
    if (r < 0)
        return r;
    const struct daemon_request req = {
        .method = q->method, .path = buf_text(&path), .body = q->body};
    return daemon_call(&m->daemon, &req, answer, err);
}

/* reply NULL: the answer does not matter. */
static int ask(const cay_manager *m, const struct question *q, struct reply *reply,
               struct cay_error *err) {
    _cleanup_(buf_free) struct buf answer = BUF_INIT(DAEMON_ANSWER_MAX);
    int r = call(m, q, &answer, err);
    return r < 0 || reply == NULL ? r : reply_parse(&answer, reply, err);
}

static int ask_one(const cay_manager *m, const struct question *q, struct cay_info **ret,
                   struct cay_error *err) {
    _cleanup_(reply_free) struct reply t = {0};
    int r = ask(m, q, &t, err);
    return r < 0 || ret == NULL ? r : info_read(&t, ret, err);
}

static int ask_list(const cay_manager *m, const struct question *q, struct cay_info **ret,
                    size_t *ret_count, struct cay_error *err) {
    _cleanup_(buf_free) struct buf answer = BUF_INIT(DAEMON_ANSWER_MAX);
    _cleanup_(reply_free) struct reply t = {0};
    int r = call(m, q, &answer, err);
    if (r < 0)
        return r;
    r = reply_parse_list(&answer, &t, err);
    if (r < 0)
        return r;
    *ret_count = t.rows;
    return info_read(&t, ret, err);
}

/* ---- sandboxes ---- */

void cay_create_init(struct cay_create *create) {
    *create = (struct cay_create){
        .auto_stop_minutes = CAY_AS_CONFIGURED,
        .auto_archive_minutes = CAY_AS_CONFIGURED,
        .auto_delete_minutes = CAY_AS_CONFIGURED,
    };
}

int cay_manager_create(cay_manager *m, const struct cay_create *create, struct cay_info **ret,
                       struct cay_error *err) {
    _cleanup_(buf_free) struct buf body = BUF_INIT(CREATE_BODY_MAX);
    const struct question q = {.method = "POST", .before = "/api/cay/sandbox", .body = &body};
    int r = create_body(create, &body, err);
    return r < 0 ? r : ask_one(m, &q, ret, err);
}

int cay_manager_get(cay_manager *m, const char *who, struct cay_info **ret, struct cay_error *err) {
    const struct question q = {.method = "GET", .before = "/api/cay/sandbox/", .who = who};
    return ask_one(m, &q, ret, err);
}

int cay_manager_list(cay_manager *m, const char *label, struct cay_info **ret, size_t *ret_count,
                     struct cay_error *err) {
    const struct question all = {.method = "GET", .before = "/api/cay/sandbox"};
    const struct question some = {
        .method = "GET", .before = "/api/cay/sandbox?label=", .who = label};
    return ask_list(m, label != NULL ? &some : &all, ret, ret_count, err);
}

static int post(const cay_manager *m, const char *who, const char *what, struct cay_error *err) {
    const struct question q = {
        .method = "POST", .before = "/api/cay/sandbox/", .who = who, .after = what};
    return ask(m, &q, NULL, err);
}

int cay_manager_start(cay_manager *m, const char *who, struct cay_error *err) {
    return post(m, who, "/start", err);
}

int cay_manager_stop(cay_manager *m, const char *who, struct cay_error *err) {
    return post(m, who, "/stop", err);
}

int cay_manager_pause(cay_manager *m, const char *who, struct cay_error *err) {
    return post(m, who, "/pause", err);
}

int cay_manager_resume(cay_manager *m, const char *who, struct cay_error *err) {
    return post(m, who, "/resume", err);
}

int cay_manager_archive(cay_manager *m, const char *who, struct cay_error *err) {
    return post(m, who, "/archive", err);
}

int cay_manager_delete(cay_manager *m, const char *who, bool force, struct cay_error *err) {
    const struct question q = {.method = "DELETE",
                               .before = "/api/cay/sandbox/",
                               .who = who,
                               .after = force ? "?force=true" : NULL};
    return ask(m, &q, NULL, err);
}

static bool is_idle(const struct cay_info *info, int64_t idle_ms) {
    return idle_ms <= 0 || clock_wall_ms() - info->active_ms >= idle_ms;
}

int cay_manager_cleanup(cay_manager *m, const struct cay_cleanup *which, size_t *ret_removed,
                        struct cay_error *err) {
    struct cay_info *all;
    size_t count, removed = 0;
    struct cay_error one;
    int first = cay_manager_list(m, which->label, &all, &count, err);
    if (first != 0)
        return first;
    for (size_t i = 0; i < count; i++) {
        if (!is_idle(&all[i], which->idle_ms))
            continue;
        int r = cay_manager_delete(m, all[i].id, which->force, &one);
        removed += r == 0;
        if (r == 0 || r == -CAY_NOT_FOUND || first < 0)
            continue; /* that somebody else removed it is fine */
        first = r;
        if (err != NULL)
            *err = one;
    }
    cay_info_free(all);
    if (ret_removed != NULL)
        *ret_removed = removed;
    return first;
}

/* ---- figures ---- */

int cay_manager_usage(cay_manager *m, const char *who, struct cay_usage *ret,
                      struct cay_error *err) {
    const struct question q = {
        .method = "GET", .before = "/api/cay/sandbox/", .who = who, .after = "/stats"};
    _cleanup_(reply_free) struct reply t = {0};
    int r = ask(m, &q, &t, err);
    if (r < 0)
        return r;
    *ret = (struct cay_usage){
        .memory_bytes = reply_unsigned(&t, 0, "memoryBytes"),
        .memory_limit = reply_unsigned(&t, 0, "memoryLimit"),
        .memory_peak = reply_unsigned(&t, 0, "memoryPeak"),
        .disk_bytes = reply_unsigned(&t, 0, "diskBytes"),
        .cpu_us = reply_unsigned(&t, 0, "cpuMicros"),
        .pids = reply_unsigned(&t, 0, "pids"),
        .oom_kills = reply_unsigned(&t, 0, "oomKills"),
    };
    return 0;
}

int cay_manager_get_stats(cay_manager *m, struct cay_manager_stats *ret, struct cay_error *err) {
    const struct question q = {.method = "GET", .before = "/api/cay/status"};
    _cleanup_(reply_free) struct reply t = {0};
    int r = ask(m, &q, &t, err);
    if (r < 0)
        return r;
    *ret = (struct cay_manager_stats){
        .sandboxes = reply_unsigned(&t, 0, "sandboxes"),
        .started = reply_unsigned(&t, 0, "started"),
        .operations = reply_unsigned(&t, 0, "operations"),
        .limit = reply_unsigned(&t, 0, "limit"),
        .pool_ready = reply_unsigned(&t, 0, "poolSize"),
        .pool_hits = reply_unsigned(&t, 0, "poolHits"),
        .pool_misses = reply_unsigned(&t, 0, "poolMisses"),
        .shutting_down = reply_is_true(&t, 0, "shuttingDown"),
    };
    (void)snprintf(ret->version, sizeof ret->version, "%s", reply_string(&t, 0, "version"));
    return 0;
}
