/* What a terminal has printed, the last of it: a ring in memory. Whoever reads it keeps a position
 * of his own in the stream, so a slow reader costs nothing and holds up nobody. What is kept never
 * begins in the middle of a character or an escape sequence. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/vt.h"

struct scrollback {
    char *data;
    size_t size;
    uint64_t begin, end; /* positions in the stream of what is kept */
    struct vt at_begin;  /* the terminal as it is there */
    struct vt at_end;
};

/* A chunk is what one read of a terminal brings. */
enum { SCROLLBACK_KEPT = 256 * 1024, SCROLLBACK_CHUNK = 64 * 1024 };

/* Room for kept bytes, whatever is cut. 0 or -ENOMEM. */
int scrollback_init(struct scrollback *s, size_t kept);
void scrollback_free(struct scrollback *s);

void scrollback_append(struct scrollback *s, const char *data, size_t len);

/* Lets go of what is kept beyond what was asked for. The next chunk then pushes nothing out, so
 * that one who begins to read at the beginning does not lose it before he has read a byte. */
void scrollback_make_room(struct scrollback *s);

/* The bytes at a position of what is kept, as far as they lie in one piece. */
size_t scrollback_at(const struct scrollback *s, uint64_t position, const char **ret);
