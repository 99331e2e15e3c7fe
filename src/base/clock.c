#include "base/clock.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

int64_t clock_us(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t clock_ms(void) {
    return clock_us() / 1000;
}

int64_t clock_deadline(int64_t timeout_ms) {
    int64_t deadline;
    if (timeout_ms <= 0)
        return 0;
    return __builtin_add_overflow(clock_ms(), timeout_ms, &deadline) ? INT64_MAX : deadline;
}

bool clock_expired(int64_t deadline_ms) {
    return deadline_ms != 0 && clock_ms() >= deadline_ms;
}

int clock_poll_timeout(int64_t deadline_ms) {
    if (deadline_ms == 0)
        return -1;
    int64_t left = deadline_ms - clock_ms();
    if (left <= 0)
        return 0;
    return left > INT_MAX ? INT_MAX : (int)left;
}

int64_t clock_earlier(int64_t a, int64_t b) {
    if (a == 0 || b == 0)
        return a != 0 ? a : b;
    return a < b ? a : b;
}

int64_t clock_wall_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

const char *clock_iso8601(int64_t wall_ms, char out[static 32]) {
    /* file times come from sandboxes: keep to the years 0001 to 9999 that the notation has */
    const int64_t first = INT64_C(-62135596800000), last = INT64_C(253402300799999);
    wall_ms = wall_ms < first ? first : wall_ms > last ? last : wall_ms;
    unsigned ms = (unsigned)((wall_ms % 1000 + 1000) % 1000);
    time_t seconds = (wall_ms - ms) / 1000;
    struct tm tm = {0};
    (void)gmtime_r(&seconds, &tm);
    char rest[16];
    (void)strftime(rest, sizeof rest, "-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(out, 32, "%04u%s.%03uZ", (unsigned)(tm.tm_year + 1900) % 10000, rest, ms % 1000);
    return out;
}
