#include "api/toolbox/python.h"

#include <string.h>

#include "api/call.h"
#include "api/metrics/metrics.h"
#include "api/toolbox/python_output.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json/json.h"
#include "lib/python/json.h"
#include "lib/python/language.h"
#include "lib/python/options.h"
#include "lib/python/python.h"
#include "lib/python/report.h"
#include "manager/python/interpreters.h"

enum {
    GRACE_MS = 5000,
    TIMEOUT_S = 60,
    TIMEOUT_MAX_S = 24 * 3600,
    CAPTURE = 1024 * 1024,
    INDEX_URL_SIZE = 1024
};

/* ---- in a sandbox that stays ---- */

const char *python_how(const char *why_cold, char out[static PYTHON_HOW_SIZE]) {
    char shown[200];
    (void)snprintf(out, PYTHON_HOW_SIZE, "%s%s", why_cold == NULL ? "warm" : "cold; ",
                   why_cold == NULL ? "" : str_escape(shown, sizeof shown, why_cold));
    return out;
}

void python_say(struct call *c, const char *why_cold) {
    char text[PYTHON_HOW_SIZE];
    struct cay_error ignored; /* it only is not said then */
    (void)call_add_header(c, "X-Cay-Python", python_how(why_cold, text), &ignored);
}

const char *python_why_cold(bool is_changed) {
    return is_changed ? "the sandbox's Python is another by now"
                      : "the warm interpreter could not be woken";
}

static int run_over(struct call *c, const struct toolbox *t, const struct toolbox_command *command,
                    struct toolbox_output *out, struct exec_outcome *ret,
                    struct cay_python_result *ret_report, struct cay_error *err) {
    _cleanup_(buf_free) struct buf report = BUF_INIT(PYTHON_REPORT_MAX);
    int r = toolbox_send(t, command, err);
    if (r < 0)
        return r;
    int64_t limit = command->timeout_ms > 0 ? clock_deadline(command->timeout_ms + GRACE_MS) : 0;
    out->report = &report;
    out->changed = python_take_change;
    out->changed_arg = ret_report;
    r = toolbox_carry(c, t, command->input, limit, out, ret, err);
    toolbox_count(c, r, ret);
    out->report = NULL;
    out->changed = NULL;
    ret_report->files_truncated |= !ret->all_changes;
    if (python_report_read(&report, ret_report) < 0 && r == 0)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    return r;
}

static struct toolbox_command make_command(const struct python_code *code, const char *const *argv,
                                           const struct buf *input) {
    return (struct toolbox_command){.argv = argv,
                                    .env = (const char *const *)code->env->v,
                                    .input = input,
                                    .timeout_ms = code->timeout_ms,
                                    .report = true,
                                    .merge = true,
                                    .spills = true,
                                    .watch = true};
}

