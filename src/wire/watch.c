#include "wire/watch.h"

#include <string.h>

#include "base/auto.h"
#include "wire/client_exec.h"

static size_t payload_len(const unsigned char *h) {
    return (size_t)h[0] | (size_t)h[1] << 8 | (size_t)h[2] << 16 | (size_t)h[3] << 24;
}

static void begin_payload(struct wire_watch *w) {
    w->left = payload_len(w->header);
    w->is_end = w->header[4] == WIRE_DONE;
    w->is_over = w->left > WIRE_MESSAGE_MAX || w->header[4] == WIRE_ERROR ||
                 (w->is_end && w->left > sizeof w->end);
}

static size_t take_header(struct wire_watch *w, const char *data, size_t len) {
    size_t n = MIN(len, sizeof w->header - w->header_len);
    memcpy(w->header + w->header_len, data, n);
    w->header_len += n;
    if (w->header_len == sizeof w->header)
        begin_payload(w);
    return n;
}

static size_t take_payload(struct wire_watch *w, const char *data, size_t len) {
    size_t n = MIN(len, w->left);
    if (w->is_end) {
        memcpy(w->end + w->end_len, data, n);
        w->end_len += n;
    }
    w->left -= n;
    return n;
}

void wire_watch_see(struct wire_watch *w, const char *data, size_t len) {
    while (len > 0 && !w->is_over) {
        size_t n = w->header_len < sizeof w->header ? take_header(w, data, len)
                                                    : take_payload(w, data, len);
        data += n;
        len -= n;
        if (w->header_len < sizeof w->header || w->left > 0)
            continue;
        w->header_len = 0;
        w->is_over |= w->is_end; /* the last frame */
    }
}

bool wire_watch_end(const struct wire_watch *w, struct exec_outcome *ret) {
    struct wire_message m;
    if (!w->is_over || !w->is_end || w->left > 0 || wire_parse(w->end, w->end_len, &m) < 0 ||
        !m.present[WIRE_TAG_EXIT])
        return false;
    *ret = (struct exec_outcome){0};
    exec_read_end(&m, ret);
    return true;
}
