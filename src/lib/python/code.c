#include "lib/python/code.h"

#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "lib/python/code_report.h"
#include "lib/python/language.h"
#include "lib/python/python.h"

void cay_program_result_free(struct cay_program_result *r) {
    cay_python_result_free(&r->program);
    free(r->tool);
    r->tool = NULL;
}

static int refuse_missing(const struct language *l, struct cay_error *err) {
    error_set(err, CAY_NOT_FOUND, "there is nothing in this sandbox that runs %s", l->name);
    return error_remedy(err, "use an image that has it, such as --image %s", l->image);
}

static int advise(const struct cay_program_result *ret, struct cay_error *err) {
    if (ret->program.run.exit_code != 127)
        return -(int)err->code;
    error_set(err, CAY_NOT_FOUND, "there is no /bin/sh in this sandbox, which starts the code");
    return error_remedy(err, "use an image that has a shell");
}

/* What the inside told, as far as it fits to how it ended. */
static int take_report(const struct language *l, const struct buf *text,
                       struct cay_program_result *ret, struct cay_error *err) {
    const struct code_report report = code_report_read(text->data, text->len);
    struct cay_result *run = &ret->program.run;
    if (report.missing && run->exit_code == 127)
        return refuse_missing(l, err);
    if (run->exit_code == 125 && report.tool[0] == '\0' && !report.began) {
        error_set(err, CAY_UNAVAILABLE, "the code could not be prepared inside");
        return error_remedy(err, "see what its shell printed: PATH must have mkdir, dd and rm, and "
                                 "/tmp room for the code");
    }
    ret->compiling = report.compiled && !report.began;
    ret->compile_us = MIN(report.compile_us, run->duration_us);
    if (report.late && ret->compiling && run->exit_code == 124)
        run->timed_out = true;
    ret->tool = report.tool[0] != '\0' ? strdup(report.tool) : NULL;
    return 0;
}

int code_exec(int *fd, const struct cay_program *code, const struct cay_exec *asked,
              const struct command_defaults *defaults, struct cay_program_result *ret,
              struct cay_error *err) {
    *ret = (struct cay_program_result){.program = {.run = {.exit_code = 125}}};
    const struct language *l = language_find(code->language);
    if (l == NULL)
        return language_refuse(code->language, err);
    _cleanup_(strv_free) struct strv argv = {0};
    _cleanup_(buf_free) struct buf report = BUF_INIT(CODE_REPORT_MAX);
    const struct language_request request = {.name = code->name,
                                             .code_len = code->code_len,
                                             .compile_ms = code->compile_timeout_ms,
                                             .args = code->args};
    int r = language_argv(l, &request, &argv, err);
    if (r < 0)
        return r;
    bool all_changes = false;
    const struct command_extras extras = {
        .first = code->code,
        .first_len = code->code_len,
        .report = &report,
        .changed = python_take_change,
        .changed_arg = &ret->program,
        .ret_all_changes = &all_changes,
    };
    struct cay_exec exec = *asked;
    exec.argv = (const char *const *)argv.v;
    exec.tty = false;
    r = command_exec_with(fd, &exec, defaults, &extras, &ret->program.run, err);
    ret->program.files_truncated |= !all_changes;
    return r < 0 ? advise(ret, err) : take_report(l, &report, ret, err);
}
