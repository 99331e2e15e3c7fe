/* Sandboxes as the public API shows them, from the daemon's table. */
#pragma once

#include <cay.h>

#include "client/table.h"

/* All rows in one block, released by cay_info_free; never NULL on success, also without rows. */
int info_read(const struct table *t, struct cay_info **ret, struct cay_error *err);
