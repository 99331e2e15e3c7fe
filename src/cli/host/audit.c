/* `cay audit`: who did what. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "cli/cli.h"
#include "cli/sandbox.h"

#define AUDIT_PATH "/api/cay/audit"

enum { PAGE = 1000, COLUMNS = 7, FOLLOW_US = 500 * 1000 };

struct audit_options {
    struct verb_common common;
    const char *since;
    int64_t lines, trim;
    bool follow, verify;
};

static const struct audit_options defaults = {.lines = 100};

static const struct opt options[] = {
    {.name = "since",
     OPT_TO_STRING(struct audit_options, since),
     .arg = "TIME",
     .help = "only what is not older: 1h, 30d, or 2027-01-31T12:00:00Z"},
    {.letter = 'n',
     .name = "lines",
     OPT_TO_INTEGER(struct audit_options, lines),
     .arg = "N",
     .min = 0,
     .max = 10000,
     .help = "the last so many, 0 for all (100)"},
    {.letter = 'f',
     .name = "follow",
     OPT_TO_FLAG(struct audit_options, follow),
     .help = "go on with what is added"},
    {.name = "verify",
     OPT_TO_FLAG(struct audit_options, verify),
     .help = "check that nothing was changed or removed; exit 1 if something was"},
    {.name = "trim",
     OPT_TO_INTEGER(struct audit_options, trim),
     .arg = "NUMBER",
     .min = 1,
     .max = 9e15,
     .help = "remove rows up to this one, after they were exported"},
    {0},
};

/* ---- rows ---- */

/* Rows on their way out. */
struct printer {
    bool is_json, as_lines; /* JSON: one object a line, or one array */
    bool any;
    int64_t last; /* the number of the last row */
};

static void put_row(struct jsonw *w, struct reply *t, size_t row) {
    static const char *const texts[] = {"time",   "who",    "action", "object",
                                        "result", "detail", "chain"};
    jsonw_begin_object(w);
    jsonw_put_unsigned(w, "number", reply_unsigned(t, row, "number"));
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        jsonw_put_string(w, texts[i], reply_string(t, row, texts[i]));
    jsonw_end_object(w);
}

static void put_json(struct printer *p, struct buf *b, struct reply *t) {
    for (size_t i = 0; i < t->rows; i++) {
        struct jsonw w = JSONW_INIT(b);
        if (!p->as_lines)
            (void)buf_puts(b, p->any || i > 0 ? ",\n" : "[");
        put_row(&w, t, i);
        if (p->as_lines)
            (void)buf_putc(b, '\n');
    }
}

static int put_table(const struct printer *p, struct buf *b, struct reply *t,
                     struct cay_error *err) {
    static const char *const titles[COLUMNS] = {"NUMBER", "TIME",   "WHO",   "ACTION",
                                                "OBJECT", "RESULT", "DETAIL"};
    static const char *const names[COLUMNS] = {"number", "time",   "who",   "action",
                                               "object", "result", "detail"};
    _cleanup_(freep) const char **cell = calloc((t->rows + 1) * COLUMNS, sizeof *cell);
    if (cell == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    size_t n = p->any ? 0 : 1;
    memcpy(cell, titles, n * sizeof titles);
    for (size_t i = 0; i < t->rows; i++, n++)
        for (size_t j = 0; j < COLUMNS; j++)
            cell[n * COLUMNS + j] = reply_text(t, i, names[j]);
    sandbox_put_columns(b, cell, n, COLUMNS);
    return 0;
}

static int print_rows(struct printer *p, struct reply *t, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(DAEMON_ANSWER_MAX);
    if (p->is_json)
        put_json(p, &b, t);
    else if ((t->rows > 0 || !p->any) && put_table(p, &b, t, err) < 0)
        return verb_fail(err);
    p->any = p->any || t->rows > 0 || !p->is_json;
    if (t->rows > 0)
        p->last = (int64_t)reply_unsigned(t, t->rows - 1, "number");
    return verb_print(&b);
}

static int end_json(const struct printer *p) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(16);
    (void)buf_puts(&b, p->any ? "]\n" : "[]\n");
    return p->is_json && !p->as_lines ? verb_print(&b) : 0;
}

/* ---- asking ---- */

/* "1h" is a time before now. */
static int put_since(struct buf *query, const char *text, struct cay_error *err) {
    int64_t ms;
    char time[32];
    if (text == NULL)
        return 0;
    if (clock_from_iso8601(text, &ms) < 0) {
        if (str_to_duration("--since", text, &ms, err) < 0) {
            error_set(err, CAY_INVALID_ARGUMENT, "--since: '%.60s' is no time", text);
            return error_remedy(err, "write it as in 1h, 30d or 2027-01-31T12:00:00Z");
        }
        ms = clock_wall_ms() - ms;
    }
    (void)buf_puts(query, "&since=");
    daemon_put_escaped(query, clock_iso8601(ms, time));
    return 0;
}

