/* Where the bodies of requests begin and end, read byte by byte as they come and more strictly than
 * the HTTP library does: it takes a bare LF for the end of a chunk's line, which a proxy before us
 * may read as part of an extension. What two servers could read differently is refused.
 *
 * Heads are only measured here: whether one is clear is decided by head.h, before its body counts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRAMING_LINE_MAX = 1024, FRAMING_TRAILER_MAX = 8192, FRAMING_FIELD_SIZE = 128 };

enum framing_state {
    FRAMING_HEAD, /* also between requests */
    FRAMING_BODY,
    FRAMING_SIZE, /* of a chunk, from its first digit on */
    FRAMING_EXTENSION,
    FRAMING_SIZE_LF,
    FRAMING_DATA,
    FRAMING_DATA_CR,
    FRAMING_DATA_LF,
    FRAMING_TRAILER,    /* at the beginning of a line behind the last chunk */
    FRAMING_FIELD,      /* within such a line */
    FRAMING_FIELD_LF,   /* at its end */
    FRAMING_TRAILER_LF, /* at the end of all */
};

/* One connection. Zero is the beginning. */
struct framing {
    enum framing_state state;
    bool is_off; /* it has become something else than HTTP */
    bool is_bad; /* it must not go on */
    bool is_chunked, has_line;
    uint64_t left; /* of a body or a chunk; Content-Length while the head comes */
    size_t used;   /* bytes of this line of a chunk, or of the trailer */
    size_t digits;
    size_t line_len;               /* of a head's line, */
    char line[FRAMING_FIELD_SIZE]; /* its beginning */
};

/* How many of these bytes may be read. Less than len: the next byte is wrong, and is_bad is set. */
size_t framing_take(struct framing *f, const char *data, size_t len);
