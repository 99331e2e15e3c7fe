/* `cay info`: everything about a sandbox. */
#include <string.h>

#include "cli/cli.h"
#include "cli/sandbox.h"

/* What is shown, in this order; the daemon may know more. */
static const struct {
    const char *field, *title;
    bool is_size;
} lines[] = {
    {"id", "id", false},
    {"name", "name", false},
    {"state", "state", false},
    {"progress", "progress", false},
    {"stopReason", "reason", false},
    {"errorReason", "reason", false},
    {"errorRemedy", "remedy", false},
    {"image", "image", false},
    {"user", "user", false},
    {"workDir", "work folder", false},
    {"memory", "memory", true},
    {"disk", "disk", true},
    {"archiveSize", "archive", true},
    {"cpus", "cpus", false},
    {"pids", "pids", false},
    {"limitsNotKept", "not kept", false},
    {"engine", "engine", false},
    {"tier", "tier", false},
    {"profile", "profile", false},
    {"labels", "labels", false},
    {"volumes", "volumes", false},
    {"network", "network", false},
    {"createdAt", "created", false},
    {"updatedAt", "updated", false},
    {"lastActivityAt", "active", false},
    {"autoStopInterval", "auto-stop", false},
    {"autoArchiveInterval", "auto-archive", false},
    {"autoDeleteInterval", "auto-delete", false},
    {"onFailure", "on failure", false},
};

/* 0 is "never" for all but the removal. */
static const char *interval(const char *field, const char *minutes, char out[static 32]) {
    bool zero = strcmp(minutes, "0") == 0;
    if (zero && strcmp(field, "autoDeleteInterval") == 0)
        return "at once when it stops";
    bool never = zero || minutes[0] == '-' || minutes[0] == '\0';
    (void)snprintf(out, 32, never ? "never" : "%.16s min", minutes);
    return out;
}

static const char *size(uint64_t bytes, char out[static 32]) {
    return bytes == 0 ? "no limit" : str_bytes(bytes, out);
}

static void put_sandbox(struct buf *b, struct reply *t) {
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        char text[32];
        const char *value = reply_text(t, 0, lines[i].field);
        if (strncmp(lines[i].field, "auto", 4) == 0)
            value = interval(lines[i].field, value, text);
        if (strcmp(lines[i].field, "archiveSize") == 0 && reply_unsigned(t, 0, lines[i].field) == 0)
            continue;
        if (strcmp(lines[i].field, "cpus") == 0 && strcmp(value, "0") == 0)
            value = "no limit";
        if (lines[i].is_size)
            value = size(reply_unsigned(t, 0, lines[i].field), text);
        if (value[0] != '\0')
            (void)buf_printf(b, "%-12s %s\n", lines[i].title, value);
    }
}

static int print_one(struct sandbox_verb *v, const char *who, bool is_first) {
    const struct sandbox_request req = {.method = "GET", .before = "/api/cay/sandbox/", .who = who};
    _cleanup_(reply_free) struct reply t = {0};
    _cleanup_(buf_free) struct buf b = BUF_INIT(DAEMON_ANSWER_MAX);
    if (sandbox_query(v, &req, &t) < 0)
        return sandbox_fail(v);
    if (!is_first)
        (void)buf_putc(&b, '\n');
    put_sandbox(&b, &t);
    return verb_print(&b);
}

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    const struct verb_common *common = values;
    const struct sandbox_request req = {.method = "GET", .before = "/api/cay/sandbox/"};
    if (common->output == OUTPUT_JSON || common->quiet)
        return sandbox_each(common, &req, argc, argv);
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(common);
    if (sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    int code = 0;
    for (int i = 0; i < argc; i++) {
        int r = print_one(&v, argv[i], i == 0);
        code = code != 0 ? code : r;
    }
    return code;
}

const struct opt_command cli_info = {
    .name = "info",
    .path = "cay info",
    .synopsis = "[OPTIONS] SANDBOX...",
    .summary = "show all about sandboxes",
    .group = CLI_SANDBOXES,
    .candidates = CLI_CANDIDATES,
    .min_operands = 1,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct verb_common),
    .run = run,
};
