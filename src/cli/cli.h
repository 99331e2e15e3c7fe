/* The command line: one file per verb, each with a const descriptor. */
#pragma once

#include <cay/errors.h>

#include "base/opt.h"

enum output { OUTPUT_TABLE, OUTPUT_JSON };

/* Options that every verb knows; the first member of each verb's values. */
struct cli_common {
    const char *host;
    const char *config;
    const char *state_dir;
    int output; /* enum output */
    bool quiet;
    bool verbose;
};

extern const struct opt cli_common_options[];
extern const struct opt_command *const cli_commands[];

extern const struct opt_command cli_run, cli_doctor, cli_version, cli_completion;

/* Prints "cay: message; remedy" to standard error and returns the exit code of the error's class.
 */
int cli_fail(const struct cay_error *err);
/* The same, for verbs whose exit codes are the command's: always 125 unless given. */
int cli_fail_with(const struct cay_error *err, int code);

/* Writes all of b to standard output; 0 or an exit code. */
int cli_print(const struct buf *b);
