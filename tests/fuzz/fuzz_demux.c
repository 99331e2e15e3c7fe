/* Any bytes as the logs of a command: in whatever pieces they come, they are taken apart alike. */
#include <stdint.h>
#include <stdlib.h>

#include "base/auto.h"
#include "remote/demux.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
    uint64_t hash[2], bytes;
};

static int add(void *arg, int stream, const char *data, size_t len) {
    struct sum *s = arg;
    if ((stream != 0 && stream != 1) || len == 0)
        abort();
    for (size_t i = 0; i < len; i++)
        s->hash[stream] = s->hash[stream] * 31 + (unsigned char)data[i] + 1;
    s->bytes += len;
    return 0;
}

static struct sum take_apart(const char *data, size_t size, size_t step) {
    struct sum s = {0};
    struct demux d = {0};
    for (size_t at = 0; at < size; at += step)
        (void)demux_take(&d, data + at, MIN(step, size - at), add, &s);
    (void)demux_end(&d, add, &s);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sum whole = take_apart((const char *)data, size, MAX(size, (size_t)1));
    struct sum single = take_apart((const char *)data, size, 1);
    if (whole.hash[0] != single.hash[0] || whole.hash[1] != single.hash[1] ||
        whole.bytes != single.bytes || whole.bytes > size)
        abort();
    return 0;
}
