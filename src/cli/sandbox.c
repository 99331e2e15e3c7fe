#include "cli/sandbox.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

enum { PATH_SIZE_MAX = 64 * 1024 };

struct daemon_choice sandbox_choice(const struct verb_common *common) {
    return (struct daemon_choice){.host = common->host,
                                  .key = common->key,
                                  .key_file = common->key_file,
                                  .config = common->config,
                                  .state_dir = common->state_dir};
}

int sandbox_verb_open(struct sandbox_verb *v) {
    const struct daemon_choice choice = sandbox_choice(v->common);
    return daemon_open(&choice, &v->daemon, &v->err);
}

void sandbox_verb_free(struct sandbox_verb *v) {
    buf_free(&v->answer);
    daemon_close(&v->daemon);
}

/* ---- asking ---- */

/* One line that is written over and over. */
static void show_progress(void *arg, const char *line) {
    char shown[512];
    bool *any = arg;
    *any = true;
    (void)fprintf(stderr, "\r\033[K%.*s", 200, str_escape(shown, sizeof shown, line));
}

int sandbox_ask(struct sandbox_verb *v, const struct sandbox_request *req) {
    bool any = false;
    bool progress = req->progress && v->common->output != OUTPUT_JSON && !v->common->quiet &&
                    isatty(STDERR_FILENO);
    if (req->who != NULL && daemon_check_name(req->who, &v->err) < 0)
        return -(int)v->err.code;
    _cleanup_(buf_free) struct buf path = BUF_INIT(PATH_SIZE_MAX);
    (void)buf_puts(&path, req->before);
    if (req->who != NULL)
        daemon_put_escaped(&path, req->who);
    (void)buf_puts(&path, req->after != NULL ? req->after : "");
    if (path.failed)
        return error_set(&v->err, CAY_INVALID_ARGUMENT, "the name is longer than any sandbox's");
    struct daemon_request call = {.method = req->method,
                                  .path = buf_text(&path),
                                  .body = req->body,
                                  .progress = progress ? show_progress : NULL,
                                  .progress_arg = &any};
    int r = daemon_call(&v->daemon, &call, &v->answer, &v->err);
    if (any)
        (void)fputs("\r\033[K", stderr);
    return r;
}

int sandbox_query(struct sandbox_verb *v, const struct sandbox_request *req, struct reply *ret) {
    int r = sandbox_ask(v, req);
    return r < 0 ? r : reply_parse(&v->answer, ret, &v->err);
}

int sandbox_query_list(struct sandbox_verb *v, const struct sandbox_request *req,
                       struct reply *ret) {
    int r = sandbox_ask(v, req);
    return r < 0 ? r : reply_parse_list(&v->answer, ret, &v->err);
}

/* ---- telling ---- */

int sandbox_fail(const struct sandbox_verb *v) {
    if (v->common->output != OUTPUT_JSON || buf_text(&v->answer)[0] != '{')
        return verb_fail(&v->err);
    (void)verb_print(&v->answer); /* the failure that counts is the daemon's */
    return cay_code_exit(v->err.code);
}

static int report_name(struct sandbox_verb *v) {
    _cleanup_(reply_free) struct reply t = {0};
    _cleanup_(buf_free) struct buf line = BUF_INIT(4096);
    if (reply_parse(&v->answer, &t, &v->err) < 0)
        return verb_fail(&v->err);
    (void)buf_printf(&line, "%s\n", reply_text(&t, 0, v->common->quiet ? "id" : "name"));
    return verb_print(&line);
}

int sandbox_report(struct sandbox_verb *v) {
    return v->common->output == OUTPUT_JSON ? verb_print(&v->answer) : report_name(v);
}

/* What was removed is answered by nothing: then the user's own word is told. */
static int report_gone(const struct sandbox_verb *v, const char *who) {
    _cleanup_(buf_free) struct buf line = BUF_INIT(4096);
    if (v->common->output == OUTPUT_JSON || v->common->quiet)
        return 0;
    (void)buf_printf(&line, "%s\n", who);
    return verb_print(&line);
}

static int ask_and_report(struct sandbox_verb *v, const struct sandbox_request *req) {
    buf_clear(&v->answer);
    if (sandbox_ask(v, req) < 0)
        return sandbox_fail(v);
    return v->answer.len == 0 ? report_gone(v, req->who) : sandbox_report(v);
}

int sandbox_each(const struct verb_common *common, const struct sandbox_request *req, int argc,
                 char **argv) {
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(common);
    if (sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    int code = 0;
    for (int i = 0; i < argc; i++) {
        struct sandbox_request one = *req;
        one.who = argv[i];
        int r = ask_and_report(&v, &one);
        code = code != 0 ? code : r;
    }
    return code;
}

static int print_names(struct reply *t) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(DAEMON_ANSWER_MAX);
    for (size_t i = 0; i < t->rows; i++)
        (void)buf_printf(&b, "%s\n", reply_text(t, i, "name"));
    return verb_print(&b);
}

int sandbox_list(const struct verb_common *common, const char *path,
                 int (*print)(struct reply *t)) {
    const struct sandbox_request req = {.method = "GET", .before = path};
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(common);
    _cleanup_(reply_free) struct reply t = {0};
    if (sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    if (common->output == OUTPUT_JSON)
        return sandbox_ask(&v, &req) < 0 ? sandbox_fail(&v) : verb_print(&v.answer);
    if (sandbox_query_list(&v, &req, &t) < 0)
        return sandbox_fail(&v);
    return common->quiet ? print_names(&t) : print(&t);
}

/* ---- tables for people ---- */

static size_t width(const char *text) {
    size_t n = 0;
    for (const char *p = text; *p != '\0'; p++)
        n += ((unsigned char)*p & 0xc0) != 0x80; /* one for each character */
    return n;
}

static size_t widest(const char *const *cell, size_t rows, size_t count) {
    size_t most = 1;
    for (size_t row = 0; row < rows; row++)
        most = MAX(most, width(cell[row * count]));
    return most;
}

static void put_cell(struct buf *b, const char *text, size_t room) {
    const char *shown = text[0] != '\0' ? text : "-";
    (void)buf_puts(b, shown);
    for (size_t n = width(shown); n < room; n++)
        (void)buf_putc(b, ' ');
}

void sandbox_put_columns(struct buf *b, const char *const *cell, size_t rows, size_t count) {
    size_t room[SANDBOX_COLUMNS_MAX] = {0};
    for (size_t i = 0; i + 1 < count; i++)
        room[i] = widest(cell + i, rows, count) + 2;
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = 0; i < count; i++)
            put_cell(b, cell[row * count + i], room[i]);
        (void)buf_putc(b, '\n');
    }
}

const char *sandbox_age(const char *time, char out[static 32]) {
    static const struct {
        int64_t seconds;
        const char *name;
    } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
    int64_t then;
    if (clock_from_iso8601(time, &then) < 0)
        return time;
    int64_t age = (clock_wall_ms() - then) / 1000;
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        int64_t n = age / units[i].seconds;
        if (n > 0) {
            (void)snprintf(out, 32, "%lld %s%s", (long long)n, units[i].name, n == 1 ? "" : "s");
            return out;
        }
    }
    (void)snprintf(out, 32, "now");
    return out;
}
