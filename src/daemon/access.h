/* Who may: pure checks of what a request on TCP carries. */
#pragma once

#include <stdbool.h>

#include "base/str.h"

/* True if the header ("Bearer KEY") carries the key. Takes the same time wherever they differ. */
bool access_key_matches(const char *authorization, const char *key);

/* True if a Host header names this machine's own loopback or an entry of more (NULL: none),
 * whatever the port: a page of another site that made its name point here has another one. */
bool access_host_is_allowed(const char *host, const struct strv *more);
