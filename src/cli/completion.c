#include "base/error.h"
#include "cli/cli.h"

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)values, (void)argc;
    struct cay_error err;
    _cleanup_(buf_free) struct buf b = BUF_INIT(1024 * 1024);
    if (opt_completion(argv[0], "cay", cli_commands, opt_count_commands(cli_commands),
                       verb_common_options, &b, &err) < 0)
        return verb_fail(&err);
    return verb_print(&b);
}

const struct opt_command cli_completion = {
    .name = "completion",
    .path = "cay completion",
    .synopsis = "bash|zsh|fish",
    .summary = "print a shell completion script",
    .examples = "source <(cay completion bash)\n"
                "cay completion fish > ~/.config/fish/completions/cay.fish\n",
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct verb_common),
    .run = run,
};
