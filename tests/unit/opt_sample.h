/* A small program's tables, for the tests of options, help and completion. */
#pragma once

#include <string.h>

#include "base/error.h"
#include "cmd/opt.h"

struct sample_common {
    const char *host;
    bool verbose;
    int output;
};

struct sample_values {
    struct sample_common common;
    bool interactive, tty, no_cache;
    const char *image;
    int64_t pids, timeout;
    double cpus;
    uint64_t memory;
    int network;
    struct strv env, volumes;
    char label[32];
    int calls;
};

static inline int sample_label(const struct opt *o, const char *text, void *values,
                               struct cay_error *err) {
    struct sample_values *v = values;
    if (str_copy(v->label, sizeof v->label, text) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "--%s: too long", o->name);
    v->calls++;
    return 0;
}

static inline int sample_count(const struct opt *o, const char *text, void *values,
                               struct cay_error *err) {
    (void)o;
    (void)err;
    ((struct sample_values *)values)->calls += text == NULL ? 100 : -1;
    return 0;
}

static const char *const sample_outputs[] = {"table", "json", NULL};
static const char *const sample_networks[] = {"none", "bridge", "allow", NULL};

static const struct opt sample_common_options[] = {
    {.name = "host",
     OPT_TO_STRING(struct sample_common, host),
     .arg = "URL",
     .help = "Talk to the daemon at URL"},
    {.letter = 'v',
     .name = "verbose",
     OPT_TO_FLAG(struct sample_common, verbose),
     .help = "Say what is done"},
    {.letter = 'o',
     .name = "output",
     OPT_TO_CHOICE(struct sample_common, output),
     .arg = "FORMAT",
     .choices = sample_outputs,
     .help = "How results are shown"},
    {0},
};

static const struct opt sample_run_options[] = {
    {.letter = 'i',
     .name = "interactive",
     OPT_TO_FLAG(struct sample_values, interactive),
     .help = "Keep standard input open"},
    {.letter = 't',
     .name = "tty",
     OPT_TO_FLAG(struct sample_values, tty),
     .help = "Give it a terminal: [raw] 'mode'"},
    {.name = "no-cache", OPT_TO_FLAG(struct sample_values, no_cache), .help = "Fetch it again"},
    {.name = "image",
     OPT_TO_STRING(struct sample_values, image),
     .arg = "IMAGE",
     .complete = OPT_COMPLETE_FILE,
     .help = "What it runs in; this help is long enough to be wrapped over more than one line "
             "of an ordinary terminal"},
    {.name = "pids",
     OPT_TO_INTEGER(struct sample_values, pids),
     .arg = "N",
     .min = 1,
     .max = 4096,
     .help = "Most processes"},
    {.name = "timeout",
     OPT_TO_DURATION(struct sample_values, timeout),
     .arg = "TIME",
     .max = 3600 * 1000.0,
     .help = "Longest run"},
    {.letter = 'c',
     .name = "cpus",
     OPT_TO_NUMBER(struct sample_values, cpus),
     .arg = "N",
     .min = 0.1,
     .max = 64,
     .help = "Processors"},
    {.letter = 'm',
     .name = "memory",
     OPT_TO_SIZE(struct sample_values, memory),
     .arg = "SIZE",
     .min = 1 << 20,
     .max = 1ULL << 40,
     .help = "Most memory"},
    {.name = "network",
     OPT_TO_CHOICE(struct sample_values, network),
     .arg = "MODE",
     .choices = sample_networks,
     .help = "What it reaches"},
    {.letter = 'e',
     .name = "env",
     OPT_TO_STRINGS(struct sample_values, env),
     .arg = "K=V",
     .help = "Set a variable"},
    {.letter = 'v',
     .name = "volume",
     OPT_TO_STRINGS(struct sample_values, volumes),
     .arg = "HOST:BOX",
     .complete = OPT_COMPLETE_FOLDER,
     .help = "Show a folder inside"},
    {.name = "label", .kind = OPT_CALL, .call = sample_label, .arg = "K=V", .help = "Mark it"},
    {.name = "count", .kind = OPT_CALL, .call = sample_count, .help = "Count"},
    {.name = "secret",
     OPT_TO_STRING(struct sample_values, image),
     .arg = "X",
     .hidden = true,
     .help = "Hidden"},
    {0},
};

static const struct sample_values sample_defaults = {.pids = 256, .cpus = 1, .tty = true};

static const struct opt_command sample_run = {
    .name = "run",
    .path = "cay run",
    .synopsis = "[OPTIONS] [--] COMMAND [ARG...]",
    .summary = "Run a command in a fresh sandbox",
    .help = "First paragraph, which is long enough that it has to be wrapped when it is shown on a "
            "terminal.\n\nSecond one.",
    .examples = "cay run -- true\ncay run -m 1g -- make",
    .group = "Sandboxes",
    .options = sample_run_options,
    .stop_at_operand = true,
    .min_operands = 1,
    .max_operands = OPT_OPERANDS_ANY,
    .values_size = sizeof(struct sample_values),
    .defaults = &sample_defaults,
};

static const char *const sample_rm_aliases[] = {"remove", "delete", NULL};
static const struct opt_command sample_rm = {
    .name = "rm",
    .is_destructive = true,
    .aliases = sample_rm_aliases,
    .path = "cay rm",
    .synopsis = "SANDBOX...",
    .summary = "Remove sandboxes",
    .group = "Sandboxes",
    .min_operands = 1,
    .max_operands = OPT_OPERANDS_ANY,
    .candidates = "ls -q",
    .values_size = sizeof(struct sample_common),
};

static const struct opt_command sample_exec = {
    .name = "exec",
    .path = "cay exec",
    .synopsis = "SANDBOX COMMAND [ARG...]",
    .summary = "Run a command in a sandbox",
    .group = "Sandboxes",
    .stop_at_operand = true,
    .min_operands = 2,
    .max_operands = OPT_OPERANDS_ANY,
    .candidates = "ls -q",
    .values_size = sizeof(struct sample_common),
};

static const struct opt_command sample_ls = {
    .name = "ls",
    .path = "cay ls",
    .synopsis = "[OPTIONS]",
    .summary = "List sandboxes",
    .group = "Sandboxes",
    .values_size = sizeof(struct sample_common),
};

struct sample_pull {
    struct sample_common common;
    bool all;
};

static const struct opt sample_pull_options[] = {
    {.letter = 'a', .name = "all", OPT_TO_FLAG(struct sample_pull, all), .help = "All of them"},
    {0},
};

static const struct opt_command sample_image_pull = {
    .name = "pull",
    .path = "cay image pull",
    .synopsis = "IMAGE",
    .summary = "Fetch an image",
    .options = sample_pull_options,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct sample_pull),
};

static const struct opt_command sample_image_ls = {
    .name = "ls", .path = "cay image ls", .summary = "List images"};

static const struct opt_command *const sample_image_commands[] = {&sample_image_pull,
                                                                  &sample_image_ls, NULL};

static const struct opt_command sample_image = {
    .name = "image",
    .path = "cay image",
    .synopsis = "COMMAND",
    .summary = "Images: it's [all] here",
    .subcommands = sample_image_commands,
};

static const struct opt_command sample_debug = {
    .name = "debug", .path = "cay debug", .summary = "Not shown", .hidden = true};

static const struct opt_command *const sample_commands[] = {
    &sample_run, &sample_rm, &sample_exec, &sample_ls, &sample_image, &sample_debug,
};
