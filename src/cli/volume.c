/* `cay volume`: disks that sandboxes share and that outlive them. */
#include <string.h>

#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/sandbox.h"

#define VOLUMES_PATH       "/api/cay/volumes"
#define VOLUMES_CANDIDATES "volume ls -q"

/* ---- create, resize ---- */

struct create_options {
    struct verb_common common;
    uint64_t size;
};

static const struct opt create_table[] = {
    {.name = "size",
     OPT_TO_SIZE(struct create_options, size),
     .arg = "SIZE",
     .help = "how much it holds, as in 1g (volume_size of the configuration)"},
    {0},
};

static int create_one(struct sandbox_verb *v, const char *name, uint64_t size) {
    _cleanup_(buf_free) struct buf body = BUF_INIT(8192);
    struct jsonw w = JSONW_INIT(&body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "name", name);
    if (size > 0)
        jsonw_put_unsigned(&w, "size", size);
    jsonw_end_object(&w);
    const struct sandbox_request req = {.method = "POST", .before = VOLUMES_PATH, .body = &body};
    buf_clear(&v->answer);
    return sandbox_ask(v, &req) < 0 ? sandbox_fail(v) : sandbox_report(v);
}

static int run_create(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    int code = 0;
    const struct create_options *o = values;
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(&o->common);
    if (sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    for (int i = 0; i < argc; i++) {
        int r = create_one(&v, argv[i], o->size);
        code = code != 0 ? code : r;
    }
    return code;
}

static const struct opt_command create = {
    .name = "create",
    .path = "cay volume create",
    .synopsis = "[OPTIONS] NAME...",
    .summary = "make empty volumes",
    .options = create_table,
    .examples = "cay volume create --size 1g data\n"
                "cay create -v data:/data --name one\n"
                "cay create -v data:/data:ro --name two\n",
    .min_operands = 1,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct create_options),
    .run = run_create,
};

