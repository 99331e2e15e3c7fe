/* Waiting as a knob of a test says. */
#pragma once

#include <pthread.h>
#include <time.h>

#include "base/auto.h"

static void sleep_ms(int ms) {
    (void)nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

/* So many milliseconds; if they are negative, until the knob is not, whatever the machine does.
 * Counts who waits, and how many did so at most. */
static void knob_wait(pthread_mutex_t *lock, const int *knob, unsigned *waiting, unsigned *most) {
    (void)pthread_mutex_lock(lock);
    ++*waiting;
    *most = MAX(*most, *waiting);
    int ms = *knob;
    (void)pthread_mutex_unlock(lock);
    if (ms > 0)
        sleep_ms(ms);
    for (; ms < 0; sleep_ms(2)) {
        (void)pthread_mutex_lock(lock);
        ms = *knob;
        (void)pthread_mutex_unlock(lock);
    }
    (void)pthread_mutex_lock(lock);
    --*waiting;
    (void)pthread_mutex_unlock(lock);
}
