/* The result of `cay python` and `cay run-code`, as JSON or in files. */
#pragma once

#include <cay.h>

struct python_told {
    const struct cay_program_result *result;
    const char *type;     /* "others", "process" or "report" */
    const char *language; /* NULL: nobody asked */
    const char *why_cold;
    const struct cay_error *err;     /* of cay itself; NULL: none */
    const char *out_file, *err_file; /* where the whole output is; NULL: it is in the result */
};

/* Prints it as JSON and returns the exit code. */
int python_tell_json(const struct python_told *t);

/* Saves the figures as figure-1.png … in a folder, which is made if missing. */
int python_save_figures(const struct cay_python_result *result, const char *folder,
                        struct cay_error *err);
