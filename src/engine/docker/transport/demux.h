/* The streams of an exec as Docker mixes them on one connection: before each piece eight bytes,
 * which of them it is and how long (the highest byte first). Nothing here does I/O. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { DEMUX_HEADER = 8 };
enum demux_stream { DEMUX_STDIN = 0, DEMUX_STDOUT = 1, DEMUX_STDERR = 2, DEMUX_FAILURE = 3 };

struct demux {
    unsigned char head[DEMUX_HEADER];
    size_t head_len;
    uint32_t left; /* of the piece that is being read */
    enum demux_stream stream;
};

/* Takes from the front of data: *ret_used bytes are done with, of which the last *ret_len are
 * content of *ret_stream. 0, or -EPROTO for what is no such stream. */
int demux_take(struct demux *d, const unsigned char *data, size_t len, size_t *ret_used,
               enum demux_stream *ret_stream, size_t *ret_len);
