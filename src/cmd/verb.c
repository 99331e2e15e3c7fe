#include "cmd/verb.h"

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
    {.name = "key",
     OPT_TO_STRING(struct verb_common, key),
     .arg = "KEY",
     .help = "the API key for it; CAY_API_KEY and --key-file show it to nobody"},
    {.name = "key-file",
     OPT_TO_STRING(struct verb_common, key_file),
     .arg = "FILE",
     .help = "a file with the API key for it",
     .complete = OPT_COMPLETE_FILE},
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
    if (r == -EBADF) {
        error_set(&err, CAY_INVALID_ARGUMENT, "standard output is closed");
        (void)error_remedy(&err, "send it somewhere, if only to /dev/null");
    } else {
        error_sys(&err, -r, "writing to standard output");
        (void)error_remedy(&err, "make room, or send it elsewhere");
    }
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
        (void)opt_unknown_command(program->path, program->commands, count, program->habits, name,
                                  err);
    return cmd;
}

static int failure_code(const struct verb_program *program, const struct opt_command *cmd,
                        const struct cay_error *err) {
    return program->failure_code != NULL ? program->failure_code(cmd, err)
                                         : cay_code_exit(err->code);
}

/* Others see the words of a command line; the key need not stay among them. */
static void hide_key(struct verb_common *common) {
    static char key[512];
    if (common->key == NULL || str_copy(key, sizeof key, common->key) < 0)
        return; /* one as long as this is none */
    char *shown = (char *)(uintptr_t)common->key;
    memset(shown, '*', strlen(shown));
    common->key = key;
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
        hide_key(values);
        code = (program->run != NULL ? program->run : cmd->run)(cmd, values, rest.argc, rest.argv);
    }
    opt_values_free(cmd, verb_common_options, values);
    return code;
}

/* How many words the option at the beginning of argv takes; 0 if it is none that all verbs know. */
static int option_words(char *const *argv) {
    const char *word = argv[0];
    for (const struct opt *o = verb_common_options; o->name != NULL; o++) {
        size_t len = strlen(o->name);
        bool is_name = str_starts(word, "--") && strncmp(word + 2, o->name, len) == 0;
        bool is_letter = o->letter != 0 && word[0] == '-' && word[1] == o->letter;
        if (is_name && word[2 + len] == '=')
            return opt_takes_value(o);
        if ((is_name && word[2 + len] == '\0') || (is_letter && word[2] == '\0'))
            return opt_takes_value(o) && argv[1] != NULL ? 2 : 1;
        if (is_letter)
            return 1;
    }
    return 0;
}

/* "cay --host URL ls" is "cay ls --host URL". */
static void move_options(int argc, char **argv) {
    int verb = 1, n;
    while (verb < argc && (n = option_words(argv + verb)) > 0)
        verb += n;
    if (verb == 1 || verb >= argc)
        return;
    char *name = argv[verb];
    memmove(argv + 2, argv + 1, (size_t)(verb - 1) * sizeof *argv);
    argv[1] = name;
}

int verb_main(const struct verb_program *program, int argc, char **argv) {
    struct cay_error err;
    move_options(argc, argv);
    const char *verb = argc > 1 ? argv[1] : "help";
    bool wants_help =
        strcmp(verb, "help") == 0 || strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0;
    if (wants_help && (argc <= 2 || argv[2][0] == '-'))
        return overview(program);
    if (argc > 1 && option_words(argv + 1) > 0) {
        error_set(&err, CAY_INVALID_ARGUMENT, "no command given");
        (void)error_remedy(&err, "see '%s --help'", program->path);
        return verb_fail(&err);
    }
    const struct opt_command *cmd = find(program, wants_help ? argv[2] : verb, &err);
    if (cmd == NULL)
        return verb_fail(&err);
    return wants_help ? help(cmd) : verb_run(program, cmd, argc - 2, argv + 2);
}
