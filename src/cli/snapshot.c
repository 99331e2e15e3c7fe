/* `cay snapshot create`: an image of a sandbox, made by the daemon, which resumes the sandbox
 * whatever becomes of the client. */
#include "base/json/jsonw.h"
#include "cli/cli.h"
#include "cli/sandbox.h"

static int snapshot(struct sandbox_verb *v, const char *who, const char *name) {
    _cleanup_(buf_free) struct buf body = BUF_INIT(8192);
    struct jsonw w = JSONW_INIT(&body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "name", name);
    jsonw_end_object(&w);
    const struct sandbox_request req = {.method = "POST",
                                        .before = "/api/cay/sandbox/",
                                        .who = who,
                                        .after = "/snapshot",
                                        .body = &body};
    if (sandbox_ask(v, &req) < 0)
        return sandbox_fail(v);
    if (v->common->output == OUTPUT_JSON)
        return verb_print(&v->answer);
    _cleanup_(buf_free) struct buf line = BUF_INIT(8192);
    (void)buf_printf(&line, "%s\n", name);
    return verb_print(&line);
}

static int run_create(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(values);
    if (sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    return snapshot(&v, argv[0], argv[1]);
}

static const struct opt_command create = {
    .name = "create",
    .path = "cay snapshot create",
    .synopsis = "[OPTIONS] SANDBOX NAME",
    .summary = "make an image of a sandbox",
    .help = "The image is the one that the sandbox was created from, with everything that was "
            "changed since. A running sandbox is paused meanwhile and goes on afterwards; its "
            "processes and its memory are not part of the image. With --host it is an image, or a "
            "snapshot, of that host.",
    .examples = "cay snapshot create lab lab:with-tools\n"
                "cay create --image lab:with-tools\n",
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = 2,
    .values_size = sizeof(struct verb_common),
    .run = run_create,
};

static const struct opt_command *const commands[] = {&create, NULL};

static const struct opt_habit habits[] = {
    {"delete", "snapshots are images: use 'cay image rm NAME'"},
    {"list", "snapshots are images: use 'cay image ls'"},
    {"ls", "snapshots are images: use 'cay image ls'"},
    {"restore", "use 'cay create --image NAME'"},
    {"rm", "snapshots are images: use 'cay image rm NAME'"},
    {0},
};

static const struct verb_program program = {
    .path = "cay snapshot",
    .about = "Images of sandboxes.",
    .commands = commands,
    .habits = habits,
};

/* argv are the words after "snapshot". */
static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)values;
    return verb_main(&program, argc + 1, argv - 1);
}

const struct opt_command cli_snapshot = {
    .name = "snapshot",
    .path = "cay snapshot",
    .synopsis = "COMMAND [ARG...]",
    .summary = "make images of sandboxes",
    .group = CLI_SANDBOXES,
    .subcommands = commands,
    .run = run,
};
