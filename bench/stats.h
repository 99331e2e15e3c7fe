/* Series of measured times. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct series {
    int64_t *us;
    size_t count;
    size_t room;
    bool sorted;
};

/* 0 or -ENOMEM. */
int series_add(struct series *s, int64_t us);

/* The value below which this share (0.5, 0.99) of the samples lies; 0 if there is none. */
int64_t series_at(struct series *s, double share);

void series_free(struct series *s);

/* "0.612 ms", "31.2 ms", "1.50 s": three digits that matter. */
const char *stats_time(int64_t us, char out[static 32]);
