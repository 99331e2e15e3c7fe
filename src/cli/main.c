/* `cay`: finds the verb, reads its options, runs it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "cli/cli.h"

static const char *const output_names[] = {"table", "json", NULL};

const struct opt cli_common_options[] = {
    {.name = "host",
     OPT_TO_STRING(struct cli_common, host),
     .arg = "URL",
     .help = "the daemon to talk to, for verbs on sandboxes that stay"},
    {.name = "config",
     OPT_TO_STRING(struct cli_common, config),
     .arg = "FILE",
     .help = "configuration file",
     .complete = OPT_COMPLETE_FILE},
    {.name = "state-dir",
     OPT_TO_STRING(struct cli_common, state_dir),
     .arg = "DIR",
     .help = "where cay keeps its state",
     .complete = OPT_COMPLETE_FOLDER},
    {.letter = 'o',
     .name = "output",
     OPT_TO_CHOICE(struct cli_common, output),
     .arg = "FORMAT",
     .choices = output_names,
     .help = "table or json"},
    {.letter = 'q',
     .name = "quiet",
     OPT_TO_FLAG(struct cli_common, quiet),
     .help = "print results only"},
    {.letter = 'v',
     .name = "verbose",
     OPT_TO_FLAG(struct cli_common, verbose),
     .help = "log what is done"},
    {0},
};

const struct opt_command *const cli_commands[] = {&cli_run, &cli_doctor, &cli_completion,
                                                  &cli_version, NULL};

int cli_fail_with(const struct cay_error *err, int code) {
    struct cay_error shown = *err;
    error_sanitize(&shown); /* whatever it quotes must not drive the terminal */
    const char *separator = shown.remedy[0] != '\0' ? "; " : "";
    (void)fprintf(stderr, "cay: %s%s%s\n", shown.message, separator, shown.remedy);
    return code;
}

int cli_fail(const struct cay_error *err) {
    return cli_fail_with(err, cay_code_exit(err->code));
}

int cli_print(const struct buf *b) {
    struct cay_error err;
    if (b->failed) {
        error_set(&err, CAY_RESOURCE_EXHAUSTED, "the answer is too long");
        return cli_fail(&err);
    }
    int r = fd_write_all(STDOUT_FILENO, buf_text(b), b->len);
    if (r == 0 || r == -EPIPE)
        return 0; /* whoever read it had enough */
    error_sys(&err, -r, "writing to standard output");
    return cli_fail(&err);
}

static unsigned columns(void) {
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static int overview(void) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(65536);
    opt_print_commands(&b, "cay", "Sandboxes for untrusted code, made in milliseconds.",
                       cli_commands, opt_count_commands(cli_commands), cli_common_options,
                       columns());
    return cli_print(&b);
}

static int help(const struct opt_command *cmd) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(65536);
    opt_print_help(&b, cmd, cli_common_options, columns());
    return cli_print(&b);
}

static const struct opt_command *find(const char *name, struct cay_error *err) {
    size_t count = opt_count_commands(cli_commands);
    const struct opt_command *cmd = opt_find_command(cli_commands, count, name);
    if (cmd == NULL)
        (void)opt_unknown_command("cay", cli_commands, count, name, err);
    return cmd;
}

/* A verb that runs commands answers every failure of its own with 125. */
static int failure_code(const struct opt_command *cmd, const struct cay_error *err) {
    return cmd == &cli_run ? 125 : cay_code_exit(err->code);
}

static int run(const struct opt_command *cmd, int argc, char **argv) {
    struct cay_error err;
    struct opt_rest rest;
    void *values = opt_values_new(cmd);
    if (values == NULL) {
        error_set(&err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return cli_fail(&err);
    }
    int r = opt_parse(cmd, cli_common_options, argc, argv, values, &rest, &err);
    int code;
    if (r < 0) {
        code = cli_fail_with(&err, failure_code(cmd, &err));
    } else if (r > 0) {
        code = help(cmd);
    } else {
        if (((const struct cli_common *)values)->verbose)
            log_set_level(LOG_LEVEL_DEBUG);
        code = cmd->run(cmd, values, rest.argc, rest.argv);
    }
    opt_values_free(cmd, cli_common_options, values);
    return code;
}

int main(int argc, char **argv) {
    struct cay_error err;
    if (fd_open_standard() < 0)
        return 125;
    /* A caller that ignores it would keep from us how our own children ended. */
    (void)signal(SIGCHLD, SIG_DFL);
    const char *verb = argc > 1 ? argv[1] : "help";
    if (strcmp(verb, "--version") == 0)
        return run(&cli_version, 0, argv + argc);
    bool wants_help =
        strcmp(verb, "help") == 0 || strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0;
    if (wants_help && argc <= 2)
        return overview();
    const struct opt_command *cmd = find(wants_help ? argv[2] : verb, &err);
    if (cmd == NULL)
        return cli_fail(&err);
    return wants_help ? help(cmd) : run(cmd, argc - 2, argv + 2);
}
