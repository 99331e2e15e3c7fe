/* The stream of a command's logs: marks say to which of its outputs the bytes behind them belong. A
 * mark may be cut by the end of a message. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { DEMUX_MARK = 3 };

struct demux {
    int stream; /* 0: standard output, 1: standard error */
    char held[DEMUX_MARK];
    size_t held_len; /* the beginning of what may be a mark */
};

typedef int demux_fn(void *arg, int stream, const char *data, size_t len);

/* Hands over pieces; a negative result of fn ends it and is returned. */
int demux_take(struct demux *d, const char *data, size_t len, demux_fn *fn, void *arg);
/* What was held back at the end was no mark. */
int demux_end(struct demux *d, demux_fn *fn, void *arg);
