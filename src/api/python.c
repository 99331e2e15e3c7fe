#include "api/python.h"

#include <string.h>

#include "api/call.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "lib/python.h"
#include "lib/python_json.h"
#include "lib/python_report.h"
#include "manager/interpreters.h"

enum { GRACE_MS = 5000, TIMEOUT_S = 60, TIMEOUT_MAX_S = 24 * 3600, CAPTURE = 1024 * 1024 };

/* ---- in a sandbox that stays ---- */

static void say(struct call *c, const char *why_cold) {
    char text[256], shown[200];
    struct cay_error ignored; /* it only is not said then */
    (void)snprintf(text, sizeof text, "%s%s", why_cold == NULL ? "warm" : "cold; ",
                   why_cold == NULL ? "" : str_escape(shown, sizeof shown, why_cold));
    (void)call_add_header(c, "X-Cay-Python", text, &ignored);
}

/* Whether the program began: its report says so first. */
static bool has_begun(const struct buf *report) {
    struct cay_python_result result = {0};
    bool begun = python_report_read(report, &result) == 0 && result.version != NULL;
    cay_python_result_free(&result);
    return begun;
}

static int run_over(struct call *c, const struct toolbox *t, const struct toolbox_command *command,
                    struct toolbox_output *out, struct exec_outcome *ret, struct cay_error *err) {
    int r = toolbox_send(t, command, err);
    int64_t limit = command->timeout_ms > 0 ? clock_deadline(command->timeout_ms + GRACE_MS) : 0;
    return r < 0 ? r : toolbox_carry(c, t, command->input, limit, out, ret, err);
}

int python_run_warm(struct call *c, const char *code, const struct strv *argv,
                    const struct strv *env, int64_t timeout_ms, struct toolbox_output *out,
                    struct exec_outcome *ret, struct cay_error *err) {
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    _cleanup_(buf_free) struct buf input = BUF_INIT(PYTHON_REQUEST_MAX);
    _cleanup_(buf_free) struct buf report = BUF_INIT(PYTHON_REPORT_MAX);
    struct cay_error why = {0};
    if (c->interpreters == NULL)
        return 0;
    int r = toolbox_begin(c, &t, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = interpreters_find(c->interpreters, &t.record, env, &why);
    const struct cay_python program = {
        .name = "-c", .code = code, .code_len = strlen(code), .args = (const char *const *)argv->v};
    if (fd < 0 || python_put_request(&program, &input, &why) < 0) {
        say(c, why.message);
        return 0;
    }
    const struct toolbox_command command = {.argv = python_kept_argv,
                                            .env = (const char *const *)env->v,
                                            .input = &input,
                                            .timeout_ms = timeout_ms,
                                            .program = fd,
                                            .merge = true};
    out->report = &report;
    r = run_over(c, &t, &command, out, ret, err);
    out->report = NULL;
    if (has_begun(&report) || ret->reason == WIRE_REASON_TIMEOUT) {
        say(c, NULL);
        return r < 0 ? r : 1;
    }
    buf_clear(&out->all);
    say(c, r == 0 && ret->exit_code == PYTHON_CHANGED ? "the sandbox's Python is another by now"
                                                      : "the warm interpreter could not be woken");
    return 0;
}

/* ---- in a fresh one ---- */

struct request {
    struct json_document *doc;
    const char *code, *cwd, *name;
    struct strv env, argv;
    int64_t timeout_s;
};

static void request_free(struct request *q) {
    json_free(q->doc);
    strv_free(&q->env);
    strv_free(&q->argv);
}

static int read_request(const struct call *c, struct request *q, struct cay_error *err) {
    int r = json_parse("request body", buf_text(&c->body), c->body.len, &q->doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(q->doc, "");
    r = json_get_string(&root, "code", JSON_REQUIRED, &q->code, err);
    if (r == 0)
        r = json_get_string(&root, "name", JSON_OPTIONAL, &q->name, err);
    if (r == 0)
        r = json_get_string(&root, "cwd", JSON_OPTIONAL, &q->cwd, err);
    q->timeout_s = TIMEOUT_S;
    if (r == 0)
        r = json_get_integer(&root, "timeout", JSON_OPTIONAL, 1, TIMEOUT_MAX_S, &q->timeout_s, err);
    if (r == 0)
        r = toolbox_read_env(&root, "envs", &q->env, err);
    return r < 0 ? r : toolbox_read_argv(&root, &q->argv, err);
}

static int answer(struct call *c, const struct cay_python_result *result, const char *why_cold) {
    const struct cay_program_result program = {.program = *result};
    const struct python_told told = {.result = &program, .type = "others", .why_cold = why_cold};
    struct jsonw w = JSONW_INIT(&c->answer.body);
    python_put_json(&w, &told);
    return 0;
}

static int run_fresh(struct call *c, struct cay_error *err) {
    _cleanup_(request_free) struct request q = {0};
    char why_cold[200] = "";
    if (c->interpreters == NULL)
        return error_set(err, CAY_UNSUPPORTED, "this daemon runs no programs by itself");
    int r = read_request(c, &q, err);
    if (r < 0)
        return r;
    const struct cay_python program = {.name = q.name != NULL ? q.name : "-c",
                                       .code = q.code,
                                       .code_len = strlen(q.code),
                                       .args = (const char *const *)q.argv.v};
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.env = (const char *const *)q.env.v;
    exec.work_dir = q.cwd;
    exec.timeout_ms = q.timeout_s * 1000;
    exec.capture_max = CAPTURE;
    struct cay_python_result result;
    r = interpreters_run(c->interpreters, &program, &exec, &result, why_cold, err);
    if (r == 0)
        r = answer(c, &result, why_cold);
    cay_python_result_free(&result);
    return r;
}

static const struct route routes[] = {
    {"POST", "/api/cay/python", run_fresh, NEED_SANDBOXES},
};
const struct route_table python_routes = {routes, ARRAY_LEN(routes)};
