/* The request for a new sandbox, from what the public API or a verb was given. */
#pragma once

#include <cay.h>

#include "base/buf.h"

enum { CREATE_BODY_MAX = 16 * 1024 * 1024 };

/* The body of POST /api/cay/sandbox: only what was said, so that the rest is as configured. */
int create_body(const struct cay_create *create, struct buf *body, struct cay_error *err);
