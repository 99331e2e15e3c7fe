#include "base/clock.h"

#include <errno.h>
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

struct clock_patience clock_patience_of(int64_t ms) {
    return (struct clock_patience){.left_ms = ms, .at_ms = clock_ms()};
}

bool clock_patience_ends(struct clock_patience *p) {
    int64_t now = clock_ms(), passed = now - p->at_ms;
    p->left_ms -= passed < CLOCK_LOOK_MS ? passed : CLOCK_LOOK_MS;
    p->at_ms = now;
    return p->left_ms <= 0;
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

/* ---- reading times ---- */

/* Exactly so many digits, with a value up to max. */
static bool take_digits(const char **p, int digits, int max, int *ret) {
    *ret = 0;
    for (; digits > 0; digits--, (*p)++) {
        if (**p < '0' || **p > '9')
            return false;
        *ret = *ret * 10 + (**p - '0');
    }
    return *ret <= max;
}

static bool take_char(const char **p, char c) {
    if (**p != c)
        return false;
    (*p)++;
    return true;
}

/* Behind the point; what is finer than a millisecond is left out. */
static int take_fraction(const char **p) {
    int ms = 0;
    for (int weight = 100; **p >= '0' && **p <= '9'; weight /= 10, (*p)++)
        ms += weight * (**p - '0');
    return ms;
}

static bool take_offset(const char **p, int *ret_minutes) {
    int hours, minutes;
    *ret_minutes = 0;
    if (take_char(p, 'Z') || take_char(p, 'z'))
        return true;
    int sign = **p == '-' ? -1 : 1;
    if (!take_char(p, '+') && !take_char(p, '-'))
        return false;
    if (!take_digits(p, 2, 23, &hours) || !take_char(p, ':') || !take_digits(p, 2, 59, &minutes))
        return false;
    *ret_minutes = sign * (60 * hours + minutes);
    return true;
}

int clock_from_iso8601(const char *text, int64_t *ret_wall_ms) {
    const char *p = text;
    int year, month, day, hour, minute, second, offset, ms = 0;
    if (!take_digits(&p, 4, 9999, &year) || !take_char(&p, '-') ||
        !take_digits(&p, 2, 12, &month) || !take_char(&p, '-') || !take_digits(&p, 2, 31, &day) ||
        !take_char(&p, 'T') || !take_digits(&p, 2, 23, &hour) || !take_char(&p, ':') ||
        !take_digits(&p, 2, 59, &minute) || !take_char(&p, ':') || !take_digits(&p, 2, 59, &second))
        return -EINVAL;
    if (take_char(&p, '.'))
        ms = take_fraction(&p);
    if (!take_offset(&p, &offset) || *p != '\0')
        return -EINVAL;
    struct tm tm = {.tm_year = year - 1900,
                    .tm_mon = month - 1,
                    .tm_mday = day,
                    .tm_hour = hour,
                    .tm_min = minute,
                    .tm_sec = second};
    int64_t seconds = timegm(&tm);
    if (tm.tm_mday != day || tm.tm_mon != month - 1 || year == 0) /* February 30 */
        return -EINVAL;
    *ret_wall_ms = (seconds - 60 * (int64_t)offset) * 1000 + ms;
    return 0;
}
