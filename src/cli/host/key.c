/* `cay key`: keys for the daemon on TCP. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "cli/cli.h"
#include "cli/limits.h"
#include "cli/sandbox.h"

#define KEYS_PATH       "/api/cay/api-keys"
#define KEYS_CANDIDATES "key ls -q"

/* ---- create ---- */

struct create_options {
    struct verb_common common;
    struct strv scopes;
    struct limit_options limits;
    const char *organization;
    int64_t expires_ms;
};

static const struct opt create_table[] = {
    {.name = "scope",
     OPT_TO_STRINGS(struct create_options, scopes),
     .arg = "SCOPE,...",
     .help = "what it may do: sandboxes, images, read, admin (sandboxes)"},
    {.name = "org",
     OPT_TO_STRING(struct create_options, organization),
     .arg = "NAME",
     .help = "the organisation that it belongs to, and what it makes"},
    LIMIT_OPTIONS(struct create_options),
    {.name = "expires",
     OPT_TO_DURATION(struct create_options, expires_ms),
     .arg = "TIME",
     .min = 1000,
     .max = 3.2e11,
     .help = "how long it is valid, as in 30d (for ever)"},
    {0},
};

/* The words between commas. */
static void put_scopes(struct jsonw *w, const struct strv *scopes) {
    jsonw_key(w, "permissions");
    jsonw_begin_array(w);
    for (size_t i = 0; i < scopes->len; i++) {
        const char *word = scopes->v[i];
        for (;;) {
            size_t len = strcspn(word, ",");
            jsonw_bytes(w, word, len);
            if (word[len] == '\0')
                break;
            word += len + 1;
        }
    }
    jsonw_end_array(w);
}

static void put_key(struct buf *body, const struct create_options *o, const char *name) {
    char time[32];
    struct jsonw w = JSONW_INIT(body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "name", name);
    if (o->scopes.len > 0)
        put_scopes(&w, &o->scopes);
    if (o->organization != NULL)
        jsonw_put_string(&w, "organization", o->organization);
    limits_put(&w, &o->limits);
    if (o->expires_ms > 0)
        jsonw_put_string(&w, "expiresAt", clock_iso8601(clock_wall_ms() + o->expires_ms, time));
    jsonw_end_object(&w);
}

/* The key alone on standard output, so that it can be piped to where it shall be kept. */
static int report_key(struct sandbox_verb *v) {
    _cleanup_(reply_free) struct reply t = {0};
    _cleanup_(buf_free) struct buf line = BUF_INIT(4096);
    if (v->common->output == OUTPUT_JSON)
        return verb_print(&v->answer);
    if (reply_parse(&v->answer, &t, &v->err) < 0)
        return verb_fail(&v->err);
    if (!v->common->quiet)
        verb_note("this is the key of '%s'; it is shown only now", reply_text(&t, 0, "name"));
    (void)buf_printf(&line, "%s\n", reply_text(&t, 0, "value"));
    return verb_print(&line);
}

static int run_create(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    const struct create_options *o = values;
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(&o->common);
    _cleanup_(buf_free) struct buf body = BUF_INIT(64 * 1024);
    put_key(&body, o, argv[0]);
    const struct sandbox_request req = {.method = "POST", .before = KEYS_PATH, .body = &body};
    if (sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    return sandbox_ask(&v, &req) < 0 ? sandbox_fail(&v) : report_key(&v);
}

static const struct opt_command create = {
    .name = "create",
    .path = "cay key create",
    .synopsis = "[OPTIONS] NAME",
    .summary = "make a key and print it, once",
    .help = "Clients send it as 'Authorization: Bearer KEY'; cay takes it from CAY_API_KEY. The "
            "daemon keeps no more than its hash.",
    .examples = "cay key create ci --max-sandboxes 5 --memory 4g --expires 30d\n"
                "cay key create grafana --scope read\n"
                "cay key create ann --org research\n",
    .options = create_table,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct create_options),
    .run = run_create,
};

/* ---- ls ---- */

