/* `cay stop`, `start`, `archive`, `pause`, `resume`, `rm`: one request for each sandbox that is
 * named. */
#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/sandbox.h"

struct rm_options {
    struct verb_common common;
    bool force, wait, all;
};

struct stop_options {
    struct verb_common common;
    int64_t grace_ms; /* -1: as configured */
};

static const struct opt stop_table[] = {
    {.letter = 't',
     .name = "grace",
     OPT_TO_DURATION(struct stop_options, grace_ms),
     .arg = "TIME",
     .min = 0,
     .max = 3600e3,
     .help = "what runs gets so long to end by itself, 0 for nothing (10s)"},
    {0},
};

static const struct opt rm_table[] = {
    {.letter = 'f',
     .name = "force",
     OPT_TO_FLAG(struct rm_options, force),
     .help = "also while something is done in it"},
    {.name = "wait",
     OPT_TO_FLAG(struct rm_options, wait),
     .help = "wait until nothing is done in it any more"},
    {.name = "all",
     OPT_TO_FLAG(struct rm_options, all),
     .help = "every sandbox that you can see, stopped and archived ones too"},
    {0},
};

static int post(const void *values, const char *after, int argc, char **argv) {
    const struct sandbox_request req = {
        .method = "POST", .before = "/api/cay/sandbox/", .after = after};
    return sandbox_each(values, &req, argc, argv);
}

static int run_stop(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    const struct stop_options *o = values;
    char after[64] = "/stop";
    if (o->grace_ms >= 0)
        (void)snprintf(after, sizeof after, "/stop?grace=%lldms", (long long)o->grace_ms);
    return post(&o->common, after, argc, argv);
}

/* What may take long: a person sees how far it is. */
static int post_with_progress(const void *values, const char *after, int argc, char **argv) {
    const struct sandbox_request req = {
        .method = "POST", .before = "/api/cay/sandbox/", .after = after, .progress = true};
    return sandbox_each(values, &req, argc, argv);
}

static int run_start(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    return post_with_progress(values, "/start", argc, argv);
}

static int run_archive(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    return post_with_progress(values, "/archive", argc, argv);
}

static int run_pause(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    return post(values, "/pause", argc, argv);
}

static int run_resume(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    return post(values, "/resume", argc, argv);
}

static int remove_all(const struct verb_common *common, const struct sandbox_request *req) {
    const struct sandbox_request list = {.method = "GET", .before = "/api/cay/sandbox"};
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(common);
    _cleanup_(reply_free) struct reply t = {0};
    if (sandbox_verb_open(&v) < 0)
        return verb_fail(&v.err);
    if (sandbox_query_list(&v, &list, &t) < 0)
        return sandbox_fail(&v);
    _cleanup_(strv_free) struct strv ids = {0};
    for (size_t i = 0; i < t.rows; i++)
        if (strv_push(&ids, reply_text(&t, i, "id")) < 0) {
            error_set(&v.err, CAY_RESOURCE_EXHAUSTED, "no memory");
            return verb_fail(&v.err);
        }
    return sandbox_each(common, req, (int)ids.len, ids.v);
}

static int run_rm(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    const struct rm_options *o = values;
    const char *how = o->force ? "?force=true" : o->wait ? "?wait=true" : NULL;
    const struct sandbox_request req = {
        .method = "DELETE", .before = "/api/cay/sandbox/", .after = how};
    struct cay_error err;
    if (o->all == (argc > 0)) {
        error_set(&err, CAY_INVALID_ARGUMENT, "%s",
                  o->all ? "--all takes no names" : "no sandbox given");
        (void)error_remedy(&err, "name sandboxes, or use --all");
        return verb_fail(&err);
    }
    return o->all ? remove_all(&o->common, &req) : sandbox_each(&o->common, &req, argc, argv);
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

static const struct stop_options stop_defaults = {.grace_ms = -1};

const struct opt_command cli_stop = {
    .name = "stop",
    .is_destructive = true,
    .path = "cay stop",
    .synopsis = "[OPTIONS] SANDBOX...",
    .summary = "end everything that runs in sandboxes; their files stay",
    .help = "Every process inside is asked to end (SIGTERM; SIGHUP too if it has a terminal) and "
            "given the grace of [manager] stop_timeout; then it is killed. A paused sandbox is "
            "killed at once.",
    .examples = "cay stop web\n"
                "cay stop --grace 1m db\n",
    .group = CLI_SANDBOXES,
    .options = stop_table,
    .candidates = CLI_CANDIDATES,
    .min_operands = 1,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct stop_options),
    .defaults = &stop_defaults,
    .run = run_stop,
};

LIFECYCLE(start, "start stopped or archived sandboxes again",
          "Files are as they were; what ran before is not started again.");
LIFECYCLE(archive, "move what sandboxes have written into compressed archives",
          "A sandbox that runs is stopped first. An archived one takes neither memory nor, beside "
          "its archive, disk; 'cay start' restores it exactly as it was.");
LIFECYCLE(pause, "freeze sandboxes",
          "Nothing runs in a paused sandbox, and nothing of it is lost: memory stays.");
LIFECYCLE(resume, "let paused sandboxes go on", NULL);

static const char *const rm_aliases[] = {"delete", NULL};

const struct opt_command cli_rm = {
    .name = "rm",
    .is_destructive = true,
    .aliases = rm_aliases,
    .path = "cay rm",
    .synopsis = "[OPTIONS] [SANDBOX...]",
    .summary = "remove sandboxes with all of their files",
    .help = "A sandbox that runs is ended first. One in which a command or a copy is under way is "
            "refused, unless --force ends it or --wait waits for it. One that is still being made "
            "is given up.",
    .examples = "cay rm web\n"
                "cay rm --all --force\n",
    .group = CLI_SANDBOXES,
    .options = rm_table,
    .candidates = CLI_CANDIDATES,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct rm_options),
    .run = run_rm,
};
