/* What a request asks for of some content (RFC 9110): one range of its bytes, or only if it is
 * another than the one that the client has. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct range {
    uint64_t first, length;
};

enum range_wish {
    RANGE_WHOLE,   /* none, several, or nothing that is a range: these may be ignored */
    RANGE_PART,    /* in *ret, with at least one byte */
    RANGE_OUTSIDE, /* nothing of it is there */
};

/* The header Range (or NULL), of content of this size. */
enum range_wish range_read(const char *header, uint64_t size, struct range *ret);

/* True if the header If-None-Match (or NULL) names this tag, which is in quotes, or any ("*"). */
bool range_has_tag(const char *header, const char *tag);
