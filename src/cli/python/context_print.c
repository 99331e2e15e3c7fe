/* What a run in a context reported: for people, in files, and as JSON. */
#include <cay.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json/jsonw.h"
#include "cli/command.h"
#include "cli/python/context.h"
#include "lib/python/context.h"

enum { FAILED = 125, JSON_MAX = 256 << 20 };

/* ---- figures ---- */

static int save_item(int folder, unsigned number, const char *end, const struct context_item *i) {
    char name[64];
    int r = str_format(name, sizeof name, "figure-%u.%s", number, end);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd =
        openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : fd_write_all(fd, i->data, i->len);
}

static int save_figure(int folder, const struct context_record *r, unsigned *number) {
    bool counted = false;
    int failed = 0;
    for (size_t i = 0; i < r->count && failed == 0; i++) {
        const char *type = r->items[i].type;
        const char *end = str_equal(type, "image/png")       ? "png"
                          : str_equal(type, "image/svg+xml") ? "svg"
                          : str_equal(type, "image/jpeg")    ? "jpeg"
                                                             : NULL;
        if (end == NULL)
            continue;
        *number += !counted;
        counted = true;
        failed = save_item(folder, *number, end, &r->items[i]);
    }
    return failed;
}

static int open_folder(const char *folder) {
    (void)mkdir(folder, 0755); /* that it is there shows when it is opened */
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* ---- for people ---- */

static void print_error(const struct context_record *r) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(CONTEXT_REPORT_MAX);
    if (r->traceback[0] != '\0')
        (void)buf_puts(&b, r->traceback);
    else
        (void)buf_printf(&b, "%s: %s", r->name, r->value);
    if (b.len > 0 && b.data[b.len - 1] != '\n')
        (void)buf_putc(&b, '\n');
    (void)fd_write_all(STDERR_FILENO, b.data, b.len); /* who has closed it does not want it */
}

int context_report(const struct session_verb *v, const struct context_reported *t,
                   struct cay_error *err) {
    bool json = v->common->output == OUTPUT_JSON;
    struct context_reader reader = CONTEXT_READER_INIT;
    struct context_record r;
    unsigned figures = 0;
    _cleanup_(closep) int folder = t->figures != NULL ? open_folder(t->figures) : -1;
    int failed = t->figures != NULL && folder < 0 ? folder : 0;
    context_reader_add(&reader, t->report->data, t->report->len);
    while (failed == 0 && context_reader_next(&reader, &r)) {
        if (r.kind == CONTEXT_ERROR && !json)
            print_error(&r);
        else if (r.kind == CONTEXT_NOTICE && !json && !v->common->quiet)
            verb_note("%s", r.text);
        else if (r.kind == CONTEXT_RESULT && folder >= 0)
            failed = save_figure(folder, &r, &figures);
    }
    context_reader_free(&reader);
    if (failed == 0)
        return 0;
    error_sys(err, -failed, "saving figures in '%s'", t->figures);
    return error_remedy(err, "name a folder that you may write to in --figures");
}

/* ---- as JSON ---- */

static void put_result(struct jsonw *w, const struct context_record *r) {
    jsonw_begin_object(w);
    jsonw_put_bool(w, "is_last", r->is_last);
    jsonw_key(w, "data");
    jsonw_begin_object(w);
    for (size_t i = 0; i < r->count; i++) {
        if (context_is_repeated(r, i))
            continue;
        jsonw_key(w, r->items[i].type);
        if (context_is_text(&r->items[i]))
            jsonw_bytes(w, r->items[i].data, r->items[i].len);
        else
            jsonw_base64(w, r->items[i].data, r->items[i].len);
    }
    jsonw_end_object(w);
    jsonw_end_object(w);
}

/* All records of one kind, in their order. */
static void put_all(struct jsonw *w, const struct buf *report, enum context_record_kind kind) {
    struct context_reader reader = CONTEXT_READER_INIT;
    struct context_record r;
    context_reader_add(&reader, report->data, report->len);
    jsonw_begin_array(w);
    while (context_reader_next(&reader, &r)) {
        if (r.kind != kind)
            continue;
        if (kind == CONTEXT_RESULT)
            put_result(w, &r);
        else
            jsonw_string(w, r.text);
    }
    jsonw_end_array(w);
    context_reader_free(&reader);
}

/* The first one; null if there is none. */
static void put_exception(struct jsonw *w, const struct buf *report) {
    struct context_reader reader = CONTEXT_READER_INIT;
    struct context_record r;
    bool found = false;
    context_reader_add(&reader, report->data, report->len);
    jsonw_key(w, "exception");
    while (!found && context_reader_next(&reader, &r))
        found = r.kind == CONTEXT_ERROR;
    if (found) {
        jsonw_begin_object(w);
        jsonw_put_string(w, "type", r.name);
        jsonw_put_string(w, "message", r.value);
        jsonw_put_string(w, "traceback", r.traceback);
        jsonw_end_object(w);
    } else {
        jsonw_null(w);
    }
    context_reader_free(&reader);
}

int context_report_json(const struct session_verb *v, const struct context_reported *t,
                        bool failed) {
    _cleanup_(buf_free) struct buf b = BUF_INIT((size_t)JSON_MAX);
    const struct exec_outcome *o = t->outcome;
    const struct buf *captured = t->streams->captured;
    const struct cay_result result = {
        .out = captured[0].data,
        .out_len = captured[0].len,
        .err = captured[1].data,
        .err_len = captured[1].len,
        .timed_out = o->reason == WIRE_REASON_TIMEOUT || o->reason == WIRE_REASON_QUIET,
        .output_truncated = o->truncated,
        .oom_killed = t->oom_killed,
        .duration_us = o->elapsed_us,
    };
    int code = failed ? FAILED : o->exit_code;
    struct jsonw w = JSONW_INIT(&b);
    jsonw_begin_object(&w);
    command_put_result(&w, &result, code);
    session_put_files(&w, o);
    jsonw_put_bool(&w, "restarted", o->restarted);
    jsonw_put_bool(&w, "ended", o->fatal);
    context_put_beginning(&w, t->beginning);
    put_exception(&w, t->report);
    jsonw_key(&w, "results");
    put_all(&w, t->report, CONTEXT_RESULT);
    jsonw_key(&w, "notices");
    put_all(&w, t->report, CONTEXT_NOTICE);
    if (failed)
        command_put_error(&w, &v->err);
    jsonw_end_object(&w);
    return command_print(&b, code);
}
