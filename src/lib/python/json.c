#include "lib/python/json.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "lib/python/package.h"

void command_put_ms(struct jsonw *w, const char *key, int64_t us) {
    jsonw_put_number(w, key, (double)us / 1000);
}

static void put_bytes(struct jsonw *w, const char *key, const char *data, size_t len) {
    jsonw_key(w, key);
    jsonw_bytes(w, data != NULL ? data : "", len);
}

void command_put_result(struct jsonw *w, const struct cay_result *s, int exit_code) {
    jsonw_put_integer(w, "exit_code", exit_code);
    put_bytes(w, "stdout", s->out, s->out_len);
    put_bytes(w, "stderr", s->err, s->err_len);
    jsonw_put_bool(w, "timed_out", s->timed_out);
    jsonw_put_bool(w, "oom_killed", s->oom_killed);
    jsonw_put_bool(w, "output_truncated", s->output_truncated);
    command_put_ms(w, "duration_ms", s->duration_us);
}

void command_put_error(struct jsonw *w, const struct cay_error *err) {
    jsonw_key(w, "error");
    jsonw_begin_object(w);
    jsonw_put_string(w, "code", cay_code_name(err->code));
    jsonw_put_string(w, "message", err->message);
    jsonw_put_string(w, "remedy", err->remedy);
    jsonw_end_object(w);
}

bool python_remedy(const struct cay_python_result *r, char out[static PYTHON_REMEDY_SIZE]) {
    char module[PYTHON_MODULE_SIZE];
    if (!python_missing_module(r->type, r->message, module))
        return false;
    bool parquet = str_equal(module, "pyarrow");
    (void)snprintf(out, PYTHON_REMEDY_SIZE,
                   "there is no module %s: install its package (--package, or packages in a "
                   "request), which needs a network or a folder of wheels, or use an image that "
                   "has it%s",
                   module, parquet ? "; the image cay/data reads Parquet without it" : "");
    return true;
}

static void put_frames(struct jsonw *w, const struct cay_python_result *r) {
    jsonw_key(w, "frames");
    jsonw_begin_array(w);
    for (size_t i = 0; i < r->frame_count; i++) {
        const struct cay_python_frame *f = &r->frames[i];
        jsonw_begin_object(w);
        jsonw_put_string(w, "file", f->file);
        jsonw_put_unsigned(w, "line", f->line);
        jsonw_put_string(w, "function", f->function);
        jsonw_put_string(w, "source", f->source);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

void python_put_exception(struct jsonw *w, const struct cay_python_result *r) {
    jsonw_key(w, "exception");
    if (r->type == NULL) {
        jsonw_null(w);
        return;
    }
    jsonw_begin_object(w);
    jsonw_put_string(w, "type", r->type);
    jsonw_put_string(w, "message", r->message != NULL ? r->message : "");
    jsonw_put_string(w, "traceback", r->traceback != NULL ? r->traceback : "");
    put_frames(w, r);
    char remedy[PYTHON_REMEDY_SIZE];
    jsonw_put_string(w, "remedy", python_remedy(r, remedy) ? remedy : NULL);
    jsonw_end_object(w);
}

void python_put_files(struct jsonw *w, const struct cay_python_result *r) {
    jsonw_key(w, "files");
    jsonw_begin_array(w);
    for (size_t i = 0; i < r->file_count; i++) {
        jsonw_begin_object(w);
        jsonw_put_string(w, "path", r->files[i].path);
        jsonw_put_unsigned(w, "size", r->files[i].size);
        jsonw_put_bool(w, "created", r->files[i].created);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

static void put_chart(struct jsonw *w, const char *chart) {
    jsonw_key(w, "chart");
    if (chart == NULL)
        jsonw_null(w);
    else
        jsonw_object(w, chart, strlen(chart));
}

static void put_figures(struct jsonw *w, const struct cay_python_result *r) {
    jsonw_key(w, "figures");
    jsonw_begin_array(w);
    for (size_t i = 0; i < r->figure_count; i++) {
        jsonw_begin_object(w);
        jsonw_put_string(w, "format", r->figures[i].format);
        jsonw_key(w, "data");
        jsonw_base64(w, r->figures[i].data, r->figures[i].len);
        put_chart(w, r->figures[i].chart);
        if (r->figures[i].svg != NULL)
            put_bytes(w, "svg", r->figures[i].svg, strlen(r->figures[i].svg));
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

static void put_interpreter(struct jsonw *w, const struct cay_python_result *r, const char *why) {
    jsonw_key(w, "interpreter");
    jsonw_begin_object(w);
    jsonw_put_string(w, "version", r->version);
    jsonw_put_bool(w, "warm", r->warm);
    jsonw_put_string(w, "why_cold", r->warm || why[0] == '\0' ? NULL : why);
    jsonw_end_object(w);
}

static void put_list(struct jsonw *w, const char *key, char *const *items, size_t count) {
    jsonw_key(w, key);
    jsonw_begin_array(w);
    for (size_t i = 0; i < count; i++)
        jsonw_string(w, items[i]);
    jsonw_end_array(w);
}

void python_put_report(struct jsonw *w, const struct cay_python_report *r, const char *type) {
    jsonw_put_string(w, "code_type", type);
    put_list(w, "problems", r->problems, r->problem_count);
    jsonw_key(w, "report");
    if (r->path == NULL) {
        jsonw_null(w);
        return;
    }
    jsonw_begin_object(w);
    jsonw_put_string(w, "path", r->path);
    jsonw_put_string(w, "text", r->text);
    put_list(w, "sections", r->sections, r->section_count);
    put_list(w, "figures", r->figures, r->figure_count);
    jsonw_end_object(w);
}

static void put_language(struct jsonw *w, const struct python_reported *t) {
    const char *tool = t->result->tool;
    if (tool == NULL && t->result->program.version != NULL)
        tool = "python3";
    jsonw_put_string(w, "language", t->language);
    jsonw_put_string(w, "tool", tool);
    jsonw_put_string(w, "phase", t->result->compiling ? "compile" : "run");
    command_put_ms(w, "compile_ms", t->result->compile_us);
}

void python_put_json(struct jsonw *w, const struct python_reported *t) {
    const struct cay_python_result *r = &t->result->program;
    jsonw_begin_object(w);
    command_put_result(w, &r->run, r->run.exit_code);
    jsonw_put_bool(w, "idle_output", r->run.idle_output);
    jsonw_put_string(w, "stdout_file", t->out_file);
    jsonw_put_string(w, "stderr_file", t->err_file);
    if (t->language != NULL)
        put_language(w, t);
    python_put_exception(w, r);
    python_put_files(w, r);
    jsonw_put_bool(w, "files_truncated", r->files_truncated);
    put_figures(w, r);
    python_put_report(w, &r->report, t->type);
    put_interpreter(w, r, t->why_cold);
    jsonw_put_string(w, "tier", r->run.tier);
    if (t->err != NULL)
        command_put_error(w, t->err);
    jsonw_end_object(w);
}
