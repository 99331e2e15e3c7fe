/* Sandboxes in Daytona's protocol. Every request is answered when what it asks for is done, so that
 * no client has to ask again until it is. */
#include <stdio.h>
#include <string.h>

#include "api/build/builds.h"
#include "api/call.h"
#include "api/daytona/daytona.h"
#include "api/daytona/tombstones.h"
#include "api/metrics/metrics.h"
#include "api/shape/daytona_read.h"
#include "api/shape/daytona_shape.h"
#include "api/shape/daytona_version.h"
#include "api/shape/shape.h"
#include "base/clock.h"
#include "base/error.h"
#include "manager/manager.h"

/* ---- answers ---- */

static void answer_record(struct call *c, const struct sandbox_record *r, const char *state) {
    char origin[CALL_ORIGIN_SIZE];
    struct jsonw w = JSONW_INIT(&c->answer.body);
    daytona_write_sandbox(&w, r, &(struct daytona_view){call_origin(c, origin), state, false});
}

int daytona_answer_sandbox(struct call *c, struct cay_error *err) {
    struct sandbox_record r = {0};
    int code = manager_get(c->manager, c->who, &r, err);
    if (code == 0)
        answer_record(c, &r, NULL);
    sandbox_record_free(&r);
    return code;
}

static int after(struct call *c, int r, struct cay_error *err) {
    return r < 0 ? r : daytona_answer_sandbox(c, err);
}

/* ---- making and removing ---- */

/* What the audit says of what was made, or wished for if that failed. */
static void note(struct call *c, const struct sandbox_record *shown) {
    audit_describe(shown, c->detail);
    memcpy(c->object, shown->id, sizeof shown->id);
}

static int make(struct call *c, struct sandbox_record *request, struct cay_error *err) {
    struct sandbox_record made = {0};
    int64_t began = clock_us();
    int r = manager_create_for(c->manager, request, -1, call_socket(c), &made, err);
    note(c, r < 0 ? request : &made);
    if (r == 0) {
        metrics_observe(METRICS_CREATE, clock_us() - began);
        answer_record(c, &made, NULL);
    } else {
        metrics_create_failed(err->code);
    }
    sandbox_record_free(&made);
    return r;
}

/* Answered at once, since clients want to see the log meanwhile. */
static int make_with_build(struct call *c, struct sandbox_record *request,
                           const struct daytona_build *wish, struct cay_error *err) {
    _cleanup_(build_unrefp) struct build *build = NULL;
    struct sandbox_record made = {0};
    struct build_view view;
    int r = daytona_add_build(c, "", wish, &build, err);
    if (r < 0)
        return r;
    build_look(build, &view);
    memcpy(request->image_name, view.name, sizeof request->image_name);
    r = manager_create_later(c->manager, request, &made, err);
    note(c, r < 0 ? request : &made);
    if (r == 0)
        answer_record(c, &made, "pending_build");
    else
        (void)builds_drop(build);
    sandbox_record_free(&made);
    return r;
}

static int create(struct call *c, struct cay_error *err) {
    _cleanup_(daytona_build_free) struct daytona_build build = {0};
    struct sandbox_record request = {0};
    int r = daytona_read_create(&c->body, &request, &build, err);
    key_stamp(&c->caller, request.owner, request.made_by);
    if (r == 0)
        r = access_check_volumes(&c->caller, &request.volumes, err);
    if (r == 0)
        r = build.dockerfile != NULL ? make_with_build(c, &request, &build, err)
                                     : make(c, &request, err);
    sandbox_record_free(&request);
    if (r != -CAY_NOT_FOUND)
        return r;
    err->code = CAY_INVALID_ARGUMENT; /* the request's fault: what it names is not there */
    return -CAY_INVALID_ARGUMENT;
}

/* Not by {who}, since old clients may look at one that is gone. */
static int get(struct call *c, struct cay_error *err) {
    struct sandbox_record gone = {0};
    const char *wanted = c->who;
    int r = manager_find(c->manager, &c->caller, wanted, c->id, err);
    if (r == 0) {
        c->who = c->id;
        return daytona_answer_sandbox(c, err);
    }
    if (r != -CAY_NOT_FOUND || !daytona_is_before(c, 144) ||
        !daytona_gone_find(&c->caller, wanted, &gone))
        return r;
    answer_record(c, &gone, "destroyed");
    sandbox_record_free(&gone);
    return 0;
}

