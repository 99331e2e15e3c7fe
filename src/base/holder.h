/* The process that holds the lock of a state folder: its daemon. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Appended to the lock by a daemon that was told to end. */
#define HOLDER_ENDING "ending\n"

struct holder {
    pid_t pid; /* 0: nobody */
    bool is_ending;
};

/* Who the text of an open lock names. A process that has ended is nobody. */
struct holder holder_read(int lock);

/* Who holds the lock at this path. The front can write to the lock, so a process that is no cayd is
 * nobody: no signal is sent to it. */
struct holder holder_find(const char *path);
