/* What tells the versions of Daytona's protocol apart. */
#pragma once

#include <stdbool.h>

struct call;
struct target;

/* "0.218.0" as 218, "1.2.3" as 1002; -1 if it is no version. */
int daytona_version(const char *text);
/* True if the client is an SDK older than this ("0.128" is 128); one that does not say so is not.
 */
bool daytona_is_before(const struct call *c, int version);

/* The toolbox lay at /api/toolbox/ID/toolbox/… once: as /toolbox/ID/… from now on. */
void daytona_rewrite(struct target *t);

/* Paths that clients ask for before they have a key. */
bool daytona_is_public(const struct target *t);
