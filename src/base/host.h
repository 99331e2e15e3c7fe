/* Names of hosts. */
#pragma once

#include <stdbool.h>

/* True if a host, as it stands in a URL or a name ("127.0.0.1:5000", "[::1]", "localhost"), can
 * only be this machine. */
bool host_is_loopback(const char *host);
