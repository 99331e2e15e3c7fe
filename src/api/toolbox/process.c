/* Single commands and pieces of code. */
#include <string.h>

#include "api/toolbox/command.h"
#include "api/toolbox/python.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "lib/python/json.h"
#include "lib/python/language.h"
#include "lib/python/options.h"

enum {
    ARGUMENT_MAX = 96 * 1024, /* the kernel takes 128 KiB; what is longer goes in by stdin */
    TIMEOUT_MAX_S = 30 * 24 * 3600,
    ARGUMENTS_MAX = 4096,
};

struct request {
    struct json_document *doc;
    const char *text, *language, *cwd;
    struct strv env, argv, packages;
    enum cay_python_type type;
    int64_t timeout_s, began_ms;
    bool svg;
};

static void request_free(struct request *q) {
    json_free(q->doc);
    strv_free(&q->env);
    strv_free(&q->argv);
    strv_free(&q->packages);
}

/* ---- reading ---- */

int toolbox_read_argv(const struct json *root, const char *key, struct strv *ret,
                      struct cay_error *err) {
    struct json list, one;
    int r = json_get_array(root, key, JSON_OPTIONAL, &list, err);
    if (r == 0 && list.value != NULL && json_count(&list) > ARGUMENTS_MAX)
        r = json_refuse(&list, err, "more than %d words", ARGUMENTS_MAX);
    for (size_t i = 0; r == 0 && list.value != NULL && json_item(&list, i, &one); i++) {
        const char *word = "";
        r = json_as_string(&one, &word, err);
        if (r == 0 && strv_push(ret, word) < 0)
            r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    return r;
}

/* What both kinds of request have; the text is under its own name in each. */
static int read_request(const struct call *c, const char *key, struct request *q,
                        struct cay_error *err) {
    q->began_ms = clock_ms();
    int r = json_parse("request body", buf_text(&c->body), c->body.len, &q->doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(q->doc, "");
    r = json_get_string(&root, key, JSON_REQUIRED, &q->text, err);
    if (r == 0)
        r = json_get_string(&root, "language", JSON_OPTIONAL, &q->language, err);
    if (r == 0)
        r = json_get_string(&root, "cwd", JSON_OPTIONAL, &q->cwd, err);
    if (r == 0)
        r = json_get_integer(&root, "timeout", JSON_OPTIONAL, 0, TIMEOUT_MAX_S, &q->timeout_s, err);
    if (r == 0)
        r = toolbox_read_env(&root, "envs", &q->env, err);
    if (r == 0)
        r = toolbox_read_argv(&root, "argv", &q->argv, err);
    if (r == 0)
        r = json_get_bool(&root, "svg", JSON_OPTIONAL, &q->svg, err);
    if (r == 0)
        r = toolbox_read_argv(&root, "packages", &q->packages, err);
    if (r == 0)
        r = python_read_type(&root, &q->type, err);
    if (r == 0 && q->text[strspn(q->text, " \t\r\n")] == '\0') {
        error_set(err, CAY_INVALID_ARGUMENT, "%s: it is empty", key);
        r = error_remedy(err, "say what to run");
    }
    return r;
}

/* ---- answering ---- */

/* The name of the file is the inside's word, as the output is. */
static void put_file_note(struct buf *b, const struct exec_outcome *o) {
    char shown[EXEC_FILE_SIZE];
    (void)buf_printf(b, "\n[cay: what follows after %d MB of output is left out",
                     TOOLBOX_OUTPUT_MAX / 1024 / 1024);
    if (o->file[0][0] == '\0')
        (void)buf_puts(b, "; there is no room for a file with it]\n");
    else if (o->in_file >= o->printed)
        (void)buf_printf(b, "; all of it is in %s]\n", str_escape(shown, sizeof shown, o->file[0]));
    else
        (void)buf_printf(b, "; the first %llu MB are in %s, and more is not kept]\n",
                         (unsigned long long)(o->in_file / 1024 / 1024),
                         str_escape(shown, sizeof shown, o->file[0]));
}

/* What the daemon has to say stands behind the output, where every client shows it. */
static void put_notes(struct toolbox_output *out, const struct exec_outcome *o, bool is_oom) {
    enum { NOTES_MAX = 512 };
    out->all.max += NOTES_MAX;
    if (out->is_cut)
        put_file_note(&out->all, o);
    if (is_oom)
        (void)buf_puts(&out->all, "\n[cay: a process was killed: the sandbox is out of memory]\n");
}

static int refuse_timeout(struct call *c, const struct request *q, struct toolbox_output *out,
                          const struct exec_outcome *outcome, struct cay_error *err) {
    put_notes(out, outcome, false);
    c->fault_is_cut = out->is_cut;
    (void)snprintf(c->fault_file, sizeof c->fault_file, "%s", outcome->file[0]);
    c->fault_output = out->all;
    out->all = BUF_INIT(0);
    error_set(err, CAY_TIMEOUT, "the command was ended after its timeout of %lld s",
              (long long)q->timeout_s);
    (void)error_remedy(err, "give it more time, or use a session with runAsync");
    return toolbox_fault(c, "PROCESS_EXECUTION_TIMEOUT", 408, err);
}

/* What a Python program is known to have done, besides its output and figures. */
static void put_report(struct jsonw *w, const struct request *q,
                       const struct cay_python_result *report) {
    python_put_exception(w, report);
    python_put_files(w, report);
    jsonw_put_bool(w, "filesTruncated", report->files_truncated);
    if (q->type != CAY_PYTHON_OTHERS)
        python_put_report(w, &report->report, python_types[q->type]);
}

static int answer(struct call *c, const struct request *q, struct toolbox_output *out,
                  const struct exec_outcome *outcome, const struct cay_python_result *report,
                  struct cay_error *err) {
    if (outcome->reason == WIRE_REASON_TIMEOUT)
        return refuse_timeout(c, q, out, outcome, err);
    bool is_oom = toolbox_ran_out_of_memory(c, outcome->exit_code, q->began_ms);
    put_notes(out, outcome, is_oom);
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_integer(&w, "exitCode", outcome->exit_code);
    if (is_oom)
        jsonw_put_bool(&w, "oomKilled", true);
    if (out->is_cut)
        toolbox_put_output_file(&w, outcome->file[0]);
    jsonw_key(&w, "result");
    jsonw_bytes(&w, buf_text(&out->all), out->all.len);
    if (report != NULL) {
        command_put_ms(&w, "durationMs", outcome->elapsed_us);
        if (report->version != NULL)
            put_report(&w, q, report);
        python_put_artifacts(&w, report);
    }
    jsonw_end_object(&w);
    return 0;
}

/* ---- execute ---- */

/* Both streams are one for the command, so that their order is kept. */
static const char merge[] = "exec 2>&1; ";

static int run_shell(struct call *c, const struct request *q, const char *shell,
                     const struct buf *script, struct toolbox_output *out,
                     struct exec_outcome *outcome, struct cay_error *err) {
    bool is_long = script->len > ARGUMENT_MAX;
    const char *const argv[] = {shell, is_long ? "-s" : "-c", is_long ? NULL : buf_text(script),
                                NULL};
    const struct toolbox_command command = {
        .argv = argv,
        .env = (const char *const *)q->env.v,
        .cwd = q->cwd,
        .input = is_long ? script : NULL,
        .timeout_ms = q->timeout_s * 1000,
        .spills = true,
    };
    return toolbox_run(c, &command, out, outcome, err);
}

/* SDKs before 0.167 wrap a command as sh -c "…", with what is the user's encoded inside, for a
 * server without a shell of its own. Ours would expand what only the inner one may: it reads that
 * alone. */
static int put_script(const struct call *c, const char *text, struct buf *ret,
                      struct cay_error *err) {
    static const char wrapping[] = "sh -c \"";
    size_t len = strlen(text), skip = sizeof wrapping - 1;
    bool is_wrapped = toolbox_sdk_is_before(c, 167) && str_starts(text, wrapping) && len > skip &&
                      skip + strcspn(text + skip, "\"\\") == len - 1 && str_ends(text, "\"");
    (void)buf_puts(ret, merge);
    (void)buf_append(ret, is_wrapped ? text + skip : text, is_wrapped ? len - skip - 1 : len);
    return ret->failed ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

static int execute(struct call *c, struct cay_error *err) {
    _cleanup_(request_free) struct request q = {0};
    _cleanup_(buf_free) struct buf script = BUF_INIT(CALL_BODY_MAX + sizeof merge);
    _cleanup_(toolbox_output_free) struct toolbox_output out = TOOLBOX_OUTPUT_INIT;
    struct exec_outcome outcome = {0};
    int r = read_request(c, "command", &q, err);
    if (r == 0)
        r = put_script(c, q.text, &script, err);
    if (r < 0)
        return r;
    r = run_shell(c, &q, "bash", &script, &out, &outcome, err);
    if (r == -CAY_NOT_FOUND && !outcome.started)
        r = run_shell(c, &q, "sh", &script, &out, &outcome, err); /* an image without bash */
    return r < 0 ? r : answer(c, &q, &out, &outcome, NULL, err);
}

/* ---- code ---- */

static bool found_nothing(const struct toolbox_output *out, const struct exec_outcome *outcome) {
    return outcome->exit_code == 127 && str_starts(buf_text(&out->all), language_missing);
}

static int run_other(struct call *c, const struct language *l, const struct request *q,
                     struct toolbox_output *out, struct exec_outcome *outcome,
                     struct cay_error *err) {
    _cleanup_(strv_free) struct strv argv = {0};
    _cleanup_(buf_free) struct buf input = BUF_INIT(CALL_CODE_MAX);
    const struct language_request request = {
        .code_len = strlen(q->text), .args = (const char *const *)q->argv.v, .merges = true};
    int r = language_argv(l, &request, &argv, err);
    if (r == 0 && buf_puts(&input, q->text) < 0)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    const struct toolbox_command command = {
        .argv = (const char *const *)argv.v,
        .env = (const char *const *)q->env.v,
        .input = &input,
        .timeout_ms = q->timeout_s * 1000,
        .spills = true,
    };
    return r < 0 ? r : toolbox_run(c, &command, out, outcome, err);
}

static int run_code(struct call *c, const struct language *l, const struct request *q,
                    struct toolbox_output *out, struct exec_outcome *outcome,
                    struct cay_python_result *report, struct cay_error *err) {
    bool is_python = str_equal(l->name, "python");
    if (!is_python && (q->type != CAY_PYTHON_OTHERS || q->packages.len > 0)) {
        error_set(err, CAY_INVALID_ARGUMENT, "packages and code_type are for Python, not for %s",
                  l->name);
        return error_remedy(err, "leave them away");
    }
    if (!is_python)
        return run_other(c, l, q, out, outcome, err);
    const struct python_code code = {.text = q->text,
                                     .argv = &q->argv,
                                     .env = &q->env,
                                     .packages = &q->packages,
                                     .type = q->type,
                                     .timeout_ms = q->timeout_s * 1000,
                                     .svg = q->svg};
    return python_run_code(c, &code, out, outcome, report, err);
}

static int code_run(struct call *c, struct cay_error *err) {
    _cleanup_(request_free) struct request q = {0};
    _cleanup_(toolbox_output_free) struct toolbox_output out = TOOLBOX_OUTPUT_INIT;
    struct exec_outcome outcome = {0};
    int r = read_request(c, "code", &q, err);
    if (r < 0)
        return r;
    const struct language *l = language_find(q.language);
    _cleanup_(cay_python_result_free) struct cay_python_result report = {0};
    r = l == NULL ? language_refuse(q.language, err)
                  : run_code(c, l, &q, &out, &outcome, &report, err);
    if (r < 0)
        return r;
    if (!found_nothing(&out, &outcome))
        return answer(c, &q, &out, &outcome, &report, err);
    error_set(err, CAY_UNSUPPORTED, "the sandbox's image has nothing that runs %s", l->name);
    return error_remedy(err, "make the sandbox from an image that has it");
}

static const struct route routes[] = {
    {"POST", "/toolbox/{who}/process/execute", execute, NEED_SANDBOXES},
    {"POST", "/toolbox/{who}/process/code-run", code_run, NEED_SANDBOXES,
     .body_max = CALL_CODE_MAX},
};
const struct route_table toolbox_process_routes = {routes, ARRAY_LEN(routes)};
