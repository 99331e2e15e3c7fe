/* Frames from cay-init that pass by on their way to a client: how the command in them ended. They
 * are hostile, and only looked at. */
#pragma once

#include "wire/wire.h"

struct exec_outcome;

enum {
    WIRE_WATCH_MAX = 1024
}; /* payload of the last frame of a command; a larger one is ignored */

struct wire_watch {
    unsigned char header[WIRE_HEADER_SIZE];
    size_t header_len;
    size_t left;              /* of the payload that passes by */
    char end[WIRE_WATCH_MAX]; /* payload of WIRE_DONE */
    size_t end_len;
    bool is_end;  /* what passes by is that payload */
    bool is_over; /* nothing more is looked at */
};

/* Takes the next bytes, cut anywhere. */
void wire_watch_see(struct wire_watch *w, const char *data, size_t len);
/* False if no command has ended, or if what came makes no sense. */
bool wire_watch_end(const struct wire_watch *w, struct exec_outcome *ret);
