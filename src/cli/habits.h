/* What users of other programs type, and what to type here. */
#pragma once

#include "cmd/opt.h"

extern const struct opt_habit habits_verbs[];   /* words in the place of a verb */
extern const struct opt_habit habits_options[]; /* options of run, create and exec */

/* The command line that an unknown command in `cay run WORD ...` was probably meant to be: true if
 * the word looks like the name of an image. */
bool habits_is_image(const char *word);