static int run_resize(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    uint64_t size = 0;
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(values);
    _cleanup_(buf_free) struct buf body = BUF_INIT(8192);
    if (str_to_size("SIZE", argv[1], &size, &v.err) < 0)
        return verb_fail(&v.err);
    struct jsonw w = JSONW_INIT(&body);
    jsonw_begin_object(&w);
    jsonw_put_unsigned(&w, "size", size);
    jsonw_end_object(&w);
    const struct sandbox_request req = {.method = "POST",
                                        .before = VOLUMES_PATH "/",
                                        .who = argv[0],
                                        .after = "/resize",
                                        .body = &body};
    if (sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    return sandbox_ask(&v, &req) < 0 ? sandbox_fail(&v) : sandbox_report(&v);
}

static const struct opt_command resize = {
    .name = "resize",
    .path = "cay volume resize",
    .synopsis = "[OPTIONS] VOLUME SIZE",
    .summary = "make a volume larger, while sandboxes use it",
    .help = "SIZE is the new size of the whole volume, as in 2g. A volume cannot become smaller.",
    .candidates = VOLUMES_CANDIDATES,
    .min_operands = 2,
    .max_operands = 2,
    .values_size = sizeof(struct verb_common),
    .run = run_resize,
};

/* ---- ls ---- */

enum { COLUMNS = 4, SIZE_TEXT = 32 };

/* A Daytona does not say. */
static const char *show_size(const char *bytes, char out[static SIZE_TEXT]) {
    uint64_t size;
    if (bytes[0] == '\0' || str_to_u64(bytes, UINT64_MAX, &size) < 0)
        return "-";
    return size == 0 ? "no limit" : str_bytes(size, out);
}

static int print_table(struct reply *t) {
    static const char *const titles[COLUMNS] = {"ID", "NAME", "SIZE", "CREATED"};
    struct cay_error err;
    _cleanup_(freep) const char **cell = calloc((t->rows + 1) * COLUMNS, sizeof *cell);
    _cleanup_(freep) char(*size)[SIZE_TEXT] = calloc(t->rows + 1, sizeof *size);
    if (cell == NULL || size == NULL) {
        error_set(&err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return verb_fail(&err);
    }
    memcpy(cell, titles, sizeof titles);
    for (size_t i = 0; i < t->rows; i++) {
        cell[(i + 1) * COLUMNS] = reply_text(t, i, "id");
        cell[(i + 1) * COLUMNS + 1] = reply_text(t, i, "name");
        cell[(i + 1) * COLUMNS + 2] = show_size(reply_text(t, i, "size"), size[i]);
        cell[(i + 1) * COLUMNS + 3] = reply_text(t, i, "createdAt");
    }
    _cleanup_(buf_free) struct buf b = BUF_INIT(DAEMON_ANSWER_MAX);
    sandbox_put_columns(&b, cell, t->rows + 1, COLUMNS);
    return verb_print(&b);
}

static int run_ls(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc, (void)argv;
    return sandbox_list(values, VOLUMES_PATH, print_table);
}

static const struct opt_command list = {
    .name = "ls",
    .path = "cay volume ls",
    .synopsis = "[OPTIONS]",
    .summary = "list volumes",
    .values_size = sizeof(struct verb_common),
    .run = run_ls,
};

/* ---- info, rm ---- */

static int print_one(struct sandbox_verb *v, const char *who) {
    static const char *const fields[][2] = {
        {"id", "id"}, {"name", "name"}, {"state", "state"}, {"createdAt", "created"}};
    const struct sandbox_request req = {.method = "GET", .before = VOLUMES_PATH "/", .who = who};
    _cleanup_(reply_free) struct reply t = {0};
    _cleanup_(buf_free) struct buf b = BUF_INIT(DAEMON_ANSWER_MAX);
    if (sandbox_query(v, &req, &t) < 0)
        return sandbox_fail(v);
    char size[SIZE_TEXT];
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        (void)buf_printf(&b, "%-12s %s\n", fields[i][1], reply_text(&t, 0, fields[i][0]));
    (void)buf_printf(&b, "%-12s %s\n", "size", show_size(reply_text(&t, 0, "size"), size));
    return verb_print(&b);
}

static int run_info(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    const struct verb_common *common = values;
    const struct sandbox_request req = {.method = "GET", .before = VOLUMES_PATH "/"};
    if (common->output == OUTPUT_JSON || common->quiet)
        return sandbox_each(common, &req, argc, argv);
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(common);
    return sandbox_verb_open(&v) < 0 ? verb_fail(&v.err) : print_one(&v, argv[0]);
}

static const struct opt_command info = {
    .name = "info",
    .path = "cay volume info",
    .synopsis = "[OPTIONS] VOLUME",
    .summary = "show all about a volume",
    .candidates = VOLUMES_CANDIDATES,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct verb_common),
    .run = run_info,
};

static int run_rm(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    const struct sandbox_request req = {.method = "DELETE", .before = VOLUMES_PATH "/"};
    return sandbox_each(values, &req, argc, argv);
}

static const struct opt_command rm = {
    .name = "rm",
    .is_destructive = true,
    .path = "cay volume rm",
    .synopsis = "[OPTIONS] VOLUME...",
    .summary = "remove volumes with all that is in them",
    .help = "One that a sandbox has, running or not, is refused.",
    .candidates = VOLUMES_CANDIDATES,
    .min_operands = 1,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct verb_common),
    .run = run_rm,
};

/* ---- the group ---- */

static const struct opt_command *const commands[] = {&create, &list, &info, &resize, &rm, NULL};

static const struct verb_program program = {
    .path = "cay volume",
    .about = "Disks that sandboxes share and that outlive them.",
    .commands = commands,
};

/* argv are the words after "volume". */
static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)values;
    return verb_main(&program, argc + 1, argv - 1);
}

const struct opt_command cli_volume = {
    .name = "volume",
    .path = "cay volume",
    .synopsis = "COMMAND [ARG...]",
    .summary = "disks that sandboxes share",
    .group = CLI_SANDBOXES,
    .subcommands = commands,
    .run = run,
};
