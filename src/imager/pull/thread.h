/* Threads that are no business of the program's signals. */
#pragma once

#include <pthread.h>

/* Starts a thread that takes no signal: those of the process go to the main thread, and writing to
 * a pipe that nobody reads is an error there, not an end. To be joined. 0 or -errno. */
int thread_start(pthread_t *ret, void *(*run)(void *), void *arg);
