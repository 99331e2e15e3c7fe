/* Bytes both ways between two stream sockets. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Somebody who looks at the bytes that come from b; NULL: nobody does. */
struct relay_watch {
    void (*see)(void *user, const char *data, size_t len);
    void *user;
};

/* Copies until both directions have ended, or one side is gone. early is what was read from a
 * already. An end of one direction is passed on by shutdown(2); the other goes on. Both
 * descriptors become non-blocking and stay open. *ret_first_us is when b's first byte came, by
 * clock_us(); 0: none did. 0 or -errno. */
int relay_run(int a, int b, const char *early, size_t early_len, const struct relay_watch *watch,
              int64_t *ret_first_us);
/* The same without early bytes; ends with -ETIMEDOUT when no byte came or went for idle_ms. */
int relay_run_idle(int a, int b, int64_t idle_ms, int64_t *ret_first_us);
