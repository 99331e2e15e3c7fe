/* `cay ls`: which sandboxes there are. */
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/sandbox.h"
#include "engine/engines.h"

struct ls_options {
    struct verb_common common;
    struct strv labels;
    bool all, names;
};

static const struct opt options[] = {
    {.letter = 'a',
     .name = "all",
     OPT_TO_FLAG(struct ls_options, all),
     .help = "stopped and archived ones too"},
    {.letter = 'l',
     .name = "label",
     OPT_TO_STRINGS(struct ls_options, labels),
     .arg = "KEY=VALUE",
     .help = "only those with this label"},
    {.name = "names",
     OPT_TO_FLAG(struct ls_options, names),
     .help = "names only, and none if no daemon runs",
     .hidden = true},
    {0},
};

enum { COLUMNS = 7, ENGINE_COLUMN = 7 }; /* the last is there only where it tells something */

static bool is_shown(struct reply *t, size_t row, bool all) {
    const char *state = reply_text(t, row, "state");
    return all || (strcmp(state, "stopped") != 0 && strcmp(state, "archived") != 0 &&
                   strcmp(state, "error") != 0);
}

/* Texts that are made for a row. */
struct ls_row {
    char memory[32], age[32];
};

static void fill_row(struct reply *t, size_t row, struct ls_row *own, const char **cell) {
    cell[0] = reply_text(t, row, "id");
    cell[1] = reply_text(t, row, "name");
    cell[2] = reply_text(t, row, "state");
    cell[3] = reply_text(t, row, "image");
    uint64_t memory = reply_unsigned(t, row, "memory");
    cell[4] = memory == 0 ? "none" : str_bytes(memory, own->memory); /* no limit that is kept */
    cell[5] = reply_text(t, row, "cpus");
    if (strcmp(cell[5], "0") == 0)
        cell[5] = "none";
    cell[6] = sandbox_age(reply_text(t, row, "createdAt"), own->age);
}

static bool has_other_engines(struct reply *t) {
    const char *usual = engine_kind_name(ENGINE_NATIVE);
    for (size_t i = 0; i < t->rows; i++)
        if (strcmp(reply_text(t, i, "engine"), usual) != 0)
            return true;
    return false;
}

static int print_table(struct reply *t, bool all) {
    static const char *const titles[] = {"ID",     "NAME", "STATE", "IMAGE",
                                         "MEMORY", "CPUS", "AGE",   "ENGINE"};
    struct cay_error err;
    size_t columns = has_other_engines(t) ? COLUMNS + 1 : COLUMNS;
    _cleanup_(freep) const char **cell = calloc((t->rows + 1) * columns, sizeof *cell);
    _cleanup_(freep) struct ls_row *own = calloc(t->rows + 1, sizeof *own);
    if (cell == NULL || own == NULL) {
        error_set(&err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return verb_fail(&err);
    }
    size_t n = 1;
    memcpy(cell, titles, columns * sizeof *titles);
    for (size_t i = 0; i < t->rows; i++)
        if (is_shown(t, i, all)) {
            fill_row(t, i, &own[n], cell + n * columns);
            if (columns > COLUMNS)
                cell[n * columns + ENGINE_COLUMN] = reply_text(t, i, "engine");
            n++;
        }
    _cleanup_(buf_free) struct buf b = BUF_INIT(DAEMON_ANSWER_MAX);
    sandbox_put_columns(&b, cell, n, columns);
    return verb_print(&b);
}

static int print_field(struct reply *t, bool all, const char *field) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(DAEMON_ANSWER_MAX);
    for (size_t i = 0; i < t->rows; i++)
        if (is_shown(t, i, all))
            (void)buf_printf(&b, "%s\n", reply_text(t, i, field));
    return verb_print(&b);
}

static int put_query(const struct strv *labels, struct buf *b, struct cay_error *err) {
    for (size_t i = 0; i < labels->len; i++) {
        if (strchr(labels->v[i], '=') == NULL || labels->v[i][0] == '=') {
            error_set(err, CAY_INVALID_ARGUMENT, "label '%.60s' has no '='", labels->v[i]);
            return error_remedy(err, "write --label KEY=VALUE");
        }
        (void)buf_puts(b, i == 0 ? "?label=" : "&label=");
        daemon_put_escaped(b, labels->v[i]);
    }
    return 0;
}

/* Completion must not start a daemon. */
static int open_daemon(struct sandbox_verb *v, const struct ls_options *o) {
    if (!o->names)
        return sandbox_verb_open(v);
    struct daemon_choice choice = sandbox_choice(&o->common);
    choice.no_start = true;
    return daemon_open(&choice, &v->daemon, &v->err);
}

static int list(struct sandbox_verb *v, const struct ls_options *o, const char *query) {
    struct sandbox_request req = {.method = "GET", .before = "/api/cay/sandbox", .after = query};
    if (o->common.output == OUTPUT_JSON)
        return sandbox_ask(v, &req) < 0 ? sandbox_fail(v) : verb_print(&v->answer);
    _cleanup_(reply_free) struct reply t = {0};
    if (sandbox_query_list(v, &req, &t) < 0)
        return sandbox_fail(v);
    if (o->names || o->common.quiet)
        return print_field(&t, o->all || o->names, o->names ? "name" : "id");
    return print_table(&t, o->all);
}

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc, (void)argv;
    const struct ls_options *o = values;
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(&o->common);
    _cleanup_(buf_free) struct buf query = BUF_INIT(64 * 1024);
    if (put_query(&o->labels, &query, &v.err) < 0 || open_daemon(&v, o) < 0)
        return verb_fail(&v.err);
    return list(&v, o, buf_text(&query));
}

static const char *const aliases[] = {"ps", "list", NULL};

const struct opt_command cli_ls = {
    .name = "ls",
    .aliases = aliases,
    .path = "cay ls",
    .synopsis = "[OPTIONS]",
    .summary = "list sandboxes",
    .help = "Without --all, sandboxes that are stopped or broken are left out. JSON always has all "
            "of them.",
    .examples = "cay ls -a\n"
                "cay ls --label team=search\n"
                "cay ls -aq\n",
    .group = CLI_SANDBOXES,
    .options = options,
    .values_size = sizeof(struct ls_options),
    .run = run,
};
