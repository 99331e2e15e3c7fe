/* Sessions of a Daytona. */
#pragma once

#include "remote/op.h"

struct cay_error;

int session_make(struct op *o, const char *name, struct cay_error *err);
/* With everything that it started. */
int session_end(struct op *o, const char *name, struct cay_error *err);
