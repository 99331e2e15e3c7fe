#include "remote/demux.h"

/* Bytes 1 are of the mark of standard output, bytes 2 of that of standard error. */
static int mark_of(char c) {
    return c == 1 ? 0 : c == 2 ? 1 : -1;
}

static int flush(struct demux *d, demux_fn *fn, void *arg) {
    size_t len = d->held_len;
    d->held_len = 0;
    return len == 0 ? 0 : fn(arg, d->stream, d->held, len);
}

/* The plain bytes at the beginning. */
static size_t plain_length(const char *data, size_t len) {
    size_t n = 0;
    while (n < len && mark_of(data[n]) < 0)
        n++;
    return n;
}

int demux_take(struct demux *d, const char *data, size_t len, demux_fn *fn, void *arg) {
    int r = 0;
    while (len > 0 && r == 0) {
        bool goes_on = d->held_len == 0 || d->held[0] == data[0];
        if (mark_of(data[0]) < 0 || !goes_on) {
            r = flush(d, fn, arg);
            size_t n = plain_length(data, len);
            if (r == 0 && n > 0)
                r = fn(arg, d->stream, data, n);
            data += n;
            len -= n;
            continue;
        }
        d->held[d->held_len++] = *data++;
        len--;
        if (d->held_len == DEMUX_MARK) {
            d->stream = mark_of(d->held[0]);
            d->held_len = 0;
        }
    }
    return r;
}

int demux_end(struct demux *d, demux_fn *fn, void *arg) {
    return flush(d, fn, arg);
}
