/* `cay image …`: hands over to cay-image, which has the libraries for it. */
#include <limits.h>
#include <unistd.h>

#include "base/error.h"
#include "base/program.h"
#include "cli/cli.h"
#include "cmd/image_verbs.h"
#include "config/config.h"

static int execute(char **argv, struct cay_error *err) {
    char path[PATH_MAX];
    int r = program_find(argv[0], path, sizeof path, err);
    if (r < 0)
        return r;
    (void)execv(path, argv);
    (void)error_errno(err, "starting %s", path);
    return error_remedy(err, "install cay again");
}

/* cay-image never reads the current folder's file, and so could not tell that it is ignored. */
static void report_ignored(char **argv) {
    for (char **word = argv; *word != NULL; word++)
        if (str_equal(*word, "--config") || str_starts(*word, "--config="))
            return;
    _cleanup_(config_freep) struct config *config = NULL;
    struct cay_error ignored; /* of a broken file, which does not count here */
    (void)config_load(NULL, (const char *const *)environ, &config, &ignored);
}

/* argv are the words after "image"; the word before them becomes the program's name. */
static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)values, (void)argc;
    struct cay_error err;
    static char name[] = "cay-image";
    argv[-1] = name;
    report_ignored(argv);
    (void)execute(argv - 1, &err);
    return verb_fail(&err);
}

const struct opt_command cli_image = {
    .name = "image",
    .path = "cay image",
    .synopsis = "COMMAND [ARG...]",
    .summary = "list, fetch, build, load and save images",
    .subcommands = verb_image_all,
    .run = run,
};
