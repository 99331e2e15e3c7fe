/* The result of `cay python` and `cay run-code`, as JSON or in files. */
#pragma once

#include <cay.h>

#include "lib/python/json.h"

/* Prints it as JSON and returns the exit code. */
int python_report_json(const struct python_reported *t);

/* Saves the figures as figure-1.png … in a folder, which is made if missing. */
int python_save_figures(const struct cay_python_result *result, const char *folder,
                        struct cay_error *err);
