/* Sandboxes as the public API shows them, from the daemon's answer. */
#pragma once

#include <cay.h>

#include "client/reply.h"

/* All rows in one block, released by cay_info_free; never NULL on success, also without rows. */
int info_read(const struct reply *t, struct cay_info **ret, struct cay_error *err);
