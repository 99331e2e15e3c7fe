/* What a stream of bytes for a terminal says, as far as it must be known to cut the stream in two
 * and to leave the terminal as it was: where characters and escape sequences begin and end, and
 * which lasting modes were set (the other screen, a hidden cursor, mouse reports, …). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

enum {
    VT_PARAMETERS = 16,
    VT_SEQUENCE_MAX = 4096, /* a longer one is not believed to be one */
};

/* All zero is a terminal that was just switched on. */
struct vt {
    uint32_t modes; /* those that are not as they were at the beginning */
    uint32_t length;
    uint16_t parameters[VT_PARAMETERS];
    uint8_t parameter_count;
    uint8_t state;
    uint8_t missing; /* bytes of the character */
    char mark;       /* '?' and the like in front of the parameters */
    char between;    /* the last intermediate byte */
};

void vt_feed(struct vt *v, const char *data, size_t len);

/* Whether the stream may be cut here. */
bool vt_is_between(const struct vt *v);

/* Whether it shows the other screen, as full-screen programs do. */
bool vt_has_other_screen(const struct vt *v);

/* What brings a fresh terminal into these modes. */
void vt_put_modes(const struct vt *v, struct buf *out);
/* The same for a terminal of which nothing is known. */
void vt_put_all_modes(const struct vt *v, struct buf *out);
/* What brings it back. */
void vt_put_reset(const struct vt *v, struct buf *out);
