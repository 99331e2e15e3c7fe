/* Host paths as people give them. */
#pragma once

#include "base/str.h"

struct cay_error;

/* Copies -v arguments; a host path that begins with '.' is taken from the current folder. */
int paths_of_volumes(const struct strv *given, struct strv *ret, struct cay_error *err);
