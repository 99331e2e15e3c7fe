/* `cay image …`: hands over to cay-image, which has the libraries for it. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/path.h"
#include "cli/cli.h"
#include "verb/image_verbs.h"

/* Beside this program, as in a build folder, or where it is installed. */
static const char *const places[] = {"cay-image", "../libexec/cay/cay-image"};

/* The folder of this program. */
static int own_folder(char *out, size_t size, struct cay_error *err) {
    ssize_t len = readlink("/proc/self/exe", out, size - 1);
    if (len <= 0) {
        (void)error_errno(err, "looking for cay-image: reading /proc/self/exe");
        return error_remedy(err, "mount /proc");
    }
    out[len] = '\0';
    *strrchr(out, '/') = '\0'; /* it is absolute */
    return 0;
}

static int execute(char **argv, struct cay_error *err) {
    char folder[PATH_MAX], path[PATH_MAX];
    int r = own_folder(folder, sizeof folder, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        if (path_join(path, sizeof path, folder, places[i]) < 0)
            continue;
        (void)execv(path, argv);
        if (errno == ENOENT)
            continue;
        (void)error_errno(err, "starting %s", path);
        return error_remedy(err, "install cay again");
    }
    error_set(err, CAY_UNSUPPORTED, "cay-image is neither in %s nor in ../libexec/cay", folder);
    return error_remedy(err, "install all of cay, not its first program alone");
}

/* argv are the words after "image"; the word before them becomes the program's name. */
static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)values, (void)argc;
    struct cay_error err;
    static char name[] = "cay-image";
    argv[-1] = name;
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
