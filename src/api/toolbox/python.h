/* Python programs by warm interpreters. */
#pragma once

#include <cay.h>

#include "api/toolbox/command.h"

extern const struct route_table python_routes;

/* A piece of code for a sandbox that stays. */
struct python_code {
    const char *text;
    const struct strv *argv, *env;
    const struct strv *packages; /* as those of struct cay_python */
    enum cay_python_type type;
    int64_t timeout_ms; /* 0: none */
    bool svg;           /* figures as SVG too */
};

/* The member "code_type" of a request; CAY_PYTHON_OTHERS if there is none. */
int python_read_type(const struct json *root, enum cay_python_type *ret, struct cay_error *err);

/* Runs it in the call's sandbox, by a copy of its image's interpreter if that fits, with its output
 * and outcome, and what it reported (to be released in any case). One that breaks the rules of its
 * type has failed; packages that cannot be installed are an error. A header of the answer says
 * which interpreter it was, and why. An image without Python is language_missing in the output, and
 * 127. */
int python_run_code(struct call *c, const struct python_code *code, struct toolbox_output *out,
                    struct exec_outcome *ret, struct cay_python_result *ret_report,
                    struct cay_error *err);

enum { PYTHON_HOW_SIZE = 256 };
/* "warm" (why_cold NULL), or "cold; " and why. */
const char *python_how(const char *why_cold, char out[static PYTHON_HOW_SIZE]);
/* Says the same by a header of the answer. */
void python_say(struct call *c, const char *why_cold);
/* Why one that was to be woken in a sandbox that stays is not. */
const char *python_why_cold(bool is_changed);

/* The member "artifacts" of an answer: its figures, as clients of Daytona know them. result may be
 * NULL. */
void python_put_artifacts(struct jsonw *w, const struct cay_python_result *result);
