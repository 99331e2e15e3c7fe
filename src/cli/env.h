/* Environment variables as people give them: -e KEY=VALUE, -e KEY, --env-file FILE. */
#pragma once

#include "base/str.h"

struct cay_error;

/* Collects what files and options say, in this order, as KEY=VALUE; the last one counts. A KEY
 * without a value takes it from our own environment, or is left out if it has none there. */
int env_collect(const struct strv *files, const struct strv *given, struct strv *ret,
                struct cay_error *err);
