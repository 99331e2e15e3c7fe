/* `cay stop`, `start`, `pause`, `resume`, `rm`: one request for each sandbox that is named. */
#include "cli/cli.h"
#include "cli/sandbox.h"

struct rm_options {
    struct verb_common common;
    bool force;
};

static const struct opt rm_table[] = {
    {.letter = 'f',
     .name = "force",
     OPT_TO_FLAG(struct rm_options, force),
     .help = "also while something is done in it"},
    {0},
};

static int post(const void *values, const char *after, int argc, char **argv) {
    const struct sandbox_request req = {.method = "POST", .before = "/api/sandbox/"};
    struct sandbox_request one = req;
    one.after = after;
    return sandbox_each(values, &one, argc, argv);
}

static int run_stop(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    return post(values, "/stop", argc, argv);
}

static int run_start(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    return post(values, "/start", argc, argv);
}

static int run_pause(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    return post(values, "/pause", argc, argv);
}

static int run_resume(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    return post(values, "/resume", argc, argv);
}

static int run_rm(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    const struct rm_options *o = values;
    const struct sandbox_request req = {
        .method = "DELETE", .before = "/api/sandbox/", .after = o->force ? "?force=true" : NULL};
    return sandbox_each(&o->common, &req, argc, argv);
}

#define LIFECYCLE(verb, about, more)                                                               \
    const struct opt_command cli_##verb = {                                                        \
        .name = #verb,                                                                             \
        .path = "cay " #verb,                                                                      \
        .synopsis = "[OPTIONS] SANDBOX...",                                                        \
        .summary = about,                                                                          \
        .help = more,                                                                              \
        .group = CLI_SANDBOXES,                                                                    \
        .candidates = CLI_CANDIDATES,                                                              \
        .min_operands = 1,                                                                         \
        .max_operands = OPT_OPERANDS_ANY,                                                          \
        .values_size = sizeof(struct verb_common),                                                 \
        .run = run_##verb,                                                                         \
    }

LIFECYCLE(stop, "end everything that runs in sandboxes; their files stay",
          "Processes are asked to end (SIGTERM), given a moment, and killed.");
LIFECYCLE(start, "start stopped sandboxes again",
          "Files are as they were; what ran before is not started again.");
LIFECYCLE(pause, "freeze sandboxes",
          "Nothing runs in a paused sandbox, and nothing of it is lost: memory stays.");
LIFECYCLE(resume, "let paused sandboxes go on", NULL);

static const char *const rm_aliases[] = {"delete", NULL};

const struct opt_command cli_rm = {
    .name = "rm",
    .aliases = rm_aliases,
    .path = "cay rm",
    .synopsis = "[OPTIONS] SANDBOX...",
    .summary = "remove sandboxes with all of their files",
    .help = "A sandbox that runs is ended first. One in which a command or a copy is under way is "
            "refused, unless --force is given.",
    .examples = "cay rm web\n"
                "cay rm -f $(cay ls -aq)\n",
    .group = CLI_SANDBOXES,
    .options = rm_table,
    .candidates = CLI_CANDIDATES,
    .min_operands = 1,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct rm_options),
    .run = run_rm,
};
