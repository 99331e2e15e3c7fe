/* `cay prune`: away with sandboxes that are stopped. */
#include <string.h>

#include "base/jsonw.h"
#include "cli/cli.h"
#include "cli/sandbox.h"

struct prune_options {
    struct verb_common common;
    bool dry_run;
};

static const struct opt options[] = {
    {.name = "dry-run",
     OPT_TO_FLAG(struct prune_options, dry_run),
     .help = "only say what would be removed"},
    {0},
};

/* What was removed, told in the user's format. */
struct removed {
    struct buf text;
    struct jsonw json;
    bool is_json;
};

static void add(struct removed *r, const struct table *t, size_t row, bool quiet) {
    if (r->is_json)
        jsonw_string(&r->json, table_get(t, row, "id"));
    else
        (void)buf_printf(&r->text, "%s\n", table_get(t, row, quiet ? "id" : "name"));
}

static int prune(struct sandbox_verb *v, const struct table *t, bool dry_run, struct removed *r) {
    int code = 0;
    for (size_t i = 0; i < t->rows; i++) {
        if (strcmp(table_get(t, i, "state"), "stopped") != 0)
            continue;
        const struct sandbox_request req = {
            .method = "DELETE", .before = "/api/cay/sandbox/", .who = table_get(t, i, "id")};
        if (dry_run || sandbox_ask(v, &req) == 0)
            add(r, t, i, v->common->quiet);
        else
            code = code != 0 ? code : verb_fail(&v->err);
    }
    return code;
}

static int prune_and_tell(struct sandbox_verb *v, const struct table *t, bool dry_run) {
    struct removed r = {.text = BUF_INIT(DAEMON_ANSWER_MAX),
                        .is_json = v->common->output == OUTPUT_JSON};
    r.json = JSONW_INIT(&r.text);
    if (r.is_json) {
        jsonw_begin_object(&r.json);
        jsonw_key(&r.json, "removed");
        jsonw_begin_array(&r.json);
    }
    int code = prune(v, t, dry_run, &r);
    if (r.is_json) {
        jsonw_end_array(&r.json);
        jsonw_end_object(&r.json);
        (void)buf_putc(&r.text, '\n');
    }
    int printed = verb_print(&r.text);
    buf_free(&r.text);
    return code != 0 ? code : printed;
}

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc, (void)argv;
    const struct prune_options *o = values;
    const struct sandbox_request req = {.method = "GET", .before = "/api/cay/sandbox"};
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(&o->common);
    _cleanup_(table_free) struct table t = {0};
    if (sandbox_verb_open(&v) < 0 || sandbox_ask_table(&v, &req, &t) < 0)
        return verb_fail(&v.err);
    return prune_and_tell(&v, &t, o->dry_run);
}

const struct opt_command cli_prune = {
    .name = "prune",
    .is_destructive = true,
    .path = "cay prune",
    .synopsis = "[OPTIONS]",
    .summary = "remove all stopped sandboxes",
    .help = "Prints what it removed.",
    .group = CLI_SANDBOXES,
    .options = options,
    .values_size = sizeof(struct prune_options),
    .run = run,
};
