#include "verb/verb.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"

enum { HELP_MAX = 64 * 1024 };

static const char *const output_names[] = {"table", "json", NULL};

const struct opt verb_common_options[] = {
    {.name = "host",
     OPT_TO_STRING(struct verb_common, host),
     .arg = "URL",
     .help = "the daemon to talk to, for verbs on sandboxes that stay"},
    {.name = "config",
     OPT_TO_STRING(struct verb_common, config),
     .arg = "FILE",
     .help = "configuration file",
     .complete = OPT_COMPLETE_FILE},
    {.name = "state-dir",
     OPT_TO_STRING(struct verb_common, state_dir),
     .arg = "DIR",
     .help = "where cay keeps its state",
     .complete = OPT_COMPLETE_FOLDER},
    {.letter = 'o',
     .name = "output",
     OPT_TO_CHOICE(struct verb_common, output),
     .arg = "FORMAT",
     .choices = output_names,
     .help = "table or json"},
    {.letter = 'q',
     .name = "quiet",
     OPT_TO_FLAG(struct verb_common, quiet),
     .help = "print results only"},
    {.letter = 'v',
     .name = "verbose",
     OPT_TO_FLAG(struct verb_common, verbose),
     .help = "log what is done"},
    {0},
};

/* ---- telling ---- */

int verb_fail_with(const struct cay_error *err, int code) {
    struct cay_error shown = *err;
    error_sanitize(&shown); /* whatever it quotes must not drive the terminal */
    const char *separator = shown.remedy[0] != '\0' ? "; " : "";
    (void)fprintf(stderr, "cay: %s%s%s\n", shown.message, separator, shown.remedy);
    return code;
}

int verb_fail(const struct cay_error *err) {
    return verb_fail_with(err, cay_code_exit(err->code));
}

void verb_note(const char *fmt, ...) {
    char text[1024], shown[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)fprintf(stderr, "cay: %s\n", str_escape(shown, sizeof shown, text));
}

int verb_print(const struct buf *b) {
    struct cay_error err;
    if (b->failed) {
        error_set(&err, CAY_RESOURCE_EXHAUSTED, "the answer is too long");
        return verb_fail(&err);
    }
    int r = fd_write_all(STDOUT_FILENO, buf_text(b), b->len);
    if (r == 0 || r == -EPIPE)
        return 0; /* whoever read it had enough */
    error_sys(&err, -r, "writing to standard output");
    return verb_fail(&err);
}

/* ---- help ---- */

static unsigned columns(void) {
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static int overview(const struct verb_program *program) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(HELP_MAX);
    opt_print_commands(&b, program->path, program->about, program->commands,
                       opt_count_commands(program->commands), verb_common_options, columns());
    return verb_print(&b);
}

static int help(const struct opt_command *cmd) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(HELP_MAX);
    opt_print_help(&b, cmd, verb_common_options, columns());
    return verb_print(&b);
}

/* ---- running ---- */

static const struct opt_command *find(const struct verb_program *program, const char *name,
                                      struct cay_error *err) {
    size_t count = opt_count_commands(program->commands);
    const struct opt_command *cmd = opt_find_command(program->commands, count, name);
    if (cmd == NULL)
        (void)opt_unknown_command(program->path, program->commands, count, name, err);
    return cmd;
}

static int failure_code(const struct verb_program *program, const struct opt_command *cmd,
                        const struct cay_error *err) {
    return program->failure_code != NULL ? program->failure_code(cmd, err)
                                         : cay_code_exit(err->code);
}

int verb_run(const struct verb_program *program, const struct opt_command *cmd, int argc,
             char **argv) {
    struct cay_error err;
    struct opt_rest rest;
    if (cmd->subcommands != NULL)
        return cmd->run(cmd, NULL, argc, argv);
    void *values = opt_values_new(cmd);
    if (values == NULL) {
        error_set(&err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return verb_fail(&err);
    }
    int r = opt_parse(cmd, verb_common_options, argc, argv, values, &rest, &err);
    int code;
    if (r < 0) {
        code = verb_fail_with(&err, failure_code(program, cmd, &err));
    } else if (r > 0) {
        code = help(cmd);
    } else {
        if (((const struct verb_common *)values)->verbose)
            log_set_level(LOG_LEVEL_DEBUG);
        code = (program->run != NULL ? program->run : cmd->run)(cmd, values, rest.argc, rest.argv);
    }
    opt_values_free(cmd, verb_common_options, values);
    return code;
}

int verb_main(const struct verb_program *program, int argc, char **argv) {
    struct cay_error err;
    const char *verb = argc > 1 ? argv[1] : "help";
    bool wants_help =
        strcmp(verb, "help") == 0 || strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0;
    if (wants_help && argc <= 2)
        return overview(program);
    const struct opt_command *cmd = find(program, wants_help ? argv[2] : verb, &err);
    if (cmd == NULL)
        return verb_fail(&err);
    return wants_help ? help(cmd) : verb_run(program, cmd, argc - 2, argv + 2);
}
