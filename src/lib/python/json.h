/* Results as JSON, for programs: of `cay python -o json`, and of the daemon. */
#pragma once

#include <cay.h>

#include "base/json/jsonw.h"

/* The members of the JSON result that every such verb has, up to "duration_ms". */
void command_put_result(struct jsonw *w, const struct cay_result *result, int exit_code);
/* "error" with code, message and remedy. */
void command_put_error(struct jsonw *w, const struct cay_error *err);
void command_put_ms(struct jsonw *w, const char *key, int64_t us);

struct python_reported {
    const struct cay_program_result *result;
    const char *type;     /* "others", "process" or "report" */
    const char *language; /* NULL: nobody asked */
    const char *why_cold;
    const struct cay_error *err;     /* of cay itself; NULL: none */
    const char *out_file, *err_file; /* where the whole output is; NULL: it is in the result */
};

enum { PYTHON_REMEDY_SIZE = 320 };
/* What helps against the exception, if that is known. */
bool python_remedy(const struct cay_python_result *result, char out[static PYTHON_REMEDY_SIZE]);

/* "exception": null, or type, message, traceback, frames and remedy. */
void python_put_exception(struct jsonw *w, const struct cay_python_result *result);
/* "code_type", "problems", and "report": null, or path, text, sections and figures. */
void python_put_report(struct jsonw *w, const struct cay_python_report *report, const char *type);
/* "files": what it made or changed. */
void python_put_files(struct jsonw *w, const struct cay_python_result *result);
/* All of it, as one object. */
void python_put_json(struct jsonw *w, const struct python_reported *t);
