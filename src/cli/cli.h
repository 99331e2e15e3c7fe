/* The command line: one file per verb, each with a const descriptor. */
#pragma once

#include "cmd/verb.h"

extern const struct opt_command *const cli_commands[];

extern const struct opt_command cli_run, cli_python, cli_run_code, cli_image, cli_doctor,
    cli_config, cli_version, cli_completion;

/* Verbs on sandboxes that stay. */
extern const struct opt_command cli_create, cli_ls, cli_info, cli_exec, cli_shell, cli_cp,
    cli_stats, cli_logs, cli_stop, cli_start, cli_archive, cli_pause, cli_resume, cli_rename,
    cli_rm, cli_prune, cli_serve, cli_daemon, cli_snapshot, cli_session, cli_context, cli_terminal;

/* Who may do what to the daemon, and who did. */
extern const struct opt_command cli_key, cli_org, cli_audit;
#define CLI_ACCESS "Access"

extern const struct opt_command cli_update, cli_volume;

/* Their heading in the overview, and how completion finds names. */
#define CLI_SANDBOXES  "Sandboxes that stay"
#define CLI_CANDIDATES "ls --names"