/* From whatever state, and whatever it does. */
static int remove_it(struct call *c, struct cay_error *err) {
    struct sandbox_record r = {0};
    int code = manager_get(c->manager, c->who, &r, err);
    if (code == 0)
        code = manager_remove(c->manager, c->who, true, err);
    if (code == 0) {
        daytona_gone_add(&r);
        answer_record(c, &r, "destroyed");
    }
    sandbox_record_free(&r);
    return code;
}

/* ---- its life ---- */

static int start(struct call *c, struct cay_error *err) {
    int64_t began = clock_us();
    int r = manager_wake(c->manager, c->who, err);
    if (r == 0)
        metrics_observe(METRICS_START, clock_us() - began);
    return after(c, r, err);
}

/* One that is gone once it has stopped, or on its way to it, is told as such. */
static int answer_stopped(struct call *c, struct sandbox_record *before, struct cay_error *err) {
    struct sandbox_record r = {0};
    int code = manager_get(c->manager, c->who, &r, err);
    bool is_gone = code == -CAY_NOT_FOUND || (code == 0 && r.state == SANDBOX_DESTROYING);
    if (code == 0 && !is_gone)
        answer_record(c, &r, NULL);
    sandbox_record_free(&r);
    if (!is_gone)
        return code;
    daytona_gone_add(before);
    answer_record(c, before, "destroyed");
    return 0;
}

static int stop(struct call *c, struct cay_error *err) {
    struct sandbox_record before = {0};
    bool force;
    int r = target_flag(&c->target, "force", &force, err);
    if (r == 0)
        r = manager_get(c->manager, c->who, &before, err);
    if (r == 0)
        r = manager_stop_within(c->manager, c->who, force ? 0 : -1, err);
    if (r == 0)
        r = answer_stopped(c, &before, err);
    sandbox_record_free(&before);
    return r;
}

static int recover(struct call *c, struct cay_error *err) {
    bool skip;
    int r = target_flag(&c->target, "skipStart", &skip, err);
    if (r == 0)
        r = manager_wake(c->manager, c->who, err);
    if (r == 0 && skip)
        r = manager_stop_sandbox(c->manager, c->who, err);
    return after(c, r, err);
}

static int archive(struct call *c, struct cay_error *err) {
    return after(c, manager_archive(c->manager, c->who, -1, err), err);
}

/* Begun, not done: SDKs look at backupState. */
static int back_up(struct call *c, struct cay_error *err) {
    return after(c, manager_backup(c->manager, c->who, err), err);
}

static int pause_it(struct call *c, struct cay_error *err) {
    return after(c, manager_pause(c->manager, c->who, err), err);
}

static int touch(struct call *c, struct cay_error *err) {
    c->answer.status = 201;
    c->is_noted = true; /* nothing that an audit has to know */
    return manager_touch(c->manager, c->who, err);
}

/* ---- changes ---- */

static int change(struct call *c, const struct manager_update *u, struct cay_error *err) {
    return after(c, manager_update(c->manager, c->who, u, err), err);
}

typedef int (*reader)(const struct buf *body, struct manager_update *ret, struct cay_error *err);

static int read_and_change(struct call *c, reader read, struct cay_error *err) {
    _cleanup_(manager_update_free) struct manager_update u = MANAGER_UPDATE_INIT;
    int r = read(&c->body, &u, err);
    return r < 0 ? r : change(c, &u, err);
}

static int update(struct call *c, struct cay_error *err) {
    return read_and_change(c, daytona_read_update, err);
}

static int resize(struct call *c, struct cay_error *err) {
    return read_and_change(c, daytona_read_resize, err);
}

static int set_interval(struct call *c, struct cay_error *err) {
    struct manager_update u = MANAGER_UPDATE_INIT;
    int r = interval_read(c, &u, err);
    return r < 0 ? r : change(c, &u, err);
}

