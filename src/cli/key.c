/* `cay key`: keys for the daemon on TCP. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/jsonw.h"
#include "cli/cli.h"
#include "cli/sandbox.h"

#define KEYS_PATH       "/api/cay/api-keys"
#define USAGE_PATH      "/api/cay/usage"
#define KEYS_CANDIDATES "key ls -q"

/* ---- create ---- */

struct create_options {
    struct verb_common common;
    struct strv scopes;
    int64_t max_sandboxes, max_volumes, pids, max_commands, max_python_runs, max_pulls, max_builds;
    int64_t max_connections, max_proxy_connections, max_event_viewers;
    uint64_t memory, disk;
    double cpus;
    int64_t expires_ms;
};

static const struct opt create_table[] = {
    {.name = "scope",
     OPT_TO_STRINGS(struct create_options, scopes),
     .arg = "SCOPE,...",
     .help = "what it may do: sandboxes, images, read, admin (sandboxes)"},
    {.name = "max-sandboxes",
     OPT_TO_INTEGER(struct create_options, max_sandboxes),
     .arg = "N",
     .min = 1,
     .max = 1000000,
     .help = "limit of the number of its sandboxes"},
    {.name = "max-volumes",
     OPT_TO_INTEGER(struct create_options, max_volumes),
     .arg = "N",
     .min = 1,
     .max = 1000000,
     .help = "the same of its named volumes"},
    {.letter = 'm',
     .name = "memory",
     OPT_TO_SIZE(struct create_options, memory),
     .arg = "SIZE",
     .help = "limit of the memory of all its sandboxes together"},
    {.name = "cpus",
     OPT_TO_NUMBER(struct create_options, cpus),
     .arg = "N",
     .min = 0.01,
     .max = 1000000,
     .help = "the same of processors"},
    {.name = "disk",
     OPT_TO_SIZE(struct create_options, disk),
     .arg = "SIZE",
     .help = "the same of disk"},
    {.name = "pids",
     OPT_TO_INTEGER(struct create_options, pids),
     .arg = "N",
     .min = 1,
     .max = 100000000,
     .help = "the same of processes and threads"},
    {.name = "max-commands",
     OPT_TO_INTEGER(struct create_options, max_commands),
     .arg = "N",
     .min = 1,
     .max = 1000000,
     .help = "limit of concurrent commands in its sandboxes"},
    {.name = "max-python-runs",
     OPT_TO_INTEGER(struct create_options, max_python_runs),
     .arg = "N",
     .min = 1,
     .max = 1000000,
     .help = "limit of concurrent Python programs (POST /api/cay/python)"},
    {.name = "max-pulls",
     OPT_TO_INTEGER(struct create_options, max_pulls),
     .arg = "N",
     .min = 1,
     .max = 1000000,
     .help = "limit of images that are pulled at the same time"},
    {.name = "max-builds",
     OPT_TO_INTEGER(struct create_options, max_builds),
     .arg = "N",
     .min = 1,
     .max = 1000000,
     .help = "limit of builds that wait or run"},
    {.name = "max-connections",
     OPT_TO_INTEGER(struct create_options, max_connections),
     .arg = "N",
     .min = 1,
     .max = 1000000,
     .help = "limit of connections to the daemon"},
    {.name = "max-proxy-connections",
     OPT_TO_INTEGER(struct create_options, max_proxy_connections),
     .arg = "N",
     .min = 1,
     .max = 1000000,
     .help = "limit of connections of its sandboxes through the proxy"},
    {.name = "max-event-viewers",
     OPT_TO_INTEGER(struct create_options, max_event_viewers),
     .arg = "N",
     .min = 1,
     .max = 1000000,
     .help = "limit of viewers of events"},
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

static void put_counts(struct jsonw *w, const struct create_options *o) {
    const struct {
        const char *name;
        int64_t count;
    } counts[] = {{"maxSandboxes", o->max_sandboxes},
                  {"maxVolumes", o->max_volumes},
                  {"maxPids", o->pids},
                  {"maxCommands", o->max_commands},
                  {"maxPythonRuns", o->max_python_runs},
                  {"maxPulls", o->max_pulls},
                  {"maxBuilds", o->max_builds},
                  {"maxConnections", o->max_connections},
                  {"maxProxyConnections", o->max_proxy_connections},
                  {"maxEventViewers", o->max_event_viewers}};
    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        if (counts[i].count > 0)
            jsonw_put_integer(w, counts[i].name, counts[i].count);
}

static void put_key(struct buf *body, const struct create_options *o, const char *name) {
    char time[32];
    struct jsonw w = JSONW_INIT(body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "name", name);
    if (o->scopes.len > 0)
        put_scopes(&w, &o->scopes);
    put_counts(&w, o);
    if (o->memory > 0)
        jsonw_put_unsigned(&w, "maxMemory", o->memory);
    if (o->disk > 0)
        jsonw_put_unsigned(&w, "maxDisk", o->disk);
    if (o->cpus > 0)
        jsonw_put_number(&w, "maxCpus", o->cpus);
    if (o->expires_ms > 0)
        jsonw_put_string(&w, "expiresAt", clock_iso8601(clock_wall_ms() + o->expires_ms, time));
    jsonw_end_object(&w);
}

/* The key alone on standard output, so that it can be piped to where it shall be kept. */
static int tell_key(struct sandbox_verb *v) {
    _cleanup_(table_free) struct table t = {0};
    _cleanup_(buf_free) struct buf line = BUF_INIT(4096);
    if (v->common->output == OUTPUT_JSON)
        return verb_print(&v->answer);
    if (table_parse(buf_text(&v->answer), &t, &v->err) < 0)
        return verb_fail(&v->err);
    if (!v->common->quiet)
        verb_note("this is the key of '%s'; it is shown only now", table_get(&t, 0, "name"));
    (void)buf_printf(&line, "%s\n", table_get(&t, 0, "value"));
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
    return sandbox_ask(&v, &req) < 0 ? sandbox_fail(&v) : tell_key(&v);
}

static const struct opt_command create = {
    .name = "create",
    .path = "cay key create",
    .synopsis = "[OPTIONS] NAME",
    .summary = "make a key and print it, once",
    .help = "Clients send it as 'Authorization: Bearer KEY'; cay takes it from CAY_API_KEY. The "
            "daemon keeps no more than its hash.",
    .examples = "cay key create ci --max-sandboxes 5 --memory 4g --expires 30d\n"
                "cay key create grafana --scope read\n",
    .options = create_table,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct create_options),
    .run = run_create,
};

