/* What the supervisor keeps of root's rights. */
#pragma once

#include "daemon/settings.h"

struct cay_error;

/* Gives up all capabilities but those that the daemon uses (capabilities.h), and loads the
 * launcher's filter; what the supervisor starts inherits both. Does nothing for an ordinary user,
 * whose launcher maps ids by programs that gain rights. */
int confine_supervisor(const struct settings *s, struct cay_error *err);
