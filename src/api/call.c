#include "api/call.h"

#include <errno.h>

#include "api/code/toolbox_git.h"
#include "api/daytona/daytona.h"
#include "api/daytona/error.h"
#include "api/daytona/s3.h"
#include "api/metrics/health.h"
#include "api/metrics/metrics.h"
#include "api/metrics/page.h"
#include "api/metrics/prometheus.h"
#include "api/openapi.h"
#include "api/own/events_socket.h"
#include "api/preview/preview.h"
#include "api/shape/daytona_version.h"
#include "api/shape/shape.h"
#include "api/toolbox/command.h"
#include "api/toolbox/files.h"
#include "api/toolbox/ports.h"
#include "api/toolbox/python.h"
#include "api/toolbox/toolbox.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "manager/files/space.h"
#include "manager/manager.h"

enum { GRACE_MAX_MS = 3600 * 1000 };

void call_init(struct call *c, struct manager *manager) {
    c->manager = manager;
    c->body = BUF_INIT(CALL_BODY_MAX);
    c->fault_list = BUF_INIT(CALL_BODY_MAX);
    c->answer = (struct answer){.status = 200, .body = BUF_INIT(CALL_ANSWER_MAX), .connection = -1};
}

void call_free(struct call *c) {
    buf_free(&c->body);
    buf_free(&c->fault_list);
    buf_free(&c->fault_output);
    buf_free(&c->answer.body);
    strv_free(&c->answer.headers);
    if (c->sink != NULL)
        c->sink->close(c->sink);
    free(TAKE_PTR(c->uri));
    if (c->answer.stream != NULL)
        c->answer.stream->close(c->answer.stream);
    fd_close(&c->answer.connection);
    if (c->answer.operation != NULL)
        manager_end(c->manager, c->answer.operation);
    c->sink = NULL;
    c->answer.stream = NULL;
    c->answer.operation = NULL;
}

/* The queue of creations is full, or there are too many connections: nothing was done, and there is
 * room soon. */
static void add_retry_after(struct call *c) {
    char seconds[24];
    (void)snprintf(seconds, sizeof seconds, "%lld", (long long)manager_retry_after(c->manager));
    (void)call_add_header(c, "Retry-After", seconds, NULL);
}

void call_fail(struct call *c, const struct cay_error *err, unsigned status) {
    metrics_failed(err->code);
    if (status == 0)
        status = c->fault_status != 0 ? c->fault_status : (unsigned)cay_code_http(err->code);
    c->answer.status = status;
    c->answer.is_plain = false;
    c->answer.type = NULL;
    buf_clear(&c->answer.body);
    if (s3_is_asked(&c->target)) {
        c->answer.type = "application/xml";
        s3_write_error(&c->answer.body, err);
    } else if (toolbox_is_asked(c)) {
        toolbox_write_error(&c->answer.body, c, err, c->fault, status);
    } else if (daytona_is_asked(c)) {
        daytona_write_error(&c->answer.body, c, err, status);
    } else {
        shape_error(&c->answer.body, err, status);
    }
    if (err->code == CAY_UNAUTHORIZED)
        (void)call_add_header(c, "WWW-Authenticate", "Bearer", NULL);
    if (err->code == CAY_LIMIT_REACHED && err->sys == EAGAIN)
        add_retry_after(c);
}

void call_answer(struct call *c, jsonw_members_fn *members, const void *row) {
    jsonw_write_object(&c->answer.body, members, row);
}

void call_answer_all(struct call *c, jsonw_members_fn *members, const void *rows, size_t count,
                     size_t row_size) {
    jsonw_write_array(&c->answer.body, members, rows, count, row_size);
}

