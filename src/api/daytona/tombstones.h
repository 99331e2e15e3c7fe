/* Sandboxes that were removed a moment ago. SDKs before 0.144 look at one right after they have
 * removed it, and take "not found" for a failure. */
#pragma once

#include <stdbool.h>

#include "manager/record/record.h"

struct key;

/* Remembers it for a minute; without memory not at all. */
void daytona_gone_add(const struct sandbox_record *r);
/* One that the caller saw, by id or name; *ret is a copy, to be released. */
bool daytona_gone_find(const struct key *caller, const char *who, struct sandbox_record *ret);
