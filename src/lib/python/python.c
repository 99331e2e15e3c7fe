#include "lib/python/python.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "lib/python/options.h"
#include "lib/python/report.h"
#include "wire/client_exec.h"

extern const char python_runner[], python_extras[], context_charts[];

/* The beginning of a frozen interpreter counts there how often it tried. */
static const char *const warm_argv[] = {"python3", "cay-a", NULL};
static const char *const waiting_argv[] = {"python3", "cay-a", "waits", NULL};
const char *const python_kept_argv[] = {"python3", "cay-a", "kept", NULL};
const char *const python_context_argv[] = {"python3", "cay-a", "kept", "context", NULL};

enum { CODE_MAX = 64 * 1024 * 1024, OPTIONS_MAX = 128 * 1024 };

/* ---- what the runner reads: items, each with its length in front, and the length of all ---- */

static void put_number(struct buf *b, size_t value) {
    uint32_t n = htole32((uint32_t)value);
    (void)buf_append(b, &n, sizeof n); /* failures are sticky */
}

static void put_item(struct buf *b, const void *data, size_t len) {
    put_number(b, len);
    (void)buf_append(b, data, len);
}

int python_put_request(const struct cay_python *p, struct buf *b, struct cay_error *err) {
    const char *name = p->name != NULL ? p->name : "-c";
    size_t args = 0;
    while (p->args != NULL && p->args[args] != NULL)
        args++;
    if (p->code_len > CODE_MAX) {
        error_set(err, CAY_INVALID_ARGUMENT, "the program has more than %d MB",
                  CODE_MAX / 1024 / 1024);
        return error_remedy(err, "keep data in files of their own");
    }
    _cleanup_(buf_free) struct buf options = BUF_INIT(OPTIONS_MAX);
    int r = python_put_options(p, &options, err);
    if (r < 0)
        return r;
    size_t all = 3 * sizeof(uint32_t) + options.len + strlen(name) + p->code_len;
    for (size_t i = 0; i < args; i++)
        all += sizeof(uint32_t) + strlen(p->args[i]);
    put_number(b, all);
    put_item(b, options.data, options.len);
    put_item(b, name, strlen(name));
    put_item(b, p->code, p->code_len);
    for (size_t i = 0; i < args; i++)
        put_item(b, p->args[i], strlen(p->args[i]));
    return b->failed ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory for the program") : 0;
}

/* ---- what comes back ---- */

void python_take_change(void *arg, const char *path, uint64_t size, bool created) {
    struct cay_python_result *ret = arg;
    if (ret->files == NULL)
        ret->files = calloc(EXEC_CHANGES_MAX, sizeof *ret->files);
    char *copy = ret->files == NULL ? NULL : strdup(path);
    if (copy == NULL || ret->file_count >= EXEC_CHANGES_MAX) {
        ret->files_truncated = true;
        free(copy);
        return;
    }
    ret->files[ret->file_count++] = (struct cay_python_file){copy, size, created};
}

void cay_python_result_free(struct cay_python_result *r) {
    cay_result_free(&r->run);
    python_report_free(r);
    for (size_t i = 0; i < r->file_count; i++)
        free(r->files[i].path);
    free(r->files);
    *r = (struct cay_python_result){.run = {.exit_code = r->run.exit_code}};
}

static int advise(const struct cay_python_result *ret, struct cay_error *err) {
    if (ret->run.exit_code != 127)
        return -(int)err->code;
    error_set(err, CAY_NOT_FOUND, "there is no python3 in this sandbox");
    return error_remedy(err, "use an image that has it, such as --image python:3.12-slim");
}

char *python_cold_text(const struct cay_python *python) {
    char *text;
    const char *more = python_has_options(python) ? python_extras : "";
    return asprintf(&text, "%s%s\n\n_cay_charts = r'''%s'''\n_cay_run()\n", python_runner, more,
                    context_charts) < 0
               ? NULL
               : text;
}

static int wake(int fd, int warm, const char *const *argv, const struct command_defaults *defaults,
                struct cay_error *err) {
    struct buf report = BUF_INIT(0);
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.argv = argv;
    const struct command_extras extras = {
        .program = warm, .report = &report, .changed = python_take_change};
    return command_send(fd, &exec, defaults, &extras, err);
}

int python_wake(int fd, int warm, const struct command_defaults *defaults, struct cay_error *err) {
    return wake(fd, warm, waiting_argv, defaults, err);
}

int python_wake_kept(int fd, int warm, const struct command_defaults *defaults,
                     struct cay_error *err) {
    return wake(fd, warm, python_kept_argv, defaults, err);
}

static int judge(const struct cay_python *python, const struct buf *report,
                 struct cay_python_result *ret, struct cay_error *err) {
    int r = python_report_read(report, ret);
    if (r == 0 && ret->warm && ret->version == NULL && !ret->run.timed_out) {
        error_set(err, CAY_UNAVAILABLE, "the warm interpreter could not be woken (%d)",
                  ret->run.exit_code);
        ret->run.exit_code = 125;
        return error_remedy(err, "nothing was run; try again, or use --cold");
    }
    return r < 0 ? error_sys(err, -r, "reading the report of the program")
                 : python_judge_options(python, ret, err);
}

int python_exec(int *fd, const struct cay_python *python, const struct cay_exec *exec,
                const struct command_defaults *defaults, struct cay_python_result *ret,
                struct cay_error *err) {
    return python_exec_woken(fd, python, exec, defaults, NULL, ret, err);
}

int python_exec_woken(int *fd, const struct cay_python *python, const struct cay_exec *asked,
                      const struct command_defaults *defaults, bool *ret_asleep,
                      struct cay_python_result *ret, struct cay_error *err) {
    *ret = (struct cay_python_result){.run = {.exit_code = 125}};
    _cleanup_(buf_free) struct buf request = BUF_INIT(PYTHON_REQUEST_MAX);
    _cleanup_(buf_free) struct buf report = BUF_INIT(PYTHON_REPORT_MAX);
    int r = python_put_request(python, &request, err);
    if (r < 0)
        return r;
    ret->warm = python->warm > 0 || python->waits;
    bool all_changes = false;
    const struct command_extras extras = {
        .first = request.data,
        .first_len = request.len,
        .program = python->warm > 0 ? python->warm : 0,
        .waits = python->waits,
        .report = &report,
        .holds_input = ret_asleep != NULL,
        .changed = python_take_change,
        .changed_arg = ret,
        .ret_all_changes = &all_changes,
    };
    struct cay_exec exec = *asked;
    _cleanup_(freep) char *text = ret->warm ? NULL : python_cold_text(python);
    if (!ret->warm && text == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    const char *const cold_argv[] = {"python3", "-u", "-c", text, NULL};
    exec.argv = ret->warm ? warm_argv : cold_argv;
    exec.tty = false;
    r = command_exec_with(fd, &exec, defaults, &extras, &ret->run, err);
    ret->files_truncated |= !all_changes;
    if (r < 0)
        return advise(ret, err);
    r = judge(python, &report, ret, err);
    if (ret_asleep != NULL)
        *ret_asleep = r == -CAY_UNAVAILABLE && ret->version == NULL;
    return r;
}