static int set_ttl(struct call *c, struct cay_error *err) {
    enum { TTL_MAX = 10 * 366 * 24 * 60 };
    struct manager_update u = MANAGER_UPDATE_INIT;
    int64_t minutes;
    if (str_to_i64(c->args.v[1], 0, TTL_MAX, &minutes) < 0) {
        error_set(err, CAY_INVALID_ARGUMENT, "'%.40s' is no number of minutes", c->args.v[1]);
        return error_remedy(err, "give a number; 0 is never");
    }
    UPDATE_SET(&u, destroy_ms, minutes == 0 ? 0 : clock_wall_ms() + minutes * 60 * 1000);
    return change(c, &u, err);
}

static int set_public(struct call *c, struct cay_error *err) {
    struct manager_update u = MANAGER_UPDATE_INIT;
    bool is_true = str_equal(c->args.v[1], "true");
    if (!is_true && !str_equal(c->args.v[1], "false")) {
        error_set(err, CAY_INVALID_ARGUMENT, "'%.40s' is neither true nor false", c->args.v[1]);
        return error_remedy(err, "end the path with /public/true or /public/false");
    }
    UPDATE_SET(&u, is_public, is_true);
    return change(c, &u, err);
}

static int set_network(struct call *c, struct cay_error *err) {
    return read_and_change(c, daytona_read_network, err);
}

static int set_labels(struct call *c, struct cay_error *err) {
    struct strv labels = {0};
    int r = shape_read_labels(&c->body, &labels, err);
    if (r == 0)
        r = manager_label(c->manager, c->who, &labels, err);
    if (r == 0) {
        struct jsonw w = JSONW_INIT(&c->answer.body);
        jsonw_begin_object(&w);
        daytona_put_pairs(&w, "labels", &labels);
        jsonw_end_object(&w);
    }
    strv_free(&labels);
    return r;
}

/* ---- looks ---- */

static int toolbox_url(struct call *c, struct cay_error *err) {
    (void)err;
    char origin[CALL_ORIGIN_SIZE], url[CALL_ORIGIN_SIZE + 16];
    struct jsonw w = JSONW_INIT(&c->answer.body);
    (void)snprintf(url, sizeof url, "%s/toolbox", call_origin(c, origin));
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "url", url);
    jsonw_end_object(&w);
    return 0;
}

/* Nothing is forked here, so that none has relatives. */
static int no_relatives(struct call *c, struct cay_error *err) {
    (void)err;
    (void)buf_puts(&c->answer.body, "[]\n");
    return 0;
}

static const struct route routes[] = {
    {"GET", "/api/sandbox", daytona_list_handle},
    {"POST", "/api/sandbox", create, .needs_space = true},
    {"GET", "/api/sandbox/paginated", daytona_pages_handle},
    {"GET", "/api/sandbox/{box}", get},
    {"PATCH", "/api/sandbox/{who}", update},
    {"DELETE", "/api/sandbox/{who}", remove_it},
    {"POST", "/api/sandbox/{who}/start", start},
    {"POST", "/api/sandbox/{who}/stop", stop},
    {"POST", "/api/sandbox/{who}/pause", pause_it},
    {"POST", "/api/sandbox/{who}/backup", back_up, .needs_space = true},
    {"POST", "/api/sandbox/{who}/archive", archive, .needs_space = true},
    {"POST", "/api/sandbox/{who}/recover", recover},
    {"POST", "/api/sandbox/{who}/resize", resize},
    {"PUT", "/api/sandbox/{who}/labels", set_labels},
    {"POST", "/api/sandbox/{who}/autostop/{minutes}", set_interval},
    {"POST", "/api/sandbox/{who}/autoarchive/{minutes}", set_interval},
    {"POST", "/api/sandbox/{who}/autodelete/{minutes}", set_interval},
    {"POST", "/api/sandbox/{who}/ttl/{minutes}", set_ttl},
    {"POST", "/api/sandbox/{who}/public/{flag}", set_public},
    {"POST", "/api/sandbox/{who}/last-activity", touch},
    {"POST", "/api/sandbox/{who}/network-settings", set_network},
    {"GET", "/api/sandbox/{who}/toolbox-proxy-url", toolbox_url},
    {"GET", "/api/sandbox/{who}/forks", no_relatives},
    {"GET", "/api/sandbox/{who}/ancestors", no_relatives},
};
const struct route_table daytona_sandbox_routes = {routes, ARRAY_LEN(routes)};
