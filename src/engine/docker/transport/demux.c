#include "engine/docker/transport/demux.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"

static int read_head(struct demux *d) {
    const unsigned char *h = d->head;
    if (h[0] > DEMUX_FAILURE || h[1] != 0 || h[2] != 0 || h[3] != 0)
        return -EPROTO;
    d->stream = (enum demux_stream)h[0];
    d->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
    d->head_len = 0;
    return 0;
}

int demux_take(struct demux *d, const unsigned char *data, size_t len, size_t *ret_used,
               enum demux_stream *ret_stream, size_t *ret_len) {
    size_t used = 0;
    while (d->left == 0 && used < len) {
        size_t n = MIN(len - used, DEMUX_HEADER - d->head_len);
        memcpy(d->head + d->head_len, data + used, n);
        d->head_len += n;
        used += n;
        int r = d->head_len == DEMUX_HEADER ? read_head(d) : 0;
        if (r < 0)
            return r;
    }
    size_t content = MIN(len - used, (size_t)d->left);
    d->left -= (uint32_t)content;
    *ret_used = used + content;
    *ret_stream = d->stream;
    *ret_len = content;
    return 0;
}
