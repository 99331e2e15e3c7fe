/* The process tree of an operation. The process that serves it is a subreaper, so whatever its
 * command starts, however often it forks or changes session, stays among its descendants. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Kills every descendant and reaps it; new ones made meanwhile too. Returns how many are left when
 * the deadline (monotonic ms) passes: 0 unless they fork faster than they die. */
unsigned tree_kill(int64_t deadline_ms);

/* Now, as tree_signal counts. */
uint64_t tree_now(void);

/* Sends a signal to every descendant that was started at `since` or later, but not to `except`. */
void tree_signal(int number, uint64_t since, pid_t except);