enum { COLUMNS = 9 };

/* Texts that are made for a row. */
struct key_row {
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

static void fill_row(struct reply *t, size_t row, struct key_row *own, const char **cell) {
    cell[0] = reply_text(t, row, "name");
    cell[1] = reply_text(t, row, "permissions");
    cell[2] = limit(t, row, "maxSandboxes");
    cell[3] = limit_bytes(t, row, "maxMemory", own->memory);
    cell[4] = limit(t, row, "maxCpus");
    cell[5] = limit_bytes(t, row, "maxDisk", own->disk);
    cell[6] = reply_text(t, row, "createdAt");
    cell[7] = reply_text(t, row, "expiresAt");
    cell[8] = reply_text(t, row, "organization");
}

static int print_table(struct reply *t) {
    static const char *const titles[COLUMNS] = {"NAME",    "SCOPES",  "SANDBOXES",
                                                "MEMORY",  "CPUS",    "DISK",
                                                "CREATED", "EXPIRES", "ORGANISATION"};
    struct cay_error err;
    _cleanup_(freep) const char **cell = calloc((t->rows + 1) * COLUMNS, sizeof *cell);
    _cleanup_(freep) struct key_row *own = calloc(t->rows + 1, sizeof *own);
    if (cell == NULL || own == NULL) {
        error_set(&err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return verb_fail(&err);
    }
    memcpy(cell, titles, sizeof titles);
    for (size_t i = 0; i < t->rows; i++)
        fill_row(t, i, &own[i], cell + (i + 1) * COLUMNS);
    _cleanup_(buf_free) struct buf b = BUF_INIT(DAEMON_ANSWER_MAX);
    sandbox_put_columns(&b, cell, t->rows + 1, COLUMNS);
    return verb_print(&b);
}

static int run_ls(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc, (void)argv;
    return sandbox_list(values, KEYS_PATH, print_table);
}

static const struct opt_command list = {
    .name = "ls",
    .path = "cay key ls",
    .synopsis = "[OPTIONS]",
    .summary = "list keys, not their texts: nobody knows those",
    .values_size = sizeof(struct verb_common),
    .run = run_ls,
};

/* ---- info ---- */

static int run_info(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    return limits_print_usage(values, "?key=", argc > 0 ? argv[0] : NULL);
}

static const struct opt_command info = {
    .name = "info",
    .path = "cay key info",
    .synopsis = "[OPTIONS] [NAME]",
    .summary = "show what a key uses of its budget, and what is left",
    .help = "Without NAME: the key that you use yourself.",
    .candidates = KEYS_CANDIDATES,
    .max_operands = 1,
    .values_size = sizeof(struct verb_common),
    .run = run_info,
};

/* ---- rm ---- */

static int run_rm(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    const struct sandbox_request req = {.method = "DELETE", .before = KEYS_PATH "/"};
    return sandbox_each(values, &req, argc, argv);
}

static const struct opt_command rm = {
    .name = "rm",
    .is_destructive = true,
    .path = "cay key rm",
    .synopsis = "[OPTIONS] NAME...",
    .summary = "remove keys, which do not work any more at once",
    .help = "What was made with a key stays: its organisation has it, or whoever runs the daemon.",
    .candidates = KEYS_CANDIDATES,
    .min_operands = 1,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct verb_common),
    .run = run_rm,
};

/* ---- the group ---- */

static const struct opt_command *const commands[] = {&create, &list, &info, &rm, NULL};

static const struct verb_program program = {
    .path = "cay key",
    .about = "Keys for the daemon on TCP: who has one may do what its scopes say, to his own "
             "sandboxes.",
    .commands = commands,
};

/* argv are the words after "key". */
static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)values;
    return verb_main(&program, argc + 1, argv - 1);
}

const struct opt_command cli_key = {
    .name = "key",
    .path = "cay key",
    .synopsis = "COMMAND [ARG...]",
    .summary = "keys for the daemon on TCP",
    .group = CLI_ACCESS,
    .subcommands = commands,
    .run = run,
};
