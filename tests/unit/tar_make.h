/* Tars for tests, byte by byte, so that they can say what no tool would write. Each program
 * includes it once. */
#pragma once

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"

enum { TAR_BLOCK_SIZE = 512 };

struct tar_entry {
    const char *name;
    char type; /* '0' file, '1' hard link, '2' symlink, '3' char, '4' block, '5' folder, '6' fifo */
    const char *link; /* or NULL */
    const char *data; /* a string, or NULL */
    unsigned mode;    /* 0: 0644, of folders 0755 */
    unsigned uid, gid;
    long mtime;      /* 0: 1000000 */
    const char *pax; /* records as they stand, or NULL */
};

_unused_ static void tar_pad(struct buf *b) {
    static const char zeroes[TAR_BLOCK_SIZE];
    buf_append(b, zeroes, (TAR_BLOCK_SIZE - b->len % TAR_BLOCK_SIZE) % TAR_BLOCK_SIZE);
}

static void tar_header(struct buf *b, const struct tar_entry *e, unsigned long long size) {
    char h[TAR_BLOCK_SIZE] = {0};
    unsigned sum = 0;
    unsigned mode = e->mode != 0 ? e->mode : e->type == '5' ? 0755 : 0644;
    memcpy(h, e->name, MIN(strlen(e->name), (size_t)100));
    (void)snprintf(h + 100, 8, "%07o", mode & 07777777);
    (void)snprintf(h + 108, 8, "%07o", e->uid & 07777777);
    (void)snprintf(h + 116, 8, "%07o", e->gid & 07777777);
    (void)snprintf(h + 124, 12, "%011llo", size & 077777777777);
    (void)snprintf(h + 136, 12, "%011lo",
                   (e->mtime != 0 ? (unsigned long)e->mtime : 1000000UL) & 077777777777);
    memset(h + 148, ' ', 8);
    h[156] = e->type;
    if (e->link != NULL)
        memcpy(h + 157, e->link, MIN(strlen(e->link), (size_t)100));
    memcpy(h + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof h; i++)
        sum += (unsigned char)h[i];
    (void)snprintf(h + 148, 7, "%06o", sum & 0777777);
    buf_append(b, h, sizeof h);
}

_unused_ static void tar_pax(struct buf *b, const char *records, size_t len) {
    const struct tar_entry e = {.name = "pax", .type = 'x'};
    tar_header(b, &e, len);
    buf_append(b, records, len);
    tar_pad(b);
}

/* Appends one record "LEN KEY=VALUE\n". */
_unused_ static void tar_record(struct buf *out, const char *key, const char *value) {
    size_t rest = strlen(key) + strlen(value) + 3, len = rest + 1;
    for (size_t digits; len != rest + (digits = (size_t)snprintf(NULL, 0, "%zu", len));)
        len = rest + digits;
    buf_printf(out, "%zu %s=%s\n", len, key, value);
}

_unused_ static void tar_add(struct buf *b, const struct tar_entry *e) {
    size_t len = e->data != NULL ? strlen(e->data) : 0;
    if (e->pax != NULL)
        tar_pax(b, e->pax, strlen(e->pax));
    tar_header(b, e, len);
    buf_append(b, e->data != NULL ? e->data : "", len);
    tar_pad(b);
}

_unused_ static void tar_end(struct buf *b) {
    static const char zeroes[2 * TAR_BLOCK_SIZE];
    buf_append(b, zeroes, sizeof zeroes);
}

/* A name of any length, by PAX. */
_unused_ static void tar_add_long(struct buf *b, const char *key, const char *value,
                                  const struct tar_entry *e) {
    _cleanup_(buf_free) struct buf records = BUF_INIT(1 << 20);
    tar_record(&records, key, value);
    tar_pax(b, records.data, records.len);
    tar_add(b, e);
}
