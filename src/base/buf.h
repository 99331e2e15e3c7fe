/* A growable byte buffer that is born with its maximum. Whoever sizes it from outside cannot make
 * it larger than that: an append beyond fails and sets `failed`, and so do all after it, so that a
 * chain of appends needs one check at the end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"

struct buf {
    char *data; /* always NUL-terminated once anything was appended */
    size_t len;
    size_t cap;
    size_t max;
    bool failed;
    bool borrowed; /* data is somebody else's; given up when it is too small */
};

#define BUF_INIT(maximum) ((struct buf){.max = (maximum)})
/* Over an array of the caller's, which must outlive it. */
#define BUF_OVER(array, maximum)                                                                   \
    ((struct buf){.data = (array), .cap = sizeof(array), .max = (maximum), .borrowed = true})

/* Each returns 0, or -ENOBUFS (beyond the maximum) or -ENOMEM. */
int buf_append(struct buf *b, const void *data, size_t len);
int buf_puts(struct buf *b, const char *text);
int buf_putc(struct buf *b, char c);
int buf_printf(struct buf *b, const char *fmt, ...) _printf_(2, 3);

/* Makes room for len more bytes and returns where to put them; buf_commit() makes them part. */
char *buf_reserve(struct buf *b, size_t len);
void buf_commit(struct buf *b, size_t len);

/* Drops len bytes at the front. */
void buf_consume(struct buf *b, size_t len);

/* Empties it, keeps the memory. */
void buf_clear(struct buf *b);

/* Releases the memory; the buffer can be used again. */
void buf_free(struct buf *b);

/* The text, "" if empty; valid until the next change. */
const char *buf_text(const struct buf *b);

/* Hands the memory over as a NUL-terminated string; NULL if an append failed. */
char *buf_take(struct buf *b);
