#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "imager/layer/layer_tar_parts.h"

enum {
    BLOCK = 512,
    PARTS_MAX = 1000 * 1000, /* beyond them holes are written as zeros */
    MAP_MAX = 64 * 1024 * 1024,
};

void sparse_free(struct sparse *s) {
    free(s->parts);
    *s = (struct sparse){0};
}

static int add_part(struct sparse *s, size_t *room, uint64_t at, uint64_t end) {
    if (s->count == *room) {
        size_t more = MAX(*room * 2, (size_t)64);
        struct sparse_part *parts = reallocarray(s->parts, more, sizeof *parts);
        if (parts == NULL)
            return -ENOMEM;
        s->parts = parts;
        *room = more;
    }
    s->parts[s->count++] = (struct sparse_part){at, end - at};
    return 0;
}

/* Parts begin and end at whole blocks, so that no padding comes between them; the last one ends
 * with the file. */
static int find_parts(int fd, uint64_t size, struct sparse *s) {
    size_t room = 0;
    uint64_t at = 0;
    int r = 0;
    while (r == 0 && at < size) {
        off_t data = lseek(fd, (off_t)at, SEEK_DATA);
        if (data < 0)
            return errno == ENXIO ? 0 : -errno; /* nothing but a hole up to the end */
        off_t hole = lseek(fd, data, SEEK_HOLE);
        if (hole < 0)
            return -errno;
        uint64_t begin = MAX((uint64_t)data / BLOCK * BLOCK, at);
        uint64_t end = s->count >= PARTS_MAX ? size : ((uint64_t)hole + BLOCK - 1) / BLOCK * BLOCK;
        end = MIN(end, size);
        r = begin < end ? add_part(s, &room, begin, end) : 0;
        at = end;
    }
    return r;
}

int sparse_find(int fd, const struct stat *st, struct sparse *ret) {
    uint64_t size = (uint64_t)st->st_size;
    *ret = (struct sparse){0};
    if ((uint64_t)st->st_blocks * BLOCK >= size) {
        size_t room = 0;
        return size == 0 ? 0 : add_part(ret, &room, 0, size);
    }
    return find_parts(fd, size, ret);
}

bool sparse_has_holes(const struct sparse *s, uint64_t size) {
    return size > 0 && !(s->count == 1 && s->parts[0].at == 0 && s->parts[0].len == size);
}

static void put_number(struct buf *pax, const char *key, uint64_t value) {
    char text[32];
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    ustar_put_record(pax, key, text, (size_t)n);
}

/* A file that ends with a hole has an empty part there. */
int sparse_put_records(const struct sparse *s, uint64_t size, struct buf *pax, struct buf *map,
                       uint64_t *ret_size) {
    uint64_t end = 0, bytes = 0;
    for (size_t i = 0; i < s->count; i++)
        end = s->parts[i].at + s->parts[i].len;
    bool open_end = s->count == 0 || end < size;
    *map = BUF_INIT(MAP_MAX);
    (void)buf_printf(map, "%zu\n", s->count + (open_end ? 1 : 0));
    for (size_t i = 0; i < s->count; i++) {
        (void)buf_printf(map, "%llu\n%llu\n", (unsigned long long)s->parts[i].at,
                         (unsigned long long)s->parts[i].len);
        bytes += s->parts[i].len;
    }
    if (open_end)
        (void)buf_printf(map, "%llu\n0\n", (unsigned long long)size);
    put_number(pax, "GNU.sparse.major", 1);
    put_number(pax, "GNU.sparse.minor", 0);
    put_number(pax, "GNU.sparse.realsize", size);
    *ret_size = (map->len + BLOCK - 1) / BLOCK * BLOCK + bytes;
    return map->failed ? -ENOMEM : 0;
}

int sparse_put_content(const struct sparse *s, int fd, const struct buf *map, struct tar_stream *t,
                       struct cay_error *err) {
    int r = tar_stream_content(t, map->data, map->len, err);
    for (size_t i = 0; r == 0 && i < s->count; i++) {
        if (lseek(fd, (off_t)s->parts[i].at, SEEK_SET) < 0)
            return error_errno(err, "reading");
        r = tar_stream_copy(t, fd, s->parts[i].len, err);
    }
    return r;
}