/* 1 if it has run, warm; 0 if it has to be started cold, and nothing was run; or negative. */
static int run_warm(struct call *c, const struct python_code *code, const struct buf *input,
                    struct toolbox_output *out, struct exec_outcome *ret,
                    struct cay_python_result *ret_report, struct cay_error *err) {
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    struct cay_error why = {0};
    if (c->interpreters == NULL)
        return 0;
    int r = toolbox_begin(c, &t, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = interpreters_find(c->interpreters, &t.record, code->env, &why);
    if (fd < 0) {
        python_say(c, why.message);
        return 0;
    }
    struct toolbox_command command = make_command(code, python_kept_argv, input);
    command.program = fd;
    r = run_over(c, &t, &command, out, ret, ret_report, err);
    /* Its report says first that it began. */
    if (ret_report->version != NULL || ret->reason == WIRE_REASON_TIMEOUT) {
        python_say(c, NULL);
        return r < 0 ? r : 1;
    }
    buf_clear(&out->all);
    cay_python_result_free(ret_report);
    bool changed = r == 0 && ret->exit_code == PYTHON_CHANGED;
    if (changed)
        interpreters_note_changed(c->interpreters, &t.record);
    python_say(c, python_why_cold(changed));
    return 0;
}

static int run_cold(struct call *c, const struct python_code *code,
                    const struct cay_python *program, const struct buf *input,
                    struct toolbox_output *out, struct exec_outcome *ret,
                    struct cay_python_result *ret_report, struct cay_error *err) {
    static const char find[] =
        "for p in python3 python; do command -v $p >/dev/null && exec $p -u -c \"$1\"; done; "
        "echo '%s'; exit 127";
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    char script[512];
    _cleanup_(freep) char *text = python_cold_text(program);
    if (text == NULL || str_format(script, sizeof script, find, language_missing) < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    const char *const argv[] = {"/bin/sh", "-c", script, "sh", text, NULL};
    const struct toolbox_command command = make_command(code, argv, input);
    int r = toolbox_begin(c, &t, err);
    return r < 0 ? r : run_over(c, &t, &command, out, ret, ret_report, err);
}

static int judge_code(const struct cay_python *program, struct exec_outcome *outcome,
                      struct cay_python_result *report, struct cay_error *err) {
    if (report->version == NULL) /* it never began */
        return 0;
    int r = python_judge_options(program, report, err);
    if (r == 0 && outcome->exit_code == 0 && report->report.problem_count > 0)
        outcome->exit_code = 1;
    return r;
}

int python_run_code(struct call *c, const struct python_code *code, struct toolbox_output *out,
                    struct exec_outcome *ret, struct cay_python_result *ret_report,
                    struct cay_error *err) {
    _cleanup_(buf_free) struct buf input = BUF_INIT(PYTHON_REQUEST_MAX);
    char index_url[INDEX_URL_SIZE] = "";
    if (c->interpreters != NULL)
        interpreters_index(c->interpreters, index_url, sizeof index_url);
    const struct cay_python program = {.name = "-c",
                                       .code = code->text,
                                       .code_len = strlen(code->text),
                                       .args = (const char *const *)code->argv->v,
                                       .packages = (const char *const *)code->packages->v,
                                       .index_url = index_url,
                                       .type = code->type,
                                       .svg = code->svg};
    int r = python_put_request(&program, &input, err);
    if (r == 0 && code->packages->len > 0)
        python_say(c, "packages are installed for it");
    else if (r == 0)
        r = run_warm(c, code, &input, out, ret, ret_report, err);
    if (r == 0)
        r = run_cold(c, code, &program, &input, out, ret, ret_report, err);
    return r < 0 ? r : judge_code(&program, ret, ret_report, err);
}

/* A chart that is no chart any more with what JSON allows at most is left away. */
static void put_chart(struct jsonw *w, const struct cay_python_figure *f) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct cay_error ignored;
    struct json member;
    void *at = NULL;
    jsonw_begin_object(w);
    jsonw_key(w, "png");
    jsonw_base64(w, f->data, f->len);
    if (f->svg != NULL) {
        jsonw_key(w, "svg");
        jsonw_bytes(w, f->svg, strlen(f->svg));
    }
    if (f->chart != NULL && json_parse("chart", f->chart, strlen(f->chart), &doc, &ignored) == 0) {
        struct json root = json_root(doc, "");
        while (json_next(&root, &at, &member))
            if (!str_equal(member.key, "png") && !str_equal(member.key, "svg")) {
                jsonw_key(w, member.key);
                json_write(&member, w);
            }
    } else {
        jsonw_put_string(w, "type", "unknown");
    }
    jsonw_end_object(w);
}

void python_put_artifacts(struct jsonw *w, const struct cay_python_result *result) {
    jsonw_key(w, "artifacts");
    jsonw_begin_object(w);
    jsonw_key(w, "charts");
    jsonw_begin_array(w);
    for (size_t i = 0; result != NULL && i < result->figure_count; i++)
        put_chart(w, &result->figures[i]);
    jsonw_end_array(w);
    jsonw_end_object(w);
}

/* ---- in a fresh one ---- */

struct request {
    struct json_document *doc;
    const char *code, *cwd, *name, *network;
    enum cay_python_type type;
    struct strv env, argv, packages;
    int64_t timeout_s, quiet_s;
    bool svg;
};

static void request_free(struct request *q) {
    json_free(q->doc);
    strv_free(&q->env);
    strv_free(&q->argv);
    strv_free(&q->packages);
}

int python_read_type(const struct json *root, enum cay_python_type *ret, struct cay_error *err) {
    const char *name = python_types[CAY_PYTHON_OTHERS];
    int r = json_get_string(root, "code_type", JSON_OPTIONAL, &name, err);
    for (size_t i = 0; r == 0 && python_types[i] != NULL; i++)
        if (str_equal(name, python_types[i])) {
            *ret = (enum cay_python_type)i;
            return 0;
        }
    if (r < 0)
        return r;
    error_set(err, CAY_INVALID_ARGUMENT, "code_type: there is no such type");
    return error_remedy(err, "use others, process or report");
}

/* A network is for who may have one. */
static int read_network(const struct call *c, const struct json *root, struct request *q,
                        struct cay_error *err) {
    int r = json_get_string(root, "network", JSON_OPTIONAL, &q->network, err);
    if (r == 0 && q->network != NULL)
        r = manager_check_network(c->manager, c->caller.id, q->network, err);
    if (r == 0 && q->network != NULL && (q->network[0] == '\0' || str_equal(q->network, "none")))
        q->network = NULL;
    return r;
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
        r = json_get_integer(&root, "idle_output_timeout", JSON_OPTIONAL, 0, TIMEOUT_MAX_S,
                             &q->quiet_s, err);
    if (r == 0)
        r = json_get_bool(&root, "svg", JSON_OPTIONAL, &q->svg, err);
    if (r == 0)
        r = toolbox_read_env(&root, "envs", &q->env, err);
    if (r == 0)
        r = toolbox_read_argv(&root, "argv", &q->argv, err);
    if (r == 0)
        r = toolbox_read_argv(&root, "packages", &q->packages, err);
    if (r == 0)
        r = python_read_type(&root, &q->type, err);
    return r < 0 ? r : read_network(c, &root, q, err);
}

static int answer(struct call *c, const struct request *q, struct cay_python_result *result,
                  const struct python_prints *prints, const char *why_cold) {
    char places[2][PYTHON_PLACE_SIZE];
    if (result->run.exit_code == 0 && result->report.problem_count > 0)
        result->run.exit_code = 1; /* a program that breaks its rules has failed */
    const char *out = python_note_more(prints, 0, &result->run, places[0]);
    const char *errors = python_note_more(prints, 1, &result->run, places[1]);
    const struct cay_program_result program = {.program = *result};
    const struct python_reported told = {.result = &program,
                                         .type = python_types[q->type],
                                         .why_cold = why_cold,
                                         .out_file = out,
                                         .err_file = errors};
    struct jsonw w = JSONW_INIT(&c->answer.body);
    python_put_json(&w, &told);
    return 0;
}

static void count(int r, const struct cay_result *run) {
    metrics_command(r < 0                 ? METRICS_LOST
                    : run->oom_killed     ? METRICS_OOM
                    : run->timed_out      ? METRICS_TIMEOUT
                    : run->signal != 0    ? METRICS_SIGNAL
                    : run->exit_code == 0 ? METRICS_OK
                                          : METRICS_FAILED);
}

static int run_request(struct call *c, const struct request *q, struct cay_error *err) {
    char why_cold[200] = "";
    const struct cay_python program = {.name = q->name != NULL ? q->name : "-c",
                                       .code = q->code,
                                       .code_len = strlen(q->code),
                                       .args = (const char *const *)q->argv.v,
                                       .packages = (const char *const *)q->packages.v,
                                       .type = q->type,
                                       .svg = q->svg};
    struct python_prints prints = PYTHON_PRINTS_INIT(c->outputs, key_owner(&c->caller));
    const struct interpreters_caller caller = {.socket = call_socket(c),
                                               .network = q->network,
                                               .owner = c->caller.id,
                                               .connections_max =
                                                   (uint32_t)c->caller.max_proxy_connections,
                                               .more = python_take_more,
                                               .more_arg = &prints};
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.env = (const char *const *)q->env.v;
    exec.work_dir = q->cwd;
    exec.timeout_ms = q->timeout_s * 1000;
    exec.idle_output_timeout_ms = q->quiet_s * 1000;
    exec.capture_max = CAPTURE;
    _cleanup_(cay_python_result_free) struct cay_python_result result;
    int r = interpreters_run(c->interpreters, &program, &exec, &caller, &result, why_cold, err);
    count(r, &result.run);
    if (r == 0)
        r = answer(c, q, &result, &prints, why_cold);
    python_prints_end(&prints, r == 0);
    return r;
}

static int run_fresh(struct call *c, struct cay_error *err) {
    _cleanup_(request_free) struct request q = {0};
    if (c->interpreters == NULL)
        return error_set(err, CAY_UNSUPPORTED, "this daemon runs no programs by itself");
    int r = read_request(c, &q, err);
    if (r < 0)
        return r;
    struct budget_charge use = {0};
    interpreters_charge(c->interpreters, &use);
    memcpy(use.owner, c->caller.id, sizeof use.owner);
    r = manager_budget_admit(c->manager, &use, err);
    if (r < 0)
        return r;
    r = run_request(c, &q, err);
    manager_budget_release(c->manager, &use);
    return r;
}

static const struct route routes[] = {
    {"POST", "/api/cay/python", run_fresh, NEED_SANDBOXES, .body_max = CALL_CODE_MAX},
    {"GET", "/api/cay/python/output/{output}", python_output_handle, NEED_SANDBOXES},
};
const struct route_table python_routes = {routes, ARRAY_LEN(routes)};
