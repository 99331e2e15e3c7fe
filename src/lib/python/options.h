/* What a program asks for beside its code: packages, and a look at what it leaves. */
#pragma once

#include <cay.h>

struct buf;

/* The names of enum cay_python_type, in its order; NULL-terminated. */
extern const char *const python_types[];

bool python_has_options(const struct cay_python *python);

/* What the runner reads of it: lines of a word and a value; nothing if nothing is asked for.
 * Refuses what pip could take for something else. */
int python_put_options(const struct cay_python *python, struct buf *b, struct cay_error *err);

/* Judges the result by what was asked for: an error if packages could not be installed; problems in
 * ret->report if the rules of its type were broken. */
int python_judge_options(const struct cay_python *python, struct cay_python_result *ret,
                         struct cay_error *err);
