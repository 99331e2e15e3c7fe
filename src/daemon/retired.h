/* Fronts that were replaced and serve their last connections. They end by themselves, or with the
 * supervisor. In a list an entry is 0 if there is none. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

enum { RETIRED_MAX = 16 };

/* Adds one; the oldest is killed if there are too many. */
void retired_add(pid_t list[static RETIRED_MAX], pid_t pid);
/* This process has ended; false if it is none of them. */
bool retired_ended(pid_t list[static RETIRED_MAX], pid_t pid);
/* A key was removed. They do not know which, and end the connections of all keys. */
void retired_end_keys(const pid_t list[static RETIRED_MAX]);
