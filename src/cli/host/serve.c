/* `cay serve`: hands over to cayd, which has the libraries for it. */
#include <limits.h>
#include <unistd.h>

#include "base/error.h"
#include "base/program.h"
#include "cli/cli.h"

struct serve_options {
    struct verb_common common;
    const char *listen;
    const char *socket;
    const char *log_level;
    const char *log_format;
    bool insecure_listen;
    bool replace;
};

static const struct opt options[] = {
    {.name = "listen",
     OPT_TO_STRING(struct serve_options, listen),
     .arg = "ADDRESS:PORT",
     .help = "serve TCP too, for who has the key in admin.key of the state folder"},
    {.name = "socket",
     OPT_TO_STRING(struct serve_options, socket),
     .arg = "PATH",
     .help = "unix socket; default: daemon/cay.sock in the state folder",
     .complete = OPT_COMPLETE_FILE},
    {.name = "log-level",
     OPT_TO_STRING(struct serve_options, log_level),
     .arg = "LEVEL",
     .help = "error, warn, info or debug; default: log_level in [server]"},
    {.name = "log-format",
     OPT_TO_STRING(struct serve_options, log_format),
     .arg = "FORMAT",
     .help = "text or json; default: log_format in [server]"},
    {.name = "insecure-listen",
     OPT_TO_FLAG(struct serve_options, insecure_listen),
     .help = "let --listen name an address that others reach, without TLS"},
    {.name = "replace",
     OPT_TO_FLAG(struct serve_options, replace),
     .help = "make a daemon that runs restart as the installed version, with its own options and "
             "without refusing anybody, and return when it serves; without one, run"},
    {0},
};

static void add(const char **argv, size_t *n, const char *name, const char *value) {
    if (value == NULL)
        return;
    argv[(*n)++] = name;
    argv[(*n)++] = value;
}

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc, (void)argv;
    const struct serve_options *o = values;
    struct cay_error err;
    char path[PATH_MAX];
    const char *words[20] = {"cayd"};
    size_t n = 1;
    add(words, &n, "--listen", o->listen);
    add(words, &n, "--socket", o->socket);
    add(words, &n, "--log-level", o->log_level);
    add(words, &n, "--log-format", o->log_format);
    add(words, &n, "--state-dir", o->common.state_dir);
    add(words, &n, "--config", o->common.config);
    if (o->insecure_listen)
        words[n++] = "--insecure-listen";
    if (o->replace)
        words[n++] = "--replace";
    if (o->common.verbose)
        words[n++] = "--verbose";
    if (program_find("cayd", path, sizeof path, &err) < 0)
        return verb_fail(&err);
    (void)execv(path, (char *const *)(uintptr_t)words);
    (void)error_errno(&err, "starting %s", path);
    (void)error_remedy(&err, "install cay again");
    return verb_fail(&err);
}

const struct opt_command cli_serve = {
    .name = "serve",
    .path = "cay serve",
    .synopsis = "[OPTIONS]",
    .summary = "run the daemon in the foreground",
    .help = "Verbs on sandboxes that stay start a daemon by themselves; this is for service "
            "managers, for TCP, and for seeing what it logs. SIGTERM and Ctrl-C end it; sandboxes "
            "stay. After an upgrade, --replace takes the new version into use.",
    .group = CLI_SANDBOXES,
    .examples = "cay serve\n"
                "cay serve --listen 127.0.0.1:3986\n"
                "cay serve --replace",
    .options = options,
    .values_size = sizeof(struct serve_options),
    .run = run,
};