int call_add_header(struct call *c, const char *name, const char *value, struct cay_error *err) {
    if (strv_push(&c->answer.headers, name) < 0 || strv_push(&c->answer.headers, value) < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    return 0;
}

const char *call_origin(const struct call *c, char out[static CALL_ORIGIN_SIZE]) {
    const char *host = call_header(c, "Host");
    const char *scheme = c->is_tls ? "https" : "http";
    if (c->public_url[0] != '\0' && str_copy(out, CALL_ORIGIN_SIZE, c->public_url) == 0)
        return out;
    if (host == NULL || str_format(out, CALL_ORIGIN_SIZE, "%s://%s", scheme, host) < 0)
        (void)snprintf(out, CALL_ORIGIN_SIZE, "%s://localhost", scheme);
    return out;
}

/* ---- handlers ---- */

static int status(struct call *c, struct cay_error *err) {
    (void)err;
    struct manager_totals totals;
    manager_totals(c->manager, &c->caller, &totals);
    call_answer(c, shape_put_status, &totals);
    return 0;
}

static int get(struct call *c, struct cay_error *err) {
    struct sandbox_record r = {0};
    int code = manager_get(c->manager, c->who, &r, err);
    if (code == 0)
        call_answer(c, shape_put_sandbox, &r);
    sandbox_record_free(&r);
    return code;
}

static int after(struct call *c, int r, struct cay_error *err) {
    return r < 0 ? r : get(c, err);
}

/* force is Daytona's word for no grace at all. */
static int read_grace(const struct target *t, int64_t *ret_ms, struct cay_error *err) {
    const char *text = target_query(t, "grace");
    bool force;
    *ret_ms = -1;
    int r = target_flag(t, "force", &force, err);
    if (r == 0 && text != NULL)
        r = str_to_duration("grace", text, ret_ms, err);
    if (r == 0 && *ret_ms > GRACE_MAX_MS) {
        error_set(err, CAY_INVALID_ARGUMENT, "grace: '%.40s' is too long", text);
        return error_remedy(err, "give at most an hour");
    }
    if (r == 0 && force)
        *ret_ms = 0;
    return r;
}

static int stop(struct call *c, struct cay_error *err) {
    int64_t grace_ms;
    int r = read_grace(&c->target, &grace_ms, err);
    if (r == 0)
        r = manager_stop_within(c->manager, c->who, grace_ms, err);
    return after(c, r, err);
}

static int pause_it(struct call *c, struct cay_error *err) {
    return after(c, manager_pause(c->manager, c->who, err), err);
}

static int resume(struct call *c, struct cay_error *err) {
    return after(c, manager_resume(c->manager, c->who, err), err);
}

static int remove_it(struct call *c, struct cay_error *err) {
    bool force, wait = false;
    int r = target_flag(&c->target, "force", &force, err);
    if (r == 0)
        r = target_flag(&c->target, "wait", &wait, err);
    if (r == 0)
        r = wait && !force ? manager_remove_when_idle(c->manager, c->who, err)
                           : manager_remove(c->manager, c->who, force, err);
    c->answer.status = 204;
    return r;
}

static int label(struct call *c, struct cay_error *err) {
    struct strv labels = {0};
    int r = shape_read_labels(&c->body, &labels, err);
    if (r == 0)
        r = manager_label(c->manager, c->who, &labels, err);
    strv_free(&labels);
    return after(c, r, err);
}

static int rename_it(struct call *c, struct cay_error *err) {
    char name[NAME_MAX_LEN + 1];
    int r = shape_read_rename(&c->body, name, err);
    if (r == 0) {
        (void)str_escape(c->detail, sizeof c->detail, name);
        r = manager_rename(c->manager, c->who, name, err);
    }
    return after(c, r, err);
}

static int snapshot(struct call *c, struct cay_error *err) {
    return after(c, snapshot_make(c, err), err);
}

static int stats(struct call *c, struct cay_error *err) {
    struct engine_stats figures;
    int r = manager_stats(c->manager, c->who, &figures, err);
    if (r == 0)
        call_answer(c, shape_put_stats, &figures);
    return r;
}

static int metrics(struct call *c, struct cay_error *err);
static int openapi(struct call *c, struct cay_error *err);

static const struct route routes[] = {
    {"GET", "/metrics", metrics},
    {"GET", "/openapi.json", openapi, NEED_NOTHING},
    {"GET", "/api/cay/sandbox", list_handle},
    {"POST", "/api/cay/sandbox", create_handle, .needs_space = true},
    {"GET", "/api/cay/sandbox/{who}", get},
    {"DELETE", "/api/cay/sandbox/{who}", remove_it},
    {"POST", "/api/cay/sandbox/{who}/start", start_handle},
    {"POST", "/api/cay/sandbox/{who}/recover", start_handle},
    {"POST", "/api/cay/sandbox/{who}/stop", stop},
    {"POST", "/api/cay/sandbox/{who}/archive", archive_handle, .needs_space = true},
    {"POST", "/api/cay/sandbox/{who}/pause", pause_it},
    {"POST", "/api/cay/sandbox/{who}/resume", resume},
    {"PUT", "/api/cay/sandbox/{who}/labels", label},
    {"POST", "/api/cay/sandbox/{who}/resize", resize_handle},
    {"POST", "/api/cay/sandbox/{who}/autostop/{minutes}", interval_handle},
    {"POST", "/api/cay/sandbox/{who}/autoarchive/{minutes}", interval_handle},
    {"POST", "/api/cay/sandbox/{who}/autodelete/{minutes}", interval_handle},
    {"POST", "/api/cay/sandbox/{who}/update", update_handle},
    {"POST", "/api/cay/sandbox/{who}/rename", rename_it},
    {"POST", "/api/cay/sandbox/{who}/snapshot", snapshot, NEED_IMAGES, .needs_space = true},
    {"GET", "/api/cay/sandbox/{who}/stats", stats},
    {"GET", "/api/cay/sandbox/{who}/events", events_handle},
    {"GET", "/api/cay/sandbox/{who}/connect", connect_handle, NEED_USE},
    {"GET", "/api/cay/status", status, NEED_NOTHING},
    {"GET", "/api/cay/volumes", volume_list_handle},
    {"POST", "/api/cay/volumes", volume_create_handle, .needs_space = true},
    {"GET", "/api/cay/volumes/{id}", volume_get_handle},
    {"DELETE", "/api/cay/volumes/{id}", volume_remove_handle},
    {"POST", "/api/cay/volumes/{id}/resize", volume_resize_handle, .needs_space = true},
    {"GET", "/api/cay/volumes/by-name/{name}", volume_get_handle},
    {"GET", "/api/cay/api-keys", key_list_handle, NEED_ADMIN},
    {"POST", "/api/cay/api-keys", key_create_handle, NEED_ADMIN},
    {"GET", "/api/cay/api-keys/current", key_current_handle, NEED_NOTHING},
    {"GET", "/api/cay/api-keys/{name}", key_get_handle, NEED_ADMIN},
    {"DELETE", "/api/cay/api-keys/{name}", key_remove_handle, NEED_ADMIN},
    {"GET", "/api/cay/organizations", organization_list_handle, NEED_ADMIN},
    {"POST", "/api/cay/organizations", organization_create_handle, NEED_ADMIN},
    {"GET", "/api/cay/organizations/{name}", organization_get_handle, NEED_ADMIN},
    {"DELETE", "/api/cay/organizations/{name}", organization_remove_handle, NEED_ADMIN},
    {"GET", "/api/cay/usage", usage_handle, NEED_NOTHING},
    {"GET", "/api/cay/audit", audit_list_handle, NEED_ADMIN},
    {"DELETE", "/api/cay/audit", audit_trim_handle, NEED_ADMIN},
    {"GET", "/api/cay/audit/verify", audit_verify_handle, NEED_ADMIN},
};

static const struct route_table own_routes = {routes, ARRAY_LEN(routes)};
static const struct route_table *const tables[] = {
    &own_routes,
    &health_routes,
    &daytona_sandbox_routes,
    &daytona_misc_routes,
    &daytona_snapshot_routes,
    &daytona_build_routes,
    &s3_routes,
    &sign_routes,
    &toolbox_files_routes,
    &toolbox_search_routes,
    &toolbox_upload_routes,
    &toolbox_download_routes,
    &events_socket_routes,
    &preview_routes,
    &preview_url_routes,
    &toolbox_git_routes,
    &toolbox_git_config_routes,
    &toolbox_info_routes,
    &toolbox_process_routes,
    &python_routes,
    &toolbox_session_routes,
    &toolbox_pty_routes,
    &toolbox_interpreter_routes,
    &toolbox_ports_routes,
    &toolbox_lsp_routes,
    &daytona_absent_routes, /* the last: what nobody serves */
};

static int metrics(struct call *c, struct cay_error *err) {
    (void)err;
    c->answer.type = PROMETHEUS_CONTENT_TYPE;
    metrics_write(&c->answer.body, c->manager, c->interpreters, c->sees_metrics ? NULL : &c->caller,
                  tables, ARRAY_LEN(tables));
    if (c->lender != NULL)
        metrics_page_prepared(&c->answer.body, c->lender);
    metrics_page_http(&c->answer.body, c);
    return 0;
}

static int openapi(struct call *c, struct cay_error *err) {
    (void)err;
    openapi_write(&c->answer.body, tables, ARRAY_LEN(tables) - 1); /* without what nobody serves */
    return 0;
}

/* ---- running ---- */

static void refuse_route(struct call *c, const char *method, const char *allow) {
    struct cay_error err;
    if (allow[0] == '\0') {
        error_set(&err, CAY_NOT_FOUND, "there is nothing at this path");
        (void)error_remedy(&err, "docs/api.md lists the paths");
        call_fail(c, &err, 0);
        return;
    }
    error_set(&err, CAY_INVALID_ARGUMENT, "this path does not know the method %.20s", method);
    (void)error_remedy(&err, "use %s", allow);
    call_fail(c, &err, 405);
    (void)call_add_header(c, "Allow", allow, NULL);
}

static int open_route(struct call *c, struct cay_error *err) {
    bool is_look = str_equal(c->route->method, "GET");
    int r = access_check(&c->caller, c->route->need, is_look, err);
    /* What the toolbox changes is inside a sandbox. */
    if (r == 0 && !is_look && !str_starts(c->route->pattern, "/toolbox/"))
        r = manager_check_rescue(c->manager, err);
    if (r == 0 && c->route->needs_space)
        r = manager_check_space(c->manager, err);
    if (r == 0 && route_has_sandbox(c->route)) {
        r = manager_find(c->manager, &c->caller, c->who, c->id, err);
        if (r == 0)
            c->who = c->id;
    }
    return r < 0 || c->route->open == NULL ? r : c->route->open(c, err);
}

static bool is_audited(const struct call *c) {
    return !str_equal(c->route->method, "GET") || c->route->need == NEED_USE;
}

/* What changes something, uses a sandbox, or was refused. A creation that tells its progress is
 * noted when it is done, and trimming by whoever does it. */
static void note(struct call *c, int r) {
    const struct route *route = c->route;
    char action[ROUTE_ACTION_SIZE];
    const char *object = c->object[0] != '\0' ? c->object : c->who != NULL ? c->who : "";
    (void)route_action(route, action);
    if (r == -CAY_FORBIDDEN) {
        manager_audit_refusal(c->manager, c->caller.name, action, object, cay_code_name(-r), "");
        return;
    }
    if (!is_audited(c) || c->is_noted)
        return;
    manager_audit(c->manager, c->caller.name, action, object, r < 0 ? cay_code_name(-r) : "ok",
                  c->detail);
}

int call_begin(struct call *c, const char *method) {
    struct cay_error err;
    char allow[ROUTE_ALLOW_SIZE];
    c->method = method;
    daytona_rewrite(&c->target);
    c->route = route_find(tables, ARRAY_LEN(tables), method, &c->target, &c->args, allow);
    c->who = c->args.v[0];
    if (c->route == NULL) {
        refuse_route(c, method, allow);
        return -CAY_NOT_FOUND;
    }
    if (c->route->body_max > 0)
        c->body.max = c->route->body_max;
    log_set_field("sandbox", c->who);
    int r = open_route(c, &err);
    if (r < 0) {
        note(c, r);
        call_fail(c, &err, 0);
    }
    return r;
}

/* The audit's row goes with the change, if there is one; a failure after that is told as well. */
static int run_noted(struct call *c, struct cay_error *err) {
    char action[ROUTE_ACTION_SIZE];
    struct audit_intent intent = {
        .who = c->caller.name, .action = route_action(c->route, action), .detail = c->detail};
    if (is_audited(c))
        manager_audit_announce(&intent);
    int r = c->route->handler(c, err);
    manager_audit_announce(NULL);
    c->is_noted |= intent.is_written && r == 0;
    note(c, r);
    return r;
}

void call_run(struct call *c) {
    struct cay_error err;
    int r = run_noted(c, &err);
    if (r < 0) {
        call_fail(c, &err, 0);
    } else if (c->answer.body.failed) {
        error_set(&err, CAY_RESOURCE_EXHAUSTED, "the answer is too long");
        buf_free(&c->answer.body);
        c->answer.body = BUF_INIT(CALL_ANSWER_MAX);
        call_fail(c, &err, 0);
    }
}
