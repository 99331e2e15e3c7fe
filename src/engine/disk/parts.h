/* The folders on a sandbox's disk. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* All 0 or -errno. What is there already stays. */
int disk_parts_make(int at, uid_t owner);
int disk_parts_remove(int at);
/* True if there is one of them. */
bool disk_parts_exist(int at);
