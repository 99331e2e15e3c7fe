/* What programs with verbs share: the options that every verb knows, how a verb is found and run,
 * and how results and failures are told. */
#pragma once

#include <cay/errors.h>

#include "cmd/opt.h"

enum output { OUTPUT_TABLE, OUTPUT_JSON };

/* Options that every verb knows; the first member of each verb's values. */
struct verb_common {
    const char *host;
    const char *key, *key_file;
    const char *config;
    const char *state_dir;
    const char *owner;   /* of images: the id of a key; NULL: whoever sees all. For cay-image */
    const char *made_by; /* the key of that owner, an organisation, that pays; NULL: the owner */
    uint64_t room;       /* bytes that it may still get of images; 0: any number */
    int output;          /* enum output */
    bool quiet;
    bool verbose;
};

extern const struct opt verb_common_options[];

/* A program, or a group of verbs with a program of its own. */
struct verb_program {
    const char *path; /* what people type to get here: "cay", "cay image" */
    const char *about;
    const struct opt_command *const *commands; /* NULL-terminated */
    const struct opt_habit *habits;            /* verbs of other programs; NULL if none */
    /* Runs a verb; NULL: its own run(). */
    int (*run)(const struct opt_command *cmd, void *values, int argc, char **argv);
    /* The exit code where the options are wrong; NULL: that of the error's class. */
    int (*failure_code)(const struct opt_command *cmd, const struct cay_error *err);
};

/* Finds the verb argv[1], or answers "help", and returns the exit code. A group gets its words as
 * they are, with NULL for values. */
int verb_main(const struct verb_program *program, int argc, char **argv);

/* Reads the options in argv (the words after the verb's name) and runs the verb. */
int verb_run(const struct verb_program *program, const struct opt_command *cmd, int argc,
             char **argv);

/* Prints "cay: message; remedy" to standard error and returns the exit code of the error's class.
 */
int verb_fail(const struct cay_error *err);
/* The same, for verbs whose exit codes are the command's: always this one. */
int verb_fail_with(const struct cay_error *err, int code);

/* A line "cay: …" for people on standard error that is no failure; control characters in it are
 * made harmless. */
void verb_note(const char *fmt, ...) _printf_(1, 2);

/* Writes all of b to standard output; 0 or an exit code. */
int verb_print(const struct buf *b);
