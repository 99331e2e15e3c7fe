/* The lines of /etc/passwd and /etc/group, as they are found in images and sandboxes: whatever is
 * in there was written by somebody else. */
#pragma once

#include <stdbool.h>

enum { PASSWD_FIELDS = 7, GROUP_FIELDS = 4, PASSWD_ID_MAX = 65535 };

/* Cuts the next line out of *at into its first `count` fields at its colons, in place; false at the
 * end. Lines with fewer fields are skipped. */
bool passwd_next(char **at, char *fields[static PASSWD_FIELDS], int count);

/* A number up to PASSWD_ID_MAX, which is what can be an id inside; false if it is none. */
bool passwd_id(const char *text, unsigned *ret);