/* One page; *ret_rows is how many rows it had. 0 or an exit code. */
static int print_page(struct sandbox_verb *v, struct printer *p, const char *query,
                      size_t *ret_rows) {
    _cleanup_(reply_free) struct reply t = {0};
    const struct sandbox_request req = {.method = "GET", .before = AUDIT_PATH, .after = query};
    if (sandbox_query_list(v, &req, &t) < 0)
        return verb_fail(&v->err);
    *ret_rows = t.rows;
    return print_rows(p, &t, &v->err);
}

static int print_next(struct sandbox_verb *v, struct printer *p, const char *since,
                      size_t *ret_rows) {
    _cleanup_(buf_free) struct buf query = BUF_INIT(256);
    (void)buf_printf(&query, "?after=%lld&limit=%d%s", (long long)p->last, PAGE, since);
    return print_page(v, p, buf_text(&query), ret_rows);
}

static int print_last(struct sandbox_verb *v, struct printer *p, int64_t lines, const char *since) {
    size_t rows;
    _cleanup_(buf_free) struct buf query = BUF_INIT(256);
    (void)buf_printf(&query, "?limit=%lld%s", (long long)lines, since);
    return print_page(v, p, buf_text(&query), &rows);
}

static int show(struct sandbox_verb *v, const struct audit_options *o) {
    struct printer p = {.is_json = o->common.output == OUTPUT_JSON, .as_lines = o->follow};
    _cleanup_(buf_free) struct buf since = BUF_INIT(128);
    size_t rows = PAGE;
    if (put_since(&since, o->since, &v->err) < 0)
        return verb_fail(&v->err);
    int code = o->lines > 0 ? print_last(v, &p, o->lines, buf_text(&since)) : 0;
    while (code == 0 && o->lines == 0 && rows == PAGE)
        code = print_next(v, &p, buf_text(&since), &rows);
    while (code == 0 && o->follow) {
        (void)usleep(FOLLOW_US);
        code = print_next(v, &p, buf_text(&since), &rows);
    }
    return code != 0 ? code : end_json(&p);
}

/* ---- the rest ---- */

static int verify(struct sandbox_verb *v) {
    const struct sandbox_request req = {.method = "GET", .before = AUDIT_PATH "/verify"};
    _cleanup_(reply_free) struct reply t = {0};
    _cleanup_(buf_free) struct buf line = BUF_INIT(4096);
    if (v->common->output == OUTPUT_JSON) {
        if (sandbox_ask(v, &req) < 0)
            return sandbox_fail(v);
        bool ok = reply_parse(&v->answer, &t, &v->err) == 0 && reply_is_true(&t, 0, "ok");
        int code = verb_print(&v->answer);
        return code != 0 ? code : !ok;
    }
    if (sandbox_query(v, &req, &t) < 0)
        return verb_fail(&v->err);
    if (!reply_is_true(&t, 0, "ok")) {
        verb_note("the audit was tampered with: %s", reply_text(&t, 0, "why"));
        return 1;
    }
    (void)buf_printf(&line, "%s rows, all as they were written; the last is %s %s\n",
                     reply_text(&t, 0, "rows"), reply_text(&t, 0, "last"),
                     reply_text(&t, 0, "chain"));
    return verb_print(&line);
}

static int trim(struct sandbox_verb *v, int64_t through) {
    char query[64];
    (void)snprintf(query, sizeof query, "?through=%lld", (long long)through);
    const struct sandbox_request req = {.method = "DELETE", .before = AUDIT_PATH, .after = query};
    return sandbox_ask(v, &req) < 0 ? sandbox_fail(v) : 0;
}

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc, (void)argv;
    const struct audit_options *o = values;
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(&o->common);
    if (o->verify + (o->trim > 0) + o->follow > 1) {
        error_set(&v.err, CAY_INVALID_ARGUMENT, "--verify, --trim and --follow exclude each other");
        (void)error_remedy(&v.err, "use one of them");
        return verb_fail(&v.err);
    }
    if (sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    return o->verify ? verify(&v) : o->trim > 0 ? trim(&v, o->trim) : show(&v, o);
}

const struct opt_command cli_audit = {
    .name = "audit",
    .path = "cay audit",
    .synopsis = "[OPTIONS]",
    .summary = "show who did what to the daemon's sandboxes",
    .help =
        "Every change, every use of a sandbox and every refused access is a row, chained to the "
        "one before.",
    .examples = "cay audit --since 1h\n"
                "cay audit --verify\n"
                "cay audit -n 0 -o json > audit.json\n",
    .group = CLI_ACCESS,
    .options = options,
    .values_size = sizeof(struct audit_options),
    .defaults = &defaults,
    .run = run,
};
