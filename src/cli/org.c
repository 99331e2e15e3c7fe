/* `cay org`: organisations, whose keys share what they make. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json/jsonw.h"
#include "cli/cli.h"
#include "cli/limits.h"
#include "cli/sandbox.h"

#define ORGS_PATH       "/api/cay/organizations"
#define ORGS_CANDIDATES "org ls -q"

/* ---- create ---- */

struct org_options {
    struct verb_common common;
    struct limit_options limits;
};

static const struct opt create_table[] = {
    LIMIT_OPTIONS(struct org_options),
    {0},
};

static int run_create(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    const struct org_options *o = values;
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(&o->common);
    _cleanup_(buf_free) struct buf body = BUF_INIT(64 * 1024);
    struct jsonw w = JSONW_INIT(&body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "name", argv[0]);
    limits_put(&w, &o->limits);
    jsonw_end_object(&w);
    const struct sandbox_request req = {.method = "POST", .before = ORGS_PATH, .body = &body};
    if (sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    if (sandbox_ask(&v, &req) < 0)
        return sandbox_fail(&v);
    return o->common.output == OUTPUT_JSON ? verb_print(&v.answer) : 0;
}

static const struct opt_command create = {
    .name = "create",
    .path = "cay org create",
    .synopsis = "[OPTIONS] NAME",
    .summary = "make an organisation",
    .help = "The limits hold for all keys of the organisation together. Each key has its own "
            "limits besides.",
    .examples = "cay org create research --memory 16g --disk 200g\n"
                "cay key create ann --org research --max-sandboxes 10\n",
    .options = create_table,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct org_options),
    .run = run_create,
};

/* ---- ls ---- */

enum { COLUMNS = 6 };

struct org_row {
    char memory[32], disk[32];
};

/* A limit of 0 is none. */
static const char *limit(struct reply *t, size_t row, const char *name) {
    const char *text = reply_text(t, row, name);
    return strcmp(text, "0") == 0 ? "" : text;
}

static const char *limit_bytes(struct reply *t, size_t row, const char *name, char out[static 32]) {
    uint64_t bytes = reply_unsigned(t, row, name);
    return bytes == 0 ? "" : str_bytes(bytes, out);
}

static int print_table(struct reply *t) {
    static const char *const titles[COLUMNS] = {"NAME", "SANDBOXES", "MEMORY",
                                                "CPUS", "DISK",      "CREATED"};
    struct cay_error err;
    _cleanup_(freep) const char **cell = calloc((t->rows + 1) * COLUMNS, sizeof *cell);
    _cleanup_(freep) struct org_row *own = calloc(t->rows + 1, sizeof *own);
    if (cell == NULL || own == NULL) {
        error_set(&err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return verb_fail(&err);
    }
    memcpy(cell, titles, sizeof titles);
    for (size_t i = 0; i < t->rows; i++) {
        const char **at = cell + (i + 1) * COLUMNS;
        at[0] = reply_text(t, i, "name");
        at[1] = limit(t, i, "maxSandboxes");
        at[2] = limit_bytes(t, i, "maxMemory", own[i].memory);
        at[3] = limit(t, i, "maxCpus");
        at[4] = limit_bytes(t, i, "maxDisk", own[i].disk);
        at[5] = reply_text(t, i, "createdAt");
    }
    _cleanup_(buf_free) struct buf b = BUF_INIT(DAEMON_ANSWER_MAX);
    sandbox_put_columns(&b, cell, t->rows + 1, COLUMNS);
    return verb_print(&b);
}

static int run_ls(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc, (void)argv;
    return sandbox_list(values, ORGS_PATH, print_table);
}

static const struct opt_command list = {
    .name = "ls",
    .path = "cay org ls",
    .synopsis = "[OPTIONS]",
    .summary = "list organisations",
    .values_size = sizeof(struct verb_common),
    .run = run_ls,
};

/* ---- info ---- */

static int run_info(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    return limits_print_usage(values, "?organization=", argv[0]);
}

static const struct opt_command info = {
    .name = "info",
    .path = "cay org info",
    .synopsis = "[OPTIONS] NAME",
    .summary = "show what the keys of an organisation use together, and what is left",
    .candidates = ORGS_CANDIDATES,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct verb_common),
    .run = run_info,
};

/* ---- rm ---- */

static int run_rm(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    const struct sandbox_request req = {.method = "DELETE", .before = ORGS_PATH "/"};
    return sandbox_each(values, &req, argc, argv);
}

static const struct opt_command rm = {
    .name = "rm",
    .is_destructive = true,
    .path = "cay org rm",
    .synopsis = "[OPTIONS] NAME...",
    .summary = "remove organisations that have no keys",
    .help = "What belongs to an organisation stays; whoever runs the daemon still sees it.",
    .candidates = ORGS_CANDIDATES,
    .min_operands = 1,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct verb_common),
    .run = run_rm,
};

/* ---- the group ---- */

static const struct opt_command *const commands[] = {&create, &list, &info, &rm, NULL};

static const struct verb_program program = {
    .path = "cay org",
    .about = "Organisations: their keys share everything that they make.",
    .commands = commands,
};

/* argv are the words after "org". */
static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)values;
    return verb_main(&program, argc + 1, argv - 1);
}

const struct opt_command cli_org = {
    .name = "org",
    .path = "cay org",
    .synopsis = "COMMAND [ARG...]",
    .summary = "organisations, whose keys share what they make",
    .group = CLI_ACCESS,
    .subcommands = commands,
    .run = run,
};
