#include "cli/python_tell.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/command.h"

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

static void put_exception(struct jsonw *w, const struct cay_python_result *r) {
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
    jsonw_end_object(w);
}

static void put_files(struct jsonw *w, const struct cay_python_result *r) {
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
    jsonw_put_bool(w, "files_truncated", r->files_truncated);
}

static void put_figures(struct jsonw *w, const struct cay_python_result *r) {
    jsonw_key(w, "figures");
    jsonw_begin_array(w);
    for (size_t i = 0; i < r->figure_count; i++) {
        jsonw_begin_object(w);
        jsonw_put_string(w, "format", r->figures[i].format);
        jsonw_key(w, "data");
        jsonw_base64(w, r->figures[i].data, r->figures[i].len);
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

static void put_report(struct jsonw *w, const struct cay_python_report *r, const char *type) {
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

static void put_language(struct jsonw *w, const struct python_told *t) {
    const char *tool = t->result->tool;
    if (tool == NULL && t->result->program.version != NULL)
        tool = "python3";
    jsonw_put_string(w, "language", t->language);
    jsonw_put_string(w, "tool", tool);
    jsonw_put_string(w, "phase", t->result->compiling ? "compile" : "run");
    command_put_ms(w, "compile_ms", t->result->compile_us);
}

int python_tell_json(const struct python_told *t) {
    const struct cay_python_result *r = &t->result->program;
    _cleanup_(buf_free) struct buf b = BUF_INIT((size_t)256 << 20);
    struct jsonw w = JSONW_INIT(&b);
    jsonw_begin_object(&w);
    command_put_result(&w, &r->run, r->run.exit_code);
    jsonw_put_bool(&w, "idle_output", r->run.idle_output);
    jsonw_put_string(&w, "stdout_file", t->out_file);
    jsonw_put_string(&w, "stderr_file", t->err_file);
    if (t->language != NULL)
        put_language(&w, t);
    put_exception(&w, r);
    put_files(&w, r);
    put_figures(&w, r);
    put_report(&w, &r->report, t->type);
    put_interpreter(&w, r, t->why_cold);
    jsonw_put_string(&w, "tier", r->run.tier);
    if (t->err != NULL)
        command_put_error(&w, t->err);
    jsonw_end_object(&w);
    return command_print(&b, r->run.exit_code);
}

static int save_figure(int folder, size_t number, const struct cay_python_figure *f) {
    char name[64];
    int r = str_format(name, sizeof name, "figure-%zu.%s", number, f->format);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd =
        openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : fd_write_all(fd, f->data, f->len);
}

int python_save_figures(const struct cay_python_result *result, const char *folder,
                        struct cay_error *err) {
    (void)mkdir(folder, 0755); /* that it is there shows when it is opened */
    _cleanup_(closep) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? -errno : 0;
    for (size_t i = 0; r == 0 && i < result->figure_count; i++)
        r = save_figure(fd, i + 1, &result->figures[i]);
    if (r == 0)
        return 0;
    error_sys(err, -r, "saving figures in '%s'", folder);
    return error_remedy(err, "name a folder that you may write to in --figures");
}
