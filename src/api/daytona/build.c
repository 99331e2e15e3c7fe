/* What builds say, in Daytona's protocol: the address of the log, and the log, whole or as it
 * comes.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "api/build/builds.h"
#include "api/build/contexts.h"
#include "api/call.h"
#include "api/daytona/daytona.h"
#include "api/shape/daytona_read.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json/jsonw.h"
#include "manager/manager.h"

enum { LOOK_MS = 500, URL_MAX = 4096 };

/* ---- which build ---- */

static int refuse(struct cay_error *err, const char *what, const char *who) {
    error_set(err, CAY_NOT_FOUND, "%s '%.200s' has no log of a build", what, who);
    return error_remedy(err, "there is one for some time after a build from a Dockerfile");
}

static int find_of_sandbox(const struct call *c, struct build **ret, struct cay_error *err) {
    struct sandbox_record r = {0};
    int code = manager_get(c->manager, c->who, &r, err);
    if (code == 0)
        *ret = builds_find(c->builds, &c->caller, r.image_name);
    if (code == 0 && *ret == NULL)
        code = refuse(err, "sandbox", r.name);
    sandbox_record_free(&r);
    return code;
}

static int find_of_snapshot(const struct call *c, struct build **ret, struct cay_error *err) {
    char name[REFERENCE_TEXT_SIZE];
    int r = daytona_snapshot_name(c->who, name, err);
    if (r < 0)
        return r;
    *ret = builds_find(c->builds, &c->caller, name);
    return *ret == NULL ? refuse(err, "snapshot", c->who) : 0;
}

/* ---- taking note of one ---- */

/* A context that is not there is the request's fault. */
static int open_contexts(const struct call *c, const struct strv *hashes, int *fds,
                         struct cay_error *err) {
    for (size_t i = 0; i < hashes->len; i++) {
        int fd = c->contexts != NULL
                     ? contexts_find(c->contexts, key_owner(&c->caller), hashes->v[i], NULL, err)
                     : error_set(err, CAY_UNSUPPORTED, "build contexts are not kept here");
        if (fd == -CAY_NOT_FOUND) {
            err->code = CAY_INVALID_ARGUMENT;
            fd = -CAY_INVALID_ARGUMENT;
        }
        if (fd < 0) {
            while (i-- > 0)
                fd_close(&fds[i]);
            return fd;
        }
        fds[i] = fd;
    }
    return 0;
}

/* -1 if there are none. */
static int take_contexts(const struct call *c, const struct strv *hashes, int *ret,
                         struct cay_error *err) {
    int fds[CONTEXTS_PER_BUILD];
    *ret = -1;
    int r = open_contexts(c, hashes, fds, err);
    if (r < 0 || hashes->len == 0)
        return r;
    *ret = contexts_pack(fds, hashes->len, err);
    for (size_t i = 0; i < hashes->len; i++)
        fd_close(&fds[i]);
    return MIN(*ret, 0);
}

int daytona_add_build(struct call *c, const char *name, const struct daytona_build *wish,
                      struct build **ret, struct cay_error *err) {
    _cleanup_(closep) int contexts = -1;
    int r = take_contexts(c, &wish->contexts, &contexts, err);
    if (r == 0)
        r = builds_add(c->builds, images_owner(c), images_maker(c), name, wish->dockerfile, ret,
                       err);
    if (r == 0)
        build_give_contexts(*ret, TAKE_FD(contexts));
    return r;
}

/* ---- the address ---- */

static int answer_url(struct call *c, const char *kind) {
    char origin[CALL_ORIGIN_SIZE];
    _cleanup_(buf_free) struct buf url = BUF_INIT(URL_MAX);
    (void)buf_printf(&url, "%s/api/%s/", call_origin(c, origin), kind);
    target_encode(&url, c->who);
    (void)buf_puts(&url, "/build-logs");
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "url", buf_text(&url));
    jsonw_end_object(&w);
    return 0;
}

static int sandbox_url(struct call *c, struct cay_error *err) {
    _cleanup_(build_unrefp) struct build *build = NULL;
    int r = find_of_sandbox(c, &build, err);
    return r < 0 ? r : answer_url(c, "sandbox");
}

static int snapshot_url(struct call *c, struct cay_error *err) {
    _cleanup_(build_unrefp) struct build *build = NULL;
    int r = find_of_snapshot(c, &build, err);
    return r < 0 ? r : answer_url(c, "snapshots");
}

/* ---- the log ---- */

struct log_stream {
    struct stream stream; /* first */
    struct build *build;
    size_t at;
    bool follow;
    int client; /* to be watched for its end */
};

static bool has_gone(const struct log_stream *s) {
    struct pollfd p = {.fd = s->client, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0;
}

static size_t read_log(struct stream *stream, char *data, size_t size) {
    struct log_stream *s = (struct log_stream *)stream;
    ssize_t n;
    do {
        n = build_read_log(s->build, s->at, data, size, s->follow ? LOOK_MS : 0);
    } while (n == -EAGAIN && s->follow && !has_gone(s));
    if (n <= 0)
        return 0;
    s->at += (size_t)n;
    return (size_t)n;
}

static void close_log(struct stream *stream) {
    struct log_stream *s = (struct log_stream *)stream;
    build_unref(s->build);
    free(s);
}

/* Takes the build over. */
static int answer_log(struct call *c, struct build *build, struct cay_error *err) {
    bool follow = false;
    int r = target_flag(&c->target, "follow", &follow, err);
    struct log_stream *s = r < 0 ? NULL : calloc(1, sizeof *s);
    if (s == NULL) {
        build_unref(build);
        return r < 0 ? r : error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    *s = (struct log_stream){.stream = {read_log, close_log},
                             .build = build,
                             .follow = follow,
                             .client = call_socket(c)};
    c->answer.is_plain = true;
    c->answer.stream = &s->stream;
    return 0;
}

static int sandbox_log(struct call *c, struct cay_error *err) {
    struct build *build = NULL;
    int r = find_of_sandbox(c, &build, err);
    return r < 0 ? r : answer_log(c, build, err);
}

static int snapshot_log(struct call *c, struct cay_error *err) {
    struct build *build = NULL;
    int r = find_of_snapshot(c, &build, err);
    return r < 0 ? r : answer_log(c, build, err);
}

static const struct route routes[] = {
    {"GET", "/api/sandbox/{who}/build-logs-url", sandbox_url},
    {"GET", "/api/sandbox/{who}/build-logs", sandbox_log},
    {"GET", "/api/snapshots/{name}/build-logs-url", snapshot_url},
    {"GET", "/api/snapshots/{name}/build-logs", snapshot_log},
};
const struct route_table daytona_build_routes = {routes, ARRAY_LEN(routes)};
