#include "stats.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/auto.h"

int series_add(struct series *s, int64_t us) {
    if (s->count == s->room) {
        size_t room = MAX(s->room * 2, (size_t)256);
        int64_t *more = reallocarray(s->us, room, sizeof *more);
        if (more == NULL)
            return -ENOMEM;
        s->us = more;
        s->room = room;
    }
    s->us[s->count++] = us;
    s->sorted = false;
    return 0;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t series_at(struct series *s, double share) {
    if (s->count == 0)
        return 0;
    if (!s->sorted)
        qsort(s->us, s->count, sizeof *s->us, compare);
    s->sorted = true;
    size_t rank = (size_t)ceil(share * (double)s->count); /* nearest rank, from 1 */
    return s->us[MIN(MAX(rank, (size_t)1), s->count) - 1];
}

void series_free(struct series *s) {
    free(s->us);
    *s = (struct series){0};
}

const char *stats_time(int64_t us, char out[static 32]) {
    enum { SIZE = 32 };
    double ms = (double)us / 1000;
    if (ms < 10)
        (void)snprintf(out, SIZE, "%.3f ms", ms);
    else if (ms < 1000)
        (void)snprintf(out, SIZE, "%.1f ms", ms);
    else
        (void)snprintf(out, SIZE, "%.2f s", ms / 1000);
    return out;
}
