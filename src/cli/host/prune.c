/* `cay prune`: removes sandboxes that are stopped. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#include "base/json/jsonw.h"
#include "cli/cli.h"
#include "cli/sandbox.h"

struct prune_options {
    struct verb_common common;
    bool dry_run, force, idle;
};

static const struct opt options[] = {
    {.name = "dry-run",
     OPT_TO_FLAG(struct prune_options, dry_run),
     .help = "only say what would be removed"},
    {.letter = 'f',
     .name = "force",
     OPT_TO_FLAG(struct prune_options, force),
     .help = "do not ask"},
    {.name = "idle",
     OPT_TO_FLAG(struct prune_options, idle),
     .help = "also those that cay stopped by itself, such as after idle minutes"},
    {0},
};

/* What was removed, told in the user's format. */
struct removed {
    struct buf text;
    struct jsonw json;
    bool is_json;
};

static void add(struct removed *r, struct reply *t, size_t row, bool quiet) {
    if (r->is_json)
        jsonw_string(&r->json, reply_text(t, row, "id"));
    else
        (void)buf_printf(&r->text, "%s\n", reply_text(t, row, quiet ? "id" : "name"));
}

/* One that nobody stopped has somebody's work in it. */
static bool is_taken(const struct prune_options *o, struct reply *t, size_t row) {
    return strcmp(reply_text(t, row, "state"), "stopped") == 0 &&
           (o->idle || reply_text(t, row, "stopReason")[0] == '\0');
}

static int prune(struct sandbox_verb *v, const struct prune_options *o, struct reply *t,
                 struct removed *r) {
    int code = 0;
    for (size_t i = 0; i < t->rows; i++) {
        if (!is_taken(o, t, i))
            continue;
        const struct sandbox_request req = {
            .method = "DELETE", .before = "/api/cay/sandbox/", .who = reply_text(t, i, "id")};
        if (o->dry_run || sandbox_ask(v, &req) == 0)
            add(r, t, i, v->common->quiet);
        else
            code = code != 0 ? code : verb_fail(&v->err);
    }
    return code;
}

static int prune_and_report(struct sandbox_verb *v, const struct prune_options *o,
                            struct reply *t) {
    struct removed r = {.text = BUF_INIT(DAEMON_ANSWER_MAX),
                        .is_json = v->common->output == OUTPUT_JSON};
    r.json = JSONW_INIT(&r.text);
    if (r.is_json) {
        jsonw_begin_object(&r.json);
        jsonw_key(&r.json, "removed");
        jsonw_begin_array(&r.json);
    }
    int code = prune(v, o, t, &r);
    if (r.is_json) {
        jsonw_end_array(&r.json);
        jsonw_end_object(&r.json);
        (void)buf_putc(&r.text, '\n');
    }
    int printed = verb_print(&r.text);
    buf_free(&r.text);
    return code != 0 ? code : printed;
}

static size_t count(const struct prune_options *o, struct reply *t, bool is_kept) {
    size_t n = 0;
    for (size_t i = 0; i < t->rows; i++)
        n += is_kept ? strcmp(reply_text(t, i, "state"), "stopped") == 0 && !is_taken(o, t, i)
                     : is_taken(o, t, i);
    return n;
}

/* Names them and asks. Without a terminal somebody has to say --force: what is removed is gone. */
static int confirm(const struct prune_options *o, struct reply *t, struct cay_error *err) {
    size_t n = count(o, t, false);
    char answer[16];
    if (n == 0 || o->dry_run || o->force)
        return 0;
    if (!isatty(STDIN_FILENO)) {
        error_set(err, CAY_INVALID_ARGUMENT, "this removes %zu stopped sandbox%s and their files",
                  n, n == 1 ? "" : "es");
        return error_remedy(err, "see which with --dry-run, and remove them with --force");
    }
    for (size_t i = 0; i < t->rows; i++)
        if (is_taken(o, t, i))
            (void)fprintf(stderr, "%s\n", reply_text(t, i, "name"));
    (void)fprintf(stderr, "Remove %s and all files in %s? [y/N] ",
                  n == 1 ? "this sandbox" : "these sandboxes", n == 1 ? "it" : "them");
    if (fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y'))
        return 0;
    return error_set(err, CAY_CONFLICT, "nothing was removed");
}

static void report_kept(const struct prune_options *o, struct reply *t) {
    size_t n = count(o, t, true);
    if (n > 0 && !o->common.quiet && o->common.output != OUTPUT_JSON)
        verb_note("%zu that stopped without being asked %s kept; --idle removes %s too", n,
                  n == 1 ? "is" : "are", n == 1 ? "it" : "them");
}

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc, (void)argv;
    const struct prune_options *o = values;
    const struct sandbox_request req = {.method = "GET", .before = "/api/cay/sandbox"};
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(&o->common);
    _cleanup_(reply_free) struct reply t = {0};
    if (sandbox_verb_open(&v) < 0 || sandbox_query_list(&v, &req, &t) < 0)
        return verb_fail(&v.err);
    if (confirm(o, &t, &v.err) < 0)
        return verb_fail(&v.err);
    int code = prune_and_report(&v, o, &t);
    report_kept(o, &t);
    return code;
}

const struct opt_command cli_prune = {
    .name = "prune",
    .is_destructive = true,
    .path = "cay prune",
    .synopsis = "[OPTIONS]",
    .summary = "remove sandboxes that were stopped",
    .help = "Takes those that somebody stopped, and asks first. Those that cay stopped by itself, "
            "as after idle minutes, stay unless --idle is given. Prints what it removed.",
    .group = CLI_SANDBOXES,
    .options = options,
    .values_size = sizeof(struct prune_options),
    .run = run,
};
