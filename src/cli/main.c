/* `cay`: finds the verb, reads its options, runs it. */
#include <signal.h>
#include <string.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/habits.h"
#include "config/config.h"

const struct opt_command *const cli_commands[] = {
    &cli_run,        &cli_python,  &cli_run_code, &cli_image,   &cli_doctor,   &cli_config,
    &cli_completion, &cli_version, &cli_key,      &cli_org,     &cli_audit,    &cli_create,
    &cli_ls,         &cli_info,    &cli_exec,     &cli_shell,   &cli_cp,       &cli_logs,
    &cli_stats,      &cli_stop,    &cli_start,    &cli_archive, &cli_pause,    &cli_resume,
    &cli_rename,     &cli_update,  &cli_rm,       &cli_prune,   &cli_serve,    &cli_daemon,
    &cli_snapshot,   &cli_volume,  &cli_session,  &cli_context, &cli_terminal, NULL};

/* A verb that runs commands answers every failure of its own with 125. */
static int failure_code(const struct opt_command *cmd, const struct cay_error *err) {
    bool runs = cmd == &cli_run || cmd == &cli_python || cmd == &cli_run_code || cmd == &cli_exec ||
                cmd == &cli_shell;
    return runs ? 125 : cay_code_exit(err->code);
}

static const struct verb_program program = {
    .path = "cay",
    .about = "Sandboxes for untrusted code, made in milliseconds.",
    .commands = cli_commands,
    .habits = habits_verbs,
    .failure_code = failure_code,
};

/* Once, however often this process reads the configuration. */
static void report_refusal(enum config_source source, const char *note) {
    static bool told[CONFIG_SOURCES];
    if (!told[source])
        verb_note("%s", note);
    told[source] = true;
}

int main(int argc, char **argv) {
    if (fd_open_standard() < 0)
        return 125;
    /* A caller that ignores it would keep from us how our own children ended. */
    (void)signal(SIGCHLD, SIG_DFL);
    config_listen(report_refusal);
    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        return verb_run(&program, &cli_version, 0, argv + argc);
    return verb_main(&program, argc, argv);
}
