#include "init/session/exit_record.h"

#include <endian.h>
#include <string.h>

#include "base/auto.h"

/* The number of bytes taken; the record is at hand when its head is whole. */
static size_t take_head(struct last_word *w, const char *data, size_t len) {
    size_t n = MIN(len, LAST_WORD_HEAD - w->head_len);
    memcpy(w->head + w->head_len, data, n);
    w->head_len += n;
    if (w->head_len == LAST_WORD_HEAD) {
        memcpy(&w->left, w->head + 1, sizeof w->left);
        w->left = le32toh(w->left);
    }
    return n;
}

int last_word_find(struct last_word *w, const char *data, size_t len) {
    while (len > 0) {
        size_t n;
        if (w->head_len < LAST_WORD_HEAD) {
            n = take_head(w, data, len);
        } else {
            if (w->head[0] == LAST_WORD_KIND)
                return (unsigned char)data[0];
            n = MIN(len, (size_t)w->left);
            w->left -= (uint32_t)n;
        }
        if (w->head_len == LAST_WORD_HEAD && w->left == 0)
            w->head_len = 0;
        data += n;
        len -= n;
    }
    return -1;
}
