#include "init/terminal/scrollback.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

int scrollback_init(struct scrollback *s, size_t kept) {
    *s = (struct scrollback){.size = kept + SCROLLBACK_CHUNK + VT_SEQUENCE_MAX};
    s->data = malloc(s->size);
    return s->data == NULL ? -ENOMEM : 0;
}

void scrollback_free(struct scrollback *s) {
    free(s->data);
    s->data = NULL;
}

/* At least so many bytes, and then up to where it may be cut. */
static void drop(struct scrollback *s, uint64_t count) {
    uint64_t least = s->begin + count;
    while (s->begin < s->end && (s->begin < least || !vt_is_between(&s->at_begin)))
        vt_feed(&s->at_begin, &s->data[s->begin++ % s->size], 1);
}

static void append_chunk(struct scrollback *s, const char *data, size_t len) {
    uint64_t used = s->end - s->begin;
    if (used + len > s->size)
        drop(s, used + len - s->size);
    size_t at = (size_t)(s->end % s->size), first = MIN(len, s->size - at);
    memcpy(s->data + at, data, first);
    memcpy(s->data, data + first, len - first);
    s->end += len;
}

void scrollback_append(struct scrollback *s, const char *data, size_t len) {
    vt_feed(&s->at_end, data, len);
    while (len > 0) {
        size_t part = MIN(len, (size_t)SCROLLBACK_CHUNK);
        append_chunk(s, data, part);
        data += part;
        len -= part;
    }
}

void scrollback_make_room(struct scrollback *s) {
    uint64_t room = s->size - (s->end - s->begin);
    if (room < SCROLLBACK_CHUNK)
        drop(s, SCROLLBACK_CHUNK - room);
}

size_t scrollback_at(const struct scrollback *s, uint64_t position, const char **ret) {
    size_t at = (size_t)(position % s->size);
    *ret = s->data + at;
    return position >= s->end ? 0 : (size_t)MIN(s->end - position, (uint64_t)(s->size - at));
}
