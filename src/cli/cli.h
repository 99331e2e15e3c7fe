/* The command line: one file per verb, each with a const descriptor. */
#pragma once

#include "verb/verb.h"

extern const struct opt_command *const cli_commands[];

extern const struct opt_command cli_run, cli_image, cli_doctor, cli_version, cli_completion;
