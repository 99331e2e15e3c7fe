/* Time: monotonic for durations and deadlines, wall clock only for people. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Monotonic time. */
int64_t clock_ms(void);
int64_t clock_us(void);

/* A point in monotonic milliseconds; 0 means never. */
int64_t clock_deadline(int64_t timeout_ms);
bool clock_expired(int64_t deadline_ms);

/* What poll(2) should wait for: -1 for never, else 0..INT_MAX, rounded up. */
int clock_poll_timeout(int64_t deadline_ms);

/* The earlier of two deadlines. */
int64_t clock_earlier(int64_t a, int64_t b);

/* For who looks again and again until something is so, which others bring about. Of the time
 * between two looks at most CLOCK_LOOK_MS count: a machine that stood still let nobody do it. */
enum { CLOCK_LOOK_MS = 100 };
struct clock_patience {
    int64_t left_ms, at_ms;
};
struct clock_patience clock_patience_of(int64_t ms);
/* Counts what has passed since the look before; true if nothing is left. */
bool clock_patience_ends(struct clock_patience *p);

/* "2026-11-15T05:07:53.123Z" of the wall clock. */
const char *clock_iso8601(int64_t wall_ms, char out[static 32]);
int64_t clock_wall_ms(void);
/* And back, with any fraction and offset ("Z", "+02:00"): 0, or -EINVAL if it is no such time. */
int clock_from_iso8601(const char *text, int64_t *ret_wall_ms);