/* ---- ls ---- */

enum { COLUMNS = 8 };

/* Texts that are made for a row. */
struct key_row {
    char memory[32], disk[32];
};

/* A limit of 0 is none. */
static const char *limit(const struct table *t, size_t row, const char *name) {
    const char *text = table_get(t, row, name);
    return strcmp(text, "0") == 0 ? "" : text;
}

static const char *limit_bytes(const struct table *t, size_t row, const char *name,
                               char out[static 32]) {
    uint64_t bytes = table_number(t, row, name);
    return bytes == 0 ? "" : str_bytes(bytes, out);
}

static void fill_row(const struct table *t, size_t row, struct key_row *own, const char **cell) {
    cell[0] = table_get(t, row, "name");
    cell[1] = table_get(t, row, "permissions");
    cell[2] = limit(t, row, "maxSandboxes");
    cell[3] = limit_bytes(t, row, "maxMemory", own->memory);
    cell[4] = limit(t, row, "maxCpus");
    cell[5] = limit_bytes(t, row, "maxDisk", own->disk);
    cell[6] = table_get(t, row, "createdAt");
    cell[7] = table_get(t, row, "expiresAt");
}

static int print_table(const struct table *t) {
    static const char *const titles[COLUMNS] = {"NAME", "SCOPES", "SANDBOXES", "MEMORY",
                                                "CPUS", "DISK",   "CREATED",   "EXPIRES"};
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

enum { USAGE_COLUMNS = 4 };

struct usage_texts {
    char used[32], limit[32], left[32];
};

/* Bytes for people; what is not bounded is empty. */
static const char *amount(const struct table *t, size_t row, const char *name,
                          char out[static 32]) {
    const char *text = table_get(t, row, name);
    bool is_size = strcmp(table_get(t, row, "unit"), "bytes") == 0;
    return is_size && text[0] != '\0' ? str_bytes(table_number(t, row, name), out) : text;
}

static int print_usage(const struct table *t) {
    static const char *const titles[USAGE_COLUMNS] = {"WHAT", "USED", "LIMIT", "LEFT"};
    struct cay_error err;
    _cleanup_(freep) const char **cell = calloc((t->rows + 1) * USAGE_COLUMNS, sizeof *cell);
    _cleanup_(freep) struct usage_texts *own = calloc(t->rows + 1, sizeof *own);
    if (cell == NULL || own == NULL) {
        error_set(&err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return verb_fail(&err);
    }
    memcpy(cell, titles, sizeof titles);
    for (size_t i = 0; i < t->rows; i++) {
        const char **at = cell + (i + 1) * USAGE_COLUMNS;
        at[0] = table_get(t, i, "name");
        at[1] = amount(t, i, "used", own[i].used);
        at[2] = amount(t, i, "limit", own[i].limit);
        at[3] = amount(t, i, "left", own[i].left);
    }
    _cleanup_(buf_free) struct buf b = BUF_INIT(DAEMON_ANSWER_MAX);
    sandbox_put_columns(&b, cell, t->rows + 1, USAGE_COLUMNS);
    return verb_print(&b);
}

static int run_info(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    const struct verb_common *common = values;
    const struct sandbox_request req = {.method = "GET",
                                        .before = argc > 0 ? USAGE_PATH "?key=" : USAGE_PATH,
                                        .who = argc > 0 ? argv[0] : NULL};
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(common);
    _cleanup_(table_free) struct table t = {0};
    if (sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    if (common->output == OUTPUT_JSON)
        return sandbox_ask(&v, &req) < 0 ? sandbox_fail(&v) : verb_print(&v.answer);
    return sandbox_ask_table(&v, &req, &t) < 0 ? sandbox_fail(&v) : print_usage(&t);
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
    .help = "Sandboxes that were made with a key stay; who runs the daemon still sees them.",
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
